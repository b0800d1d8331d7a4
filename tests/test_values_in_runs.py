"""What a tool gives is the same for later steps, live or resumed from the file; and it is data, whatever it looks like."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from pydantic import BaseModel

from foreplan import Engine, Plan, Policies, SqliteJournal, ask, tool
from foreplan.executor.runtime import Answer

pytestmark = pytest.mark.anyio


class Colour(Enum):
    RED = "red"


@dataclass
class Line:
    day: date
    parts: tuple[int, ...]


class Model(BaseModel):
    price: Decimal


TYPES: dict[str, Any] = {
    "bytes": b"\xff\x00",
    "datetime": datetime(2024, 2, 29, 8, 30, tzinfo=UTC),
    "decimal": Decimal("12.30"),
    "enum": Colour.RED,
    "set": {3, 1, 2},
    "tuple": (1, (2,)),
    "dataclass": Line(date(2024, 1, 1), (1, 2)),
    "model": Model(price=Decimal("0.10")),
    "path": PurePosixPath("a/b"),
    "integer": 2**200 + 1,
    "float": 0.1 + 0.2,
}
TAGS: dict[str, Any] = {
    "expression": {"$": "1 + 1"},
    "literal": {"$literal": {"$": "run.id"}},
    "an event": {"type": "RunClosed", "seq": 1, "state": "done"},
    "apart": {"apart": {"value": "00" * 32}, "personal": {"value": "00"}},
    "pickled": {
        "py/object": "os.system",
        "__class__": "x",
        "lc": 1,
        "type": "constructor",
        "id": ["os", "system"],
    },
    "text": "{{ inputs }} ${x} $. !!python/object:os.system",
}
PLAN = Plan.model_validate(
    {
        "steps": [
            {"id": "got", "tool": "give", "args": {"what": {"$": "inputs.what"}}},
            {"id": "sure", "after": ["got"], "tool": "ask", "args": {"question": "?", "options": ["yes"]}},
            {"id": "back", "after": ["sure"], "tool": "echo", "args": {"value": {"$": "got"}}},
        ],
        "inputs": {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]},
        "output": {"$": "back"},
    }
)


@pytest.mark.parametrize("what", [*TYPES, *TAGS])
async def test_a_value_is_the_same_after_a_resume(what: str, tmp_path: Path) -> None:
    """The tool that is called after the resume gets, as JSON, what the first one gave; nothing in it is acted upon."""
    seen: list[Any] = []

    @tool(effect="reads")
    async def give(what: str) -> Any:
        """Give."""
        return {**TYPES, **TAGS}[what]

    @tool(effect="reads")
    async def echo(value: Any) -> Any:
        """Give it back."""
        seen.append(value)
        return value

    for inline in (64 * 1024, 1):  # in the text of its event, and apart from it
        path = tmp_path / f"{inline}.sqlite3"
        with SqliteJournal(path, inline_bytes=inline) as journal:
            engine = Engine([give, echo, ask], policies=Policies(approve="never"), journal=journal)
            waits = await engine.run(PLAN, inputs={"what": what})
            live = waits["got"]
        with SqliteJournal(path, inline_bytes=inline) as journal:
            engine = Engine([give, echo, ask], journal=journal)
            [asked] = engine.show(waits.id).waiting
            ended = await engine.resume(waits.id, decisions={asked.id: Answer("answer", "ada", "yes")})
            assert ended.state == "done", ended.message
            assert journal.verify().ok
            assert json.dumps(ended.output) == json.dumps(live) == json.dumps(seen.pop())
            assert json.dumps(engine.show(ended.id).output) == json.dumps(live)
        if what in TAGS:
            assert live == TAGS[what]
