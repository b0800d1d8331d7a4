"""A planted secret is in no artefact of a run, in no encoding, whatever a tool does with it (S1 of the field, threat 14)."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.traces import SECRET, encodings, spilled

from foreplan import (
    Engine,
    ModelPlanner,
    Plan,
    Policies,
    Registry,
    Retry,
    SqliteJournal,
    ToolFailure,
    tool,
)
from foreplan.console.app import main as command
from foreplan.executor.events import Event, encode
from foreplan.planner.models.scripted import ScriptedModel
from foreplan.policies.evidence import LONGEST
from foreplan.policies.secrets import Secret
from foreplan.registry.vaults import MappingSecrets

REFS = {"token": "CRM_TOKEN"}
VAULT = MappingSecrets({"CRM_TOKEN": SECRET})
GIVE_UP = {"cannot_plan": "enough"}
Named = type("".join(filter(str.isalnum, SECRET)), (Exception,), {})


def everywhere(secret: str) -> dict[str, Any]:
    """A result that holds it in every encoding, as value and as key, deep inside, as bytes, and cut off."""
    ways = encodings(secret)
    return {
        "values": [{name: f"before {written} after"} for name, written in ways.items()],
        "keys": {f"x{written}": {"y": [[written]]} for written in ways.values()},
        "bytes": f"user:{secret}".encode(),
        "folded": base64.encodebytes(b"-" * 50 + secret.encode() + b"-" * 50).decode(),
        "whole": json.dumps({"headers": json.dumps({"Authorization": f"Bearer {secret}"})}),
        secret: secret,
    }


@tool(effect="reads", secret_refs=REFS)
def fetch(way: str, token: Secret) -> Any:
    """Use the token, and let it out in one of many ways."""
    text = token.reveal()
    match way:
        case "said":
            raise ToolFailure(f"no: {text}", code=f"bad {text}", hint=text, details=everywhere(text))
        case "raised":
            raise ValueError(f"401 for Bearer {base64.b64encode(text.encode()).decode()}") from KeyError(text)
        case "long":
            raise ValueError("x" * (LONGEST - 30) + text)
        case "named":
            raise Named(text)
        case "host":
            raise ConnectionRefusedError(111, text, text)
        case _:
            return everywhere(text)


@tool(effect="reads")
async def careless() -> Any:
    """Knows the secret from elsewhere, and tells it before it was ever asked for."""
    return everywhere(SECRET)


@tool(effect="reads", secret_refs=REFS)
async def strict(token: str) -> bool:
    """Gives what it does not declare."""
    return token  # type: ignore[return-value]


TOOLS = Registry(fetch, careless, strict)
WAYS = ["returned", "said", "raised", "long", "named", "host"]
PLAN = Plan.model_validate(
    {
        "goal": "Let it out",
        "steps": [
            {"id": "early", "tool": "careless"},
            *({"id": way, "tool": "fetch", "args": {"way": way}, "on_failure": "skip"} for way in WAYS),
            {"id": "wrong", "tool": "strict"},
            {"id": "halves", "value": {"$": f"f'{SECRET[:5]}{{str(0)[1:]}}' + '{SECRET[5:]}'"}},
        ],
        "output": {"all": {"$": "early"}, "joined": {"$": "halves"}},
    }
)


class Told(logging.Handler):
    """Keeps what is logged, formatted."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter("%(message)s %(extra)s", defaults={"extra": ""}))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def log() -> Any:
    """What the logger "foreplan" writes."""
    told, logger = Told(), logging.getLogger("foreplan")
    logger.addHandler(told)
    yield told
    logger.removeHandler(told)


def listening(events: list[Event]) -> Callable[[Event], None]:
    return events.append


def told(events: list[Event]) -> str:
    return json.dumps([encode(event) for event in events], ensure_ascii=False)


@pytest.mark.anyio
@pytest.mark.parametrize("shown", [False, True], ids=["withheld", "shown"])
async def test_a_planted_secret_is_in_no_artefact(
    shown: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], log: Told
) -> None:
    """Results, failures, prompts, events, the file of the journal, the log and the screen: none holds it."""
    model, events = ScriptedModel([GIVE_UP]), list[Event]()

    async def note(request: Any) -> str:
        return f"the token is {SECRET}, in hex {SECRET.encode().hex()}"

    file = tmp_path / "runs.db"
    engine = Engine(
        TOOLS,
        ModelPlanner(model),
        secrets=VAULT,
        policies=Policies(show_tool_text=shown, retry=Retry(attempts=1)),
        journal=SqliteJournal(file),
        on_failure=note,
        watch=listening(events),
    )
    run = await engine.run(PLAN, run_id="r1")
    for words in (["show", "r1"], ["show", "r1", "--json"], ["show", "r1", "--events"], ["runs"]):
        command([*words, "--journal", str(file)])
    out, err = capsys.readouterr()
    logging.getLogger("foreplan").warning("used %s", SECRET, extra={"extra": SECRET})
    prompts = [request.text + json.dumps(request.options) for request in model.requests]
    texts = [*prompts, told(events), repr(run), json.dumps(run.to_json()), out, err, *log.lines]
    assert len(prompts) == 1
    assert run.steps["returned"].value["whole"] == (
        '{"headers": "{\\"Authorization\\": \\"Bearer [secret CRM_TOKEN]\\"}"}'
    )
    assert log.lines == ["used [secret CRM_TOKEN] [secret CRM_TOKEN]"]
    assert spilled(tmp_path, texts) == {}
    assert "sk-Ab/9" not in told(events), "the beginning of a secret that was cut off"
