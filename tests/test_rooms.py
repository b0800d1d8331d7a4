"""The rooms stand in a straight line, each library has one home, and nothing in the package runs text as code."""

from __future__ import annotations

import ast
import subprocess
import sys
from itertools import pairwise

import pytest
from rooms import ROOMS, Import, diagram, imports_of, modules, room_of

MODULES = modules()
IMPORTS = [found for name, path in MODULES.items() for found in imports_of(name, path)]

HOMES = {
    "anthropic": ("foreplan.planner.models.anthropic_model",),
    "anyio": (
        "foreplan.executor",
        "foreplan.planner.models.local_model",
        "foreplan.registry.egress.transport",
        "foreplan.registry.processes",
        "foreplan.planner.models.retrying",
        "foreplan.console.served",
    ),
    "cryptography": ("foreplan.policies.signing",),
    "httpcore2": ("foreplan.registry.egress.transport",),
    "httpx2": ("foreplan.registry.egress", "foreplan.planner.models.telling"),
    "jsonschema": ("foreplan.registry.schema",),
    "keyring": ("foreplan.registry.vaults",),
    "opentelemetry": ("foreplan.executor.telemetry",),
    "mcp": ("foreplan.executor.mcp_session", "foreplan.console.served"),
    "networkx": ("foreplan.planner.graph",),
    "openai": ("foreplan.planner.models.openai_model",),
    "pydantic": ("foreplan",),
    "pydantic_ai": ("foreplan.planner.models.pydantic_ai_model",),
    "pydantic_core": (
        "foreplan.executor.journal.records",
        "foreplan.policies.canonical",
        "foreplan.policies.secrets",
    ),
    "referencing": ("foreplan.registry.schema",),
    "rfc8785": ("foreplan.policies.canonical",),
    "rich": ("foreplan.console",),
    "typer": ("foreplan.console.app", "foreplan.console.options"),
    "typing_extensions": ("foreplan.registry.tools",),
    "uvicorn": ("foreplan.console.served.doors",),
    "xllamacpp": ("foreplan.planner.models.llama_child",),
    "yaml": ("foreplan.planner.sources",),
}
"""Each third-party library and where it is at home: a module, or a room with all its modules."""

PURE = [
    "foreplan.policies.policies",
    "foreplan.policies.expressions",
    "foreplan.registry.registry",
    "foreplan.registry.tools",
    "foreplan.planner.plan",
    "foreplan.planner.checking",
    "foreplan.planner.reviewing",
    "foreplan.planner.patches",
    "foreplan.executor.events",
    "foreplan.executor.mind.mind",
]
"""What must work, and be testable, without an event loop."""


def _where(found: Import) -> str:
    return f"{found.module}:{found.line} imports {found.target}"


def _top(module: str | None) -> str:
    return (module or "").split(".")[0]


