"""Tools of Python code that is there already: what can be a tool becomes one, what cannot is told, nothing of it is run."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.shell import Shell

from foreplan import Effect, Engine, Kind, Plan, Policies, Retry, tool, tools_of
from foreplan.policies.errors import BadInput, ToolRefused
from foreplan.registry.sources import FoundTools

SHOP = '''
"""A shop that knows nothing of plans."""
from math import sqrt
from os.path import join

def price(article: str) -> float:
    """What an article costs.

    Args:
        article: its name
    """
    return len(article) * 1.5

async def sell(article: str, count: int = 1) -> dict[str, int]:
    return {article: count}

def untyped(article):
    return article

def _private(article: str) -> str:
    return article

class Account:
    pass
'''


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module of somebody's."""
    (tmp_path / "some_shop.py").write_text(SHOP)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("some_shop")
    del sys.modules["some_shop"]


def left_out(found: FoundTools) -> dict[str, str]:
    return {finding.tool: finding.code for finding in found.findings}


class Ledger:
    """An object with methods; whoever reads its property sees it burst."""

    def __init__(self, start: float) -> None:
        self.amount = start

    @property
    def secret(self) -> float:
        raise AssertionError("nobody may read this")

    def balance(self) -> float:
        """What is there."""
        return self.amount

    def pay(self, amount: float) -> float:
        """Pay."""
        self.amount -= amount
        return self.amount

    @staticmethod
    def currency() -> str:
        return "EUR"

    @classmethod
    def kind(cls) -> str:
        return cls.__name__

    def walk(self, *steps: int) -> int:
        return len(steps)


def test_the_public_functions_of_a_module_become_tools(shop: ModuleType) -> None:
    """Those that it defines and that say their types; the others are told, what it imported is not its own."""
    found = tools_of(shop, prefix="shop.")
    assert found.names == ("shop.price", "shop.sell")
    assert left_out(found) == {"untyped": "not_a_tool"}
    assert "no annotation; write what it takes, like article: str" in found.findings[0].message
    made = found["shop.price"]
    assert (made.effect, made.description, made.origin) == (
        Effect.ACTS,
        "What an article costs.",
        "some_shop.price",
    )
    assert made.input.document["properties"]["article"]["description"] == "its name"
    assert (
        made.source_digest
        == tools_of(shop)["price"].source_digest
        == tool(shop.price).source_digest
        is not None
    )


def test_all_that_a_module_offers_by_name_counts(shop: ModuleType) -> None:
    """`__all__` is what a module says of itself; an imported function may stand there."""
    shop.__all__ = ["price", "join", "nothing_here"]  # type: ignore[attr-defined]
    found = tools_of(shop)
    assert (found.names, left_out(found)) == (("price",), {"join": "not_a_tool"})


def test_the_operator_says_what_a_function_does(shop: ModuleType) -> None:
    """By name, or for all; a misspelt name is no silent loss."""
    found = tools_of(
        shop,
        names=["price", "sell"],
        effects={"price": "reads"},
        options={"sell": {"level": "high"}},
        permissions="shop:use",
    )
    assert {t.name: (t.effect.value, t.level.value, t.permissions) for t in found} == {
        "price": ("reads", "low", ("shop:use",)),
        "sell": ("acts", "high", ("shop:use",)),
    }
    with pytest.raises(BadInput, match="has no tool 'prise'; did you mean 'price'"):
        tools_of(shop, effects={"prise": "reads"})
    with pytest.raises(ToolRefused, match="did you mean 'permissions'"):
        tools_of(shop, permission="x")
    with pytest.raises(ToolRefused, match="there are reads, writes, acts"):
        tools_of(shop, effect="read")
    with pytest.raises(ToolRefused, match="has no parameter 'key'"):
        tools_of(shop, options={"price": {"secret_refs": {"key": "K"}}})


def test_the_methods_of_an_object_become_tools() -> None:
    """They share the object; no property is read, what takes *arguments is told, and a plan runs with the rest."""
    found = tools_of(Ledger(10), effects={"balance": "reads", "kind": "reads"})
    assert (found.names, left_out(found)) == (("balance", "currency", "kind", "pay"), {"walk": "not_a_tool"})
    steps = [
        {"id": "paid", "tool": "pay", "args": {"amount": 3}},
        {"id": "left", "tool": "balance", "after": ["paid"]},
        {"id": "kind", "tool": "kind"},
    ]
    run = Engine(found, policies=Policies(approve="never")).run_blocking(
        Plan.model_validate({"steps": steps})
    )
    assert (run["paid"], run["left"], run["kind"]) == (7, 7, "Ledger")


def test_of_a_class_only_what_needs_no_object_becomes_a_tool() -> None:
    """No object is made behind anybody's back."""
    found = tools_of(Ledger)
    assert found.names == ("currency", "kind")
    assert left_out(found) == dict.fromkeys(("balance", "pay", "walk"), "needs_an_object")
    assert found.findings[0].message == "make an object: tools_of(Ledger(…))"


