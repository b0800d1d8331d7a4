"""A registry is narrowed by wrapping: small steps that give new registries and go one after the other."""

from __future__ import annotations

from typing import Any

import pytest

from foreplan import Effect, Level, Principal, Registry, Tool
from foreplan.policies.errors import BadInput, ToolRefused, UnknownTool

EMPTY = {"type": "object", "properties": {}}


def declared(name: str, **options: Any) -> Tool:
    return Tool.declare(name, f"Do {name}.", input_schema=EMPTY, **options)


FIND = declared("find", effect="reads", tags=["people", "search"])
UPDATE = declared("update", effect="writes", tags=["people"], permissions=["crm:write"], undo="restore")
RESTORE = declared("restore", effect="writes", permissions=["crm:write"])
SEND = declared("send", tags=["mail"], permissions=["mail:send"], level="high")
ALL = Registry(FIND, UPDATE, RESTORE, SEND)


def test_by_effect_name_and_tag() -> None:
    """Each takes one or several; together they all hold; the order of adding stays."""
    assert ALL.only(effect="reads").names == ("find",)
    assert ALL.only(effect=[Effect.WRITES, "acts"]).names == ("update", "restore", "send")
    assert ALL.only(names=["send", "find"]).names == ("find", "send")
    assert ALL.only(tags="people").names == ("find", "update")
    assert ALL.only(tags=["mail", "search"]).names == ("find", "send")
    assert ALL.only(tags=["people"], effect="writes").names == ("update",)
    assert ALL.only().names == ALL.names


def test_by_what_one_may() -> None:
    """Of a principal, or of whoever holds these permissions; wildcards as everywhere."""
    ada = Principal(id="ada", permissions=("crm:*",))
    assert ALL.permitted(ada).names == ("find", "update", "restore")
    assert ALL.permitted(["crm:*"]).names == ("find", "update", "restore")
    assert ALL.permitted("mail:send").names == ("find", "send")
    assert ALL.permitted([]).names == ("find",)
    assert ALL.only(permitted=Principal(id="root", permissions=("*",)), max_level=Level.LOW).names == (
        "find",
        "update",
        "restore",
    )


def test_what_nobody_has_is_told_with_the_nearest() -> None:
    """A misspelt word must not silently leave a tool out."""
    with pytest.raises(UnknownTool, match="'sned'; did you mean 'send'"):
        ALL.only(names=["sned"])
    with pytest.raises(BadInput, match="no tool has the tag 'poeple'; did you mean 'people'"):
        ALL.only(tags=["people", "poeple"])
    with pytest.raises(
        BadInput, match="no effect 'write'; there are reads, writes, acts; did you mean 'writes'"
    ):
        ALL.only(effect="write")
    with pytest.raises(UnknownTool, match="'fnd'; did you mean 'find'"):
        ALL.renamed({"fnd": "look_up"})


def test_names_are_changed_by_table_or_function() -> None:
    """What is not in the table keeps its name; descriptions, schemas and functions stay."""
    renamed = ALL.renamed({"find": "look_up"})
    assert renamed.names == ("look_up", "update", "restore", "send")
    assert renamed["look_up"].function is FIND.function
    assert renamed["send"] is SEND
    assert ALL.renamed(str.upper).names == ("FIND", "UPDATE", "RESTORE", "SEND")
    assert ALL.names == ("find", "update", "restore", "send")


def test_a_hint_at_an_undoing_tool_follows_its_new_name() -> None:
    """Else planners would be told of a tool that is not there."""
    assert ALL.renamed({"restore": "bring_back"})["update"].undo == "bring_back"
    assert ALL.prefixed("crm.")["crm.update"].undo == "crm.restore"
    assert ALL.renamed({"update": "change"})["change"].undo == "restore"
    assert Registry(UPDATE).prefixed("crm.")["crm.update"].undo == "restore"


def test_a_new_name_must_be_a_name_and_free() -> None:
    """As for every tool."""
    with pytest.raises(ToolRefused, match="two tools are called 'send'"):
        ALL.renamed({"find": "send"})
    with pytest.raises(ToolRefused, match="cannot name a tool"):
        ALL.renamed({"find": "find it"})
    assert ALL.renamed({"find": "send", "send": "find"}).names == ("send", "update", "restore", "find")


def test_wrappers_go_one_after_the_other() -> None:
    """And `|` puts registries together."""
    crm = ALL.only(tags="people").permitted(["crm:write"]).renamed({"find": "get"}).prefixed("crm.")
    assert (crm | Registry(SEND)).names == ("crm.get", "crm.update", "send")
    with pytest.raises(ToolRefused, match="two tools are called 'find'"):
        Registry(FIND) | Registry(declared("find"))
