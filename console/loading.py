"""Tools and planners that the command line names: `module:attribute` or `path/to/file.py:attribute`.

What is named is the user's own code, and it may be wrong in every way. Whatever happens while it is imported becomes a
sentence with the line of their file. The current directory is importable, as with `python -m`.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import linecache
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from ..planner.planners import Planner
from ..planner.react import React
from ..policies.errors import BadInput, ForeplanError
from ..policies.text import did_you_mean, nearest
from ..registry.registry import Registry
from ..registry.sources import tools_of
from ..registry.tools import Tool
from .lines import plain

_T = TypeVar("_T")

__all__ = [
    "importable_here",
    "is_document",
    "load_authorize",
    "load_model",
    "load_planner",
    "load_registry",
    "place_in",
]


@contextmanager
def importable_here() -> Iterator[None]:
    """Put the current directory first on the path, as long as the command runs."""
    before = list(sys.path)
    sys.path.insert(0, os.getcwd())
    try:
        yield
    finally:
        sys.path[:] = before


def load_registry(spec: str) -> Registry:
    """The tools that `spec` names: a Registry, a Tool, tools in a list, or a function that gives one of these.

    `module:*` makes tools of the module's own functions; each acts, for nobody has said what it does.
    """
    if spec.endswith(":*"):
        return _guarded(lambda: tools_of(_module(spec[:-2])), f"{plain(spec[:-2], 100)} has no tools")
    where, name, value = _load(spec, "registry", Registry)
    return _registry(_made(value, where, name, (Registry, Tool)), where, name)


def is_document(spec: str) -> bool:
    """Whether it names a document, and not a module."""
    return spec.startswith(("http://", "https://")) or spec.lower().endswith((".json", ".yaml", ".yml"))


def load_planner(spec: str) -> Planner:
    """The planner that `spec` names: an object with `plan` and `replan`, or a function that gives one."""
    where, name, value = _load(spec, "planner", None)
    planner: Planner = value if _is_planner(value) else _made(value, where, name, ())
    if not _is_planner(planner):
        raise BadInput(
            f"{name!r} of {where} is {_a(planner)}, and no planner: a planner has the methods `plan` and `replan`; "
            "foreplan.FunctionPlanner makes one of two functions"
        )
    return planner


def load_authorize(spec: str) -> Callable[..., Any]:
    """The function that `spec` names, which is asked before each attempt of a call."""
    where, name, value = _load(spec, "authorize", None)
    if not callable(value):
        raise BadInput(f"{name!r} of {where} is {_a(value)}, and no function that can be asked")
    function: Callable[..., Any] = value
    return function


def load_model(spec: str) -> React:
    """The model that `spec` names: a `React`, an object with `agenerate`, or a function that gives one of these."""
    where, name, value = _load(spec, "model", React)
    if not isinstance(value, React) and not _is_model(value):
        value = _made(value, where, name, ())
    if isinstance(value, React):
        return value
    if not _is_model(value):
        raise BadInput(
            f"{name!r} of {where} is {_a(value)}, and no model: a model has an async method `agenerate`; "
            "React(model) says how it is asked"
        )
    return React(value)


def _is_model(value: Any) -> bool:
    return not isinstance(value, type) and callable(getattr(value, "agenerate", None))


def _is_planner(value: Any) -> bool:
    return not isinstance(value, type) and all(
        callable(getattr(value, method, None)) for method in ("plan", "replan")
    )


def _registry(value: Any, where: str, name: str) -> Registry:
    if isinstance(value, Registry):
        return value
    tools = [value] if isinstance(value, Tool) else list(value) if isinstance(value, Iterable) else None
    if tools is None:
        raise BadInput(f"{name!r} of {where} is {_a(value)}, and no Registry, nor a list of tools")
    for tool in tools:
        if not isinstance(tool, Tool):
            fix = "; put @tool above it" if inspect.isfunction(tool) else ""
            raise BadInput(f"{name!r} of {where} holds {_a(tool)} that is no tool{fix}")
    return Registry(*tools)


def _made(value: Any, where: str, name: str, kinds: tuple[type, ...]) -> Any:
    """What a function without arguments gives, where one is named; anything else as it is."""
    if isinstance(value, kinds) or not callable(value) or isinstance(value, Iterable):
        return value
    try:
        inspect.signature(value).bind()
    except (TypeError, ValueError):
        fix = "; put @tool above it, and name the module's registry" if inspect.isfunction(value) else ""
        raise BadInput(f"{name!r} of {where} is {_a(value)} that needs arguments{fix}") from None
    made = _guarded(value, f"{name}() of {where} failed")
    if inspect.iscoroutine(made):
        made.close()
        raise BadInput(f"{name!r} of {where} is an async function; give one that returns at once")
    return made


def _a(value: Any) -> str:
    """What a value is, for a sentence."""
    if inspect.isfunction(value) or inspect.isbuiltin(value):
        return f"a function {plain(getattr(value, '__name__', ''), 60)!r}"
    if inspect.ismodule(value):
        return f"a module {plain(value.__name__, 60)!r}"
    if isinstance(value, type):
        return f"a class {plain(value.__name__, 60)!r}"
    return "None" if value is None else f"a Python {type(value).__name__}"


# ---------------------------------------------------------------------------------------------- modules and attributes


def _load(spec: str, default: str, kind: type | None) -> tuple[str, str, Any]:
    """Where the attribute lives, its name, and the attribute."""
    where, _, name = spec.partition(":") if ":" in spec else (spec, "", "")
    if not where:
        raise BadInput(
            f"'{plain(spec, 100)}' names no module; write module:{default} or path/to/file.py:{default}"
        )
    module = _module(where)
    shown = plain(where, 100)
    return shown, name or default, _attribute(module, shown, name or default, kind)


def _attribute(module: ModuleType, where: str, name: str, kind: type | None) -> Any:
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            raise BadInput(f"{where} has no attribute {plain(name, 60)!r}{_instead(module, name, kind)}")
        value = getattr(value, part)
    return value


def _instead(module: ModuleType, name: str, kind: type | None) -> str:
    """The nearest name; else the names of what is of the right kind."""
    public = [n for n in vars(module) if not n.startswith("_")]
    right = [n for n in public if kind is not None and isinstance(vars(module)[n], kind)]
    if near := did_you_mean(name, public):
        return near
    if right:
        return f"; it has {', '.join(map(repr, right))}"
    own = [n for n in public if inspect.isfunction(vars(module)[n])]
    return (
        "; with :* in its place tools are made of the module's functions" if kind is Registry and own else ""
    )


def _module(where: str) -> ModuleType:
    if where.endswith(".py") or os.sep in where:
        return _from_file(where)
    return _guarded(lambda: _by_name(where), f"{plain(where, 100)} does not import")


def _by_name(where: str) -> ModuleType:
    if not all(part.isidentifier() for part in where.split(".")):
        raise _absent(where)
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{where}.".startswith(f"{error.name}."):
            raise _absent(where) from None
        raise


def _absent(where: str) -> BadInput:
    here = sorted({path.stem if path.suffix == ".py" else path.name for path in _modules_here()})
    file = nearest(where, [path.name for path in _modules_here() if path.suffix == ".py"])
    name = plain(where, 100)
    if near := did_you_mean(where, here):
        return BadInput(f"there is no module '{name}'{near}")
    return BadInput(
        f"there is no module '{name}' here or among what is installed"
        + (f"; did you mean the file {file[0]!r}?" if file else "; a file is named path/to/file.py:attribute")
    )


def _modules_here() -> list[Path]:
    try:
        return [path for path in Path().iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()]
    except OSError:
        return []


def _from_file(where: str) -> ModuleType:
    path, shown = Path(where), plain(where, 200)
    if path.is_dir():
        raise BadInput(f"'{shown}' is a directory; name a Python file in it")
    if not path.is_file():
        here = sorted(p.name for p in path.parent.iterdir()) if path.parent.is_dir() else []
        raise BadInput(f"there is no file '{shown}'{did_you_mean(path.name, here)}")
    real = os.path.realpath(path)
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) and os.path.realpath(str(module.__file__)) == real:
            return module
    return _guarded(lambda: _executed(real), f"{shown} does not import")


def _executed(path: str) -> ModuleType:
    """Run a file as a module under its own name, with its folder importable, as `python path` would."""
    folder, file = os.path.split(path)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = os.path.splitext(file)[0]
    if not name.isidentifier() or name in sys.modules or name in sys.stdlib_module_names:
        name = f"{name}_{sha256(path.encode('utf-8', 'replace')).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadInput(f"'{plain(path, 200)}' is no Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


# ---------------------------------------------------------------------------------------------- what went wrong, and where


def _guarded(function: Callable[[], _T], title: str) -> _T:
    """Call the user's code; what it raises becomes a `BadInput` with the place in their files."""
    try:
        return function()
    except BadInput as error:
        if place := place_in(error):
            raise BadInput(f"{title}: {place}: {error}") from error
        raise
    except SystemExit as error:
        place = place_in(error) or "somewhere"
        raise BadInput(f"{title}: it tried to end the program ({place})") from error
    except Exception as error:
        raise BadInput(f"{title}: {_said(error)}") from error