def test_what_is_a_tool_already_comes_as_it_is() -> None:
    """With what it says of itself, which nobody can say otherwise here."""

    @tool(effect="reads", name="look_up")
    def look(word: str) -> str:
        return word

    found = tools_of([look, len], prefix="a.")
    assert (found.names, found["a.look_up"].effect, left_out(found)) == (
        ("a.look_up",),
        Effect.READS,
        {"len": "not_a_tool"},
    )
    with pytest.raises(BadInput, match="is a tool already, and says itself what it does"):
        tools_of([look], effects={"look_up": "acts"})


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("shop", "not 'shop'; import it, and hand in the module itself"),
        (None, "not None"),
        (object(), "this object has no public function$"),
        (ModuleType("bare"), "of its own; hand in a list of those it imports"),
        ([3], "tools are made of functions, not of 3"),
        ([len, len], "two of the functions are called 'len'"),
    ],
)
def test_what_holds_no_functions_is_refused_with_a_sentence(source: Any, said: str) -> None:
    """And with the next move, where there is one."""
    with pytest.raises(BadInput, match=said):
        tools_of(source)


@pytest.mark.parametrize(
    "name", ["math", "json", "textwrap", "shutil", "packaging.utils", "anyio", "asyncio"]
)
def test_modules_that_nobody_here_wrote_load_or_tell(name: str) -> None:
    """Each public function is a tool or has a finding, and nothing bursts."""
    module = importlib.import_module(name)
    found = tools_of(module)
    public = {n for n in getattr(module, "__all__", vars(module)) if not n.startswith("_")}
    named = {*found.names, *left_out(found)}
    assert named
    assert named <= public
    assert all(finding.message and not finding.loaded for finding in found.findings)


# --- Pydantic AI.


def pydantic_tools() -> Any:
    """One of its tools in a toolset, and one that only an agent can call."""
    pydantic_ai = pytest.importorskip("pydantic_ai")
    toolset = pydantic_ai.FunctionToolset()

    def wire(amount: float) -> str:
        """Wire money."""
        if amount > 100:
            raise pydantic_ai.ModelRetry("not over 100")
        return f"sent {amount:g}"

    def of_agent(ctx: Any, word: str) -> str:
        return word

    toolset.add_tool(pydantic_ai.Tool(wire, requires_approval=True, timeout=7))
    of_agent.__annotations__ = {"ctx": pydantic_ai.RunContext[None], "word": str, "return": str}
    toolset.add_tool(pydantic_ai.Tool(of_agent))
    return toolset


def test_tools_of_pydantic_ai_become_tools() -> None:
    """What makes them stricter is kept; one that needs an agent is told."""
    toolset = pydantic_tools()
    found = tools_of(toolset, prefix="bank.")
    made = found["bank.wire"]
    assert (made.effect, made.requires_approval, made.timeout, made.description) == (
        Effect.ACTS,
        "each",
        7,
        "Wire money.",
    )
    assert left_out(found) == {"of_agent": "needs_an_agent"}
    assert tools_of([toolset.tools["wire"]]).names == tools_of(toolset.tools["wire"]).names == ("wire",)
    with pytest.raises(BadInput, match="hand in the functions, or the FunctionToolset beneath it"):
        tools_of(toolset.prefixed("a"))


def test_what_such_a_tool_says_no_with_is_a_failure_that_did_not_happen() -> None:
    """`ModelRetry` asks for other arguments: that is bad_args, and nothing has been done."""
    toolset = pydantic_tools()
    found = tools_of(toolset, names=["wire"], requires_approval=False)
    engine = Engine(found, policies=Policies(approve="never", retry=Retry(attempts=1)))
    steps = [{"id": "a", "tool": "wire", "args": {"amount": n}, "on_failure": "skip"} for n in (50, 500)]
    first, second = (engine.run_blocking(Plan.model_validate({"steps": [step]})) for step in steps)
    assert first["a"] == "sent 50"
    [(_, failure)] = second.failures
    assert (failure.kind, failure.happened.value, failure.message) == (Kind.BAD_ARGS, "no", "not over 100")


# --- The command line.


def test_a_module_without_a_registry_serves_the_command_line(
    shop: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`module:*` makes tools of its functions, and shows what was left out; without it the error says so."""
    shell = Shell(tmp_path, capsys)
    said = shell.here("tools", "--tools", "some_shop:*").out
    assert "price  acts" in said
    assert "untyped  parameter 'article'" in said
    document = shell.here("tools", "--tools", "some_shop:*", "--json").document
    assert [found["tool"] for found in document["findings"]] == ["untyped"]
    without = shell.here("tools", "--tools", "some_shop").err
    assert "with :* in its place tools are made of the module's functions" in without
