"""The registry: a container with manners, narrowed by wrapping."""

from __future__ import annotations

import pytest

from foreplan import Principal, Registry, Tool, tool
from foreplan.policies.errors import BadInput, ToolRefused, UnknownTool


@tool(effect="reads")
def find(word: str) -> str:
    """Find."""
    return word


@tool(effect="writes", permissions=["crm:write"])
def update(word: str) -> str:
    """Update."""
    return word


@tool(permissions=["crm:write", "mail:send"])
def send(word: str) -> str:
    """Send."""
    return word


ALL = Registry(find, update, send)


def test_a_registry_is_a_container() -> None:
    """In, len, iteration in order, names, get, and a short repr."""
    assert "find" in ALL
    assert "fnd" not in ALL
    assert len(ALL) == 3
    assert list(ALL) == [find, update, send]
    assert ALL.names == ("find", "update", "send")
    assert (ALL["find"], ALL.get("find"), ALL.get("fnd")) == (find, find, None)
    assert (repr(ALL), repr(Registry(find))) == ("<Registry of 3 tools>", "<Registry of 1 tool>")


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    """The exception has the pieces, too."""
    with pytest.raises(UnknownTool, match="no tool is called 'updaet'; did you mean 'update'") as caught:
        ALL["updaet"]
    assert (caught.value.name, caught.value.nearest) == ("updaet", ("update",))


def test_tools_are_added_by_decorator() -> None:
    """With and without options."""
    registry = Registry()

    @registry.tool
    def one(x: int) -> int:
        return x

    @registry.tool(name="crm.two", effect="reads")
    def two(x: int) -> int:
        return x

    assert registry.names == ("one", "crm.two")
    assert registry["crm.two"] is two
    assert registry["one"] is one


def test_two_tools_cannot_have_one_name() -> None:
    """The error names both sources; the same tool twice is one tool."""
    other = Tool.declare("find", input_schema={}, origin="the server at crm.example")
    for clash in (
        lambda: Registry(find, other),
        lambda: ALL | Registry(other),
        lambda: Registry(find).add(other),
    ):
        with pytest.raises(
            ToolRefused, match=r"two tools are called 'find': .*\.find and the server at crm\.example"
        ):
            clash()
    assert len(ALL | Registry(find)) == 3
    assert (ALL | Registry(other).prefixed("crm.")).names == ("find", "update", "send", "crm.find")


def test_what_is_no_tool_is_refused() -> None:
    """With the next move."""
    with pytest.raises(ToolRefused, match="put @tool above the function"):
        Registry(find.function)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ALL | [find]


def test_a_registry_is_narrowed_by_effect_name_and_principal() -> None:
    """Each gives a new registry; the old one stays as it was."""
    clerk = Principal(id="clerk", permissions=("crm:*",))
    assert ALL.only(effect="reads").names == ("find",)
    assert ALL.only(effect=["reads", "writes"]).names == ("find", "update")
    assert ALL.only(names=["send", "find"]).names == ("find", "send")
    assert ALL.only(names="send").names == ("send",)
    assert ALL.only(permitted=clerk).names == ("find", "update")
    assert ALL.only(permitted=Principal(id="anyone"), effect="writes").names == ()
    assert len(ALL) == 3


def test_a_misspelt_name_does_not_silently_leave_a_tool_out() -> None:
    """A5: names in lists must exist."""
    with pytest.raises(UnknownTool, match="did you mean 'update'"):
        ALL.only(names=["updat"])
    with pytest.raises(BadInput, match="no effect 'readz'; there are reads"):
        ALL.only(effect="readz")


def test_only_what_may_be_seen_is_suggested() -> None:
    """P5: the nearest names are of permitted tools."""
    assert ALL.nearest("updat", Principal(id="anyone")) == []
    assert ALL.nearest("updat", Principal(id="clerk", permissions=("crm:write",))) == ["update"]
    assert ALL.nearest("updat") == ["update"]


def test_a_prefix_makes_other_tools_of_the_same_functions() -> None:
    """Name and fingerprint change, the function does not; a name that becomes too long is refused."""
    crm = ALL.prefixed("crm.")
    assert crm.names == ("crm.find", "crm.update", "crm.send")
    assert crm["crm.find"].function is find.function
    assert crm["crm.find"].fingerprint != find.fingerprint
    assert crm["crm.find"]("x") == "x"
    assert find.name == "find"
    with pytest.raises(ToolRefused, match="cannot name a tool"):
        ALL.prefixed("x" * 62)