def _said(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        source = f"\n{_excerpt(error.lineno, error.text)}" if error.text else ""
        return (
            f"{plain(os.path.basename(error.filename or ''), 60)}, line {error.lineno}: {error.msg}{source}"
        )
    message = str(error) if isinstance(error, ForeplanError) else f"{type(error).__name__}: {error}"
    place = place_in(error)
    return f"{place}: {message}{_source(error)}" if place else message


def place_in(error: BaseException) -> str:
    """`tools.py, line 12`: the last line of the user's own code that an exception passed; empty where there is none."""
    frame = _own_frame(error)
    return f"{plain(os.path.basename(frame.filename), 60)}, line {frame.lineno}" if frame else ""


def _source(error: BaseException) -> str:
    frame = _own_frame(error)
    text = linecache.getline(frame.filename, frame.lineno or 0) if frame else ""
    return f"\n{_excerpt(frame.lineno, text)}" if frame and text.strip() else ""


def _excerpt(number: int | None, text: str | None) -> str:
    return f"{number or 0:>6} | {plain((text or '').rstrip(), 100)}"


def _own_frame(error: BaseException) -> traceback.FrameSummary | None:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not _is_foreign(f.filename)]
    return frames[-1] if frames else None


_FOREPLAN = str(Path(__file__).resolve().parents[1])
_ROOMS = tuple(
    os.path.join(_FOREPLAN, room) + os.sep
    for room in ("policies", "registry", "planner", "executor", "console")
)


def _is_foreign(filename: str) -> bool:
    """Whether a line belongs to Python, to an installed library or to foreplan, and so is not the user's to mend."""
    if filename.startswith("<"):
        return True
    path = os.path.realpath(filename)
    return (
        path.startswith(_ROOMS)
        or "site-packages" in path
        or path.startswith(os.path.dirname(os.__file__) + os.sep)
    )
