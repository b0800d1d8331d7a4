"""What is installed is what the repository holds, and its public names are the ones it says."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from rooms import ROOMS, ROOT
from support.wheels import build_wheel, tracked

import foreplan

HEAVY = [
    "anyio",
    "jsonschema",
    "networkx",
    "pydantic",
    "rfc8785",
    "rich",
    "typer",
    "yaml",
    "asyncio",
    "sqlite3",
]

needs_checkout = pytest.mark.skipif(
    not tracked(ROOT), reason="not a git checkout, so nothing says what is tracked"
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the tracked files."""
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


def run_python(code: str, *, cwd: Path, path: Path | None = None) -> str:
    """What Python prints for `code`, run away from the repository, with the package that these tests import."""
    environment = {**os.environ, "PYTHONPATH": str(path or Path(foreplan.__file__).parents[1])}
    command = [sys.executable, "-P", "-W", "error", "-c", code]
    ran = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert ran.stderr == ""
    return ran.stdout


def is_packaged(name: str) -> bool:
    """Whether a tracked file belongs to the package: modules of the root and of the rooms, and the type marker."""
    top = name.split("/")[0]
    return name == "py.typed" or (name.endswith(".py") and (top in ROOMS or "/" not in name))


@needs_checkout
def test_the_wheel_holds_exactly_the_tracked_files_of_the_package(wheel: Path) -> None:
    """A new package that pyproject.toml does not list, or a left-over, would show here."""
    names = [n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n]
    assert sorted(names) == sorted(f"foreplan/{n}" for n in tracked(ROOT) if is_packaged(n))


@needs_checkout
def test_the_wheel_carries_its_licence_and_its_command(wheel: Path) -> None:
    """Whoever gets the wheel gets the licence text and `foreplan`."""
    with zipfile.ZipFile(wheel) as archive:
        by_end = {n.partition(".dist-info/")[2]: n for n in archive.namelist()}
        assert "MIT License" in archive.read(by_end["licenses/LICENSE"]).decode()
        assert "foreplan = foreplan.__main__:main" in archive.read(by_end["entry_points.txt"]).decode()


@needs_checkout
def test_every_module_of_the_wheel_imports_without_the_source_tree(wheel: Path, tmp_path: Path) -> None:
    """The unpacked wheel is whole: each module imports, without a warning, from the wheel and not from here."""
    zipfile.ZipFile(wheel).extractall(tmp_path)
    names = [
        n.removesuffix(".py").replace("/", ".")
        for n in zipfile.ZipFile(wheel).namelist()
        if n.endswith(".py")
    ]
    modules = [n.removesuffix(".__init__") for n in names if not n.endswith("__main__")]
    code = f"import importlib, json\nprint(json.dumps([importlib.import_module(m).__file__ for m in {modules!r}]))"
    files = json.loads(run_python(code, cwd=tmp_path, path=tmp_path))
    assert [f for f in files if not Path(f).is_relative_to(tmp_path)] == []


def test_every_public_name_resolves() -> None:
    """`__all__` promises nothing that is not there."""
    assert [name for name in foreplan.__all__ if getattr(foreplan, name, None) is None] == []


def test_the_table_of_names_is_the_one_that_type_checkers_read() -> None:
    """What is imported under TYPE_CHECKING, what the lazy table says, and `__all__` are the same names."""
    tree = ast.parse((ROOT / "__init__.py").read_text())
    seen = {
        (str(node.module), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
    }
    assert seen == {(module, name) for module, names in foreplan._HOMES.items() for name in names}
    assert sorted(name for _, name in seen) == foreplan.__all__


def test_a_name_is_not_also_the_name_of_a_module() -> None:
    """No public name is hidden by a module called like it once that module is imported."""
    modules = {p.stem for p in ROOT.glob("*.py")} | set(ROOMS)
    assert set(foreplan.__all__) & modules == set()


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    """A misspelt name fails as for any module."""
    with pytest.raises(AttributeError, match="has no attribute 'Enginee'"):
        foreplan.Enginee  # noqa: B018


def test_dir_lists_the_public_names_before_they_are_used() -> None:
    """Completion in a console works from the start."""
    assert set(foreplan.__all__) <= set(dir(foreplan))


def test_importing_the_package_loads_nothing_heavy(tmp_path: Path) -> None:
    """`import foreplan` costs next to nothing, and reading its version does not load it."""
    code = f"import sys, foreplan; foreplan.__version__; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert run_python(code, cwd=tmp_path).strip() == "[]"


def test_the_plan_document_loads_only_what_it_needs(tmp_path: Path) -> None:
    """A program that only holds plans does not pay for the graph, the schemas, YAML or the terminal."""
    code = f"import sys; from foreplan import Plan; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert json.loads(run_python(code, cwd=tmp_path).replace("'", '"')) == ["pydantic"]


def test_the_version_is_that_of_the_distribution() -> None:
    """One place says the version: pyproject.toml."""
    assert f'version = "{foreplan.__version__}"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize("room", ROOMS)
def test_each_module_says_what_it_offers(room: str) -> None:
    """Every module with public definitions has `__all__`, and each name in it is there."""
    for path in sorted((ROOT / room).rglob("*.py")):
        name = ".".join(["foreplan", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__")
        module = importlib.import_module(name)
        assert [n for n in getattr(module, "__all__", []) if not hasattr(module, n)] == [], name


def test_a_first_plan_runs_without_what_it_does_not_need(tmp_path: Path) -> None:
    """A sound plan of plain tools loads neither networkx (for rings) nor jsonschema (for what is wrong), nor the console."""
    code = """
import sys
from foreplan import Engine, Plan, tool

@tool(effect="reads")
def double(n: int, times: int = 1) -> int:
    return 2 * n * times

steps = [{"id": "a", "tool": "double", "args": {"n": 1}}, {"id": "b", "value": {"$": "a + 1"}}]
assert Engine([double]).run_blocking(Plan.model_validate({"steps": steps}))["b"] == 3
"""
    later = ("jsonschema", "networkx", "rich", "typer", "yaml", "sqlite3")
    said = run_python(f"{code}\nprint([m for m in {later!r} if m in sys.modules])", cwd=tmp_path)
    assert said.strip() == "[]"