def _absolute(node: ast.Import | ast.ImportFrom) -> list[str]:
    """What a statement imports by its full name."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [] if node.level else [node.module or ""]


def _belongs(module: str, homes: tuple[str, ...]) -> bool:
    return any(module == home or module.startswith(f"{home}.") for home in homes)


def test_a_room_imports_only_rooms_to_its_left() -> None:
    """policies <- registry <- planner <- executor <- console, also in functions and under TYPE_CHECKING."""
    order = list(ROOMS)
    pairs = [(room_of(i.module), room_of(i.target), i) for i in IMPORTS]
    assert [_where(i) for a, b, i in pairs if a and b and order.index(b) > order.index(a)] == []


WALLS = {
    "foreplan.executor.mind": ("mind", "events"),
    "foreplan.executor.journal": ("journal", "events", "wake"),
    "foreplan.executor.hands": ("hands", "mind", "events", "wake"),
}
"""What the folders of the executor know of the room around them: each of them a part of the picture on its own."""


@pytest.mark.parametrize("folder", WALLS)
def test_mind_and_journal_know_nothing_of_each_other_or_of_hands(folder: str) -> None:
    """The mind decides without knowing how anything is done or kept; the journal keeps what it does not understand."""
    inside = [i for i in IMPORTS if i.module.startswith(f"{folder}.")]
    assert inside
    others = [i for i in inside if i.target.startswith("foreplan.executor.")]
    assert [_where(i) for i in others if i.target.split(".")[2] not in WALLS[folder]] == []


def test_the_mind_has_neither_clock_nor_dice_nor_files() -> None:
    """Time and chance arrive inside events, and nothing waits."""
    worldly = {
        "anyio",
        "asyncio",
        "os",
        "pathlib",
        "random",
        "secrets",
        "socket",
        "sqlite3",
        "threading",
        "time",
    }
    minds = [i for i in IMPORTS if i.module.startswith("foreplan.executor.mind.")]
    assert [_where(i) for i in minds if _top(i.target) in worldly] == []


def test_a_room_imports_the_others_relatively() -> None:
    """The package is the root of the repository, so only relative imports work under any name of the folder."""
    absolute = [
        f"{name}:{node.lineno}"
        for name, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        if {_top(written) for written in _absolute(node)} & {"foreplan", *ROOMS}
    ]
    assert absolute == []


def test_a_room_does_not_import_the_package_around_it() -> None:
    """Only what stands beside the rooms may speak of all of them: the root names, it is not named."""
    assert [_where(i) for i in IMPORTS if room_of(i.module) and i.target == "foreplan"] == []


def test_each_library_has_one_home() -> None:
    """A third-party library is imported where it is at home and nowhere else; a new one needs a line above."""
    foreign = [i for i in IMPORTS if _top(i.target) not in {"foreplan", *sys.stdlib_module_names}]
    assert [_where(i) for i in foreign if not _belongs(i.module, HOMES.get(_top(i.target), ()))] == []


def test_every_home_is_lived_in() -> None:
    """The table above names no library that nothing imports."""
    assert {_top(i.target) for i in IMPORTS} >= set(HOMES)


@pytest.mark.parametrize(
    "module", ["pickle", "marshal", "shelve", "dill", "cloudpickle", "imp", "code", "runpy"]
)
def test_nothing_is_loaded_that_could_run_code(module: str) -> None:
    """No format is read that can carry code."""
    assert [_where(i) for i in IMPORTS if _top(i.target) == module] == []


def test_no_text_is_run_as_code() -> None:
    """The package calls neither eval nor exec nor compile: an expression is interpreted by us."""
    calls = [
        f"{name}:{node.lineno} {node.func.id}"
        for name, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id in {"eval", "exec", "compile", "__import__"}
    ]
    assert calls == []


def test_the_modules_import_each_other_in_no_circle() -> None:
    """No module imports, even by way of others, itself: no import hides in a function to break a circle."""
    links = {
        name: {t for i in imports_of(name, path) if (t := i.target) in MODULES}
        for name, path in MODULES.items()
    }
    del links["foreplan"]
    assert _circle(links) == []


def _circle(links: dict[str, set[str]]) -> list[str]:
    """The names left when those that import nothing left are taken away, again and again."""
    left = dict(links)
    while free := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in free:
            del left[name]
    return sorted(left)


@pytest.mark.parametrize("module", PURE)
def test_the_mind_has_no_hands(module: str) -> None:
    """Policies, registry, plan language, check and `advance` load no event loop, not even indirectly."""
    code = f"import sys, {module}; print([m for m in ('anyio', 'trio', 'asyncio') if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert (ran.stdout.strip(), ran.stderr) == ("[]", "")


def test_the_picture_of_the_rooms_names_each() -> None:
    """The diagram in the documentation comes from the same source as these tests."""
    assert all(room in diagram() for room in ROOMS)


def test_the_order_of_the_rooms_is_the_one_everyone_knows() -> None:
    """Moving a room is a decision, not an edit."""
    assert list(pairwise(ROOMS)) == [
        ("policies", "registry"),
        ("registry", "planner"),
        ("planner", "executor"),
        ("executor", "console"),
    ]
