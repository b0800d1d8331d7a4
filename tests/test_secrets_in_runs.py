"""A planted secret is in no artefact of a run, in no encoding, whatever a tool does with it (S1 of the field, threat 14)."""

from __future__ import annotations

import base64
import io
import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from rich.console import Console
from support.shell import Shell
from support.traces import SECRET, encodings, found_in, spilled
from support.virtual import BACKENDS, now, run_virtual

from foreplan import (
    Engine,
    FunctionPlanner,
    MemoryJournal,
    ModelPlanner,
    Plan,
    Policies,
    Principal,
    Registry,
    Retry,
    Run,
    SqliteJournal,
    Tool,
    ToolFailure,
    as_tool,
    review,
    tool,
)
from foreplan.console.app import main as command
from foreplan.console.render import contents
from foreplan.executor.events import (
    CallAdmitted,
    CallStarted,
    Event,
    ModelAnswered,
    RunClosed,
    RunOpened,
    encode,
)
from foreplan.executor.runtime import Answer
from foreplan.planner.models.messages import AIMessage, ToolCall
from foreplan.planner.models.scripted import ScriptedModel
from foreplan.planner.react import React
from foreplan.policies.errors import BadInput, SecretMissing
from foreplan.policies.evidence import LONGEST
from foreplan.policies.failures import Happened, Kind
from foreplan.policies.secrets import Secret
from foreplan.registry.vaults import MappingSecrets

REFS = {"token": "CRM_TOKEN"}
VAULT = MappingSecrets({"CRM_TOKEN": SECRET})
GIVE_UP = {"cannot_plan": "enough"}
Named = type(SECRET, (Exception,), {})


class Response:
    """What a response of an HTTP library looks like: the host in its address will be in small letters."""

    status_code = 503
    url = f"https://{SECRET.encode().hex()}.{SECRET[-16:]}.example"


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
            error = ConnectionError(f"https://{text}.example")
            error.response = Response()  # type: ignore[attr-defined]
            raise error
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


# ---- how a call gets its secrets


@tool(effect="acts", secret_refs=REFS)
async def pay(amount: int, token: Secret) -> str:
    """Pays with the token."""
    return f"paid {amount} with {len(token.reveal())} characters"


PAY = Plan.model_validate({"steps": [{"id": "paid", "tool": "pay", "args": {"amount": 3}}]})
FREE = Policies(approve="never", hook_timeout=5)


class Vault:
    """Gives, raises or does, one after the other; counts how often it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def resolve(self, ref: str) -> Any:
        self.asked.append(ref)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer() if callable(answer) else answer


def paying(backend: str, vault: Any, **options: Any) -> tuple[Run, list[Event]]:
    """One call that needs a secret, in virtual time."""
    events = list[Event]()

    async def main() -> Run:
        engine = Engine([pay], secrets=vault, policies=FREE, clock=now, watch=events.append, **options)
        return await engine.run(PAY)

    return run_virtual(backend, main), events


async def forever() -> str:
    await anyio.sleep_forever()
    return SECRET


async def soon() -> Secret:
    await anyio.sleep(1)
    return Secret(SECRET, "whatever it is called there")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("answer", [SECRET, Secret(SECRET), soon])
def test_the_arguments_that_are_recorded_hold_no_secret(backend: str, answer: Any) -> None:
    """The tool gets it; the arguments, their digest and the key of the call are as if there were none."""
    run, events = paying(backend, Vault(answer))
    [admitted] = [event for event in events if isinstance(event, CallAdmitted)]
    [opened] = [event for event in events if isinstance(event, RunOpened)]
    assert run["paid"] == f"paid 3 with {len(SECRET)} characters"
    assert admitted.args == {"amount": 3}
    assert opened.contracts["pay"]["secret_refs"] == REFS
    assert found_in(told(events)) == []


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (SecretMissing("CRM_TOKEN", "set it"), "there is no secret 'CRM_TOKEN'; set it"),
        (RuntimeError(f"the vault knows {SECRET}"), "looking it up raised RuntimeError"),
        (SystemExit(SECRET), "looking it up raised SystemExit"),
        ("short", "a secret must have at least 8 characters"),
        (None, "a secret is a text, not a NoneType"),
        (forever, "looking it up took more than 5 s"),
    ],
)
def test_a_call_whose_secret_cannot_be_had_is_not_begun(backend: str, answer: Any, why: str) -> None:
    """It fails as a permission, says which secret and why, and never what the vault said."""
    run, events = paying(backend, Vault(answer))
    [(_, failure)] = run.failures
    assert (failure.kind, failure.code, failure.happened) == (
        Kind.PERMISSION,
        "secret_unavailable",
        Happened.NO,
    )
    assert failure.message.startswith(f"'pay' needs the secret 'CRM_TOKEN': {why}")
    assert not any(isinstance(event, CallStarted) for event in events)
    assert found_in(told(events)) == []
    assert run.tool_calls == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_secret_is_asked_for_at_each_attempt(backend: str) -> None:
    """One that is exchanged between two attempts is used as it is then, and what it was stays known."""
    values = ["the-first-value", "the-second-value", "the-third-value"]
    vault, used = Vault(*values), list[str]()

    @tool(effect="reads", secret_refs=REFS)
    async def unsteady(token: str) -> list[str]:
        """Fails once."""
        used.append(token)
        if len(used) == 1:
            raise ConnectionError(token)
        return used

    async def main() -> Run:
        plan = Plan.model_validate({"steps": [{"id": "s", "tool": "unsteady"}]})
        return await Engine([unsteady], secrets=vault, clock=now).run(plan)

    run = run_virtual(backend, main)
    assert used == values[1:]
    assert run["s"] == ["[secret CRM_TOKEN]"] * 2


def test_a_call_that_is_refused_asks_for_no_secret() -> None:
    """What a person or a permission refuses never gets as far."""
    vault = Vault(SECRET)
    denied = Tool.declare(
        "denied",
        input_schema={"type": "object", "properties": {"token": {}}},
        permissions=["crm:all"],
        secret_refs=REFS,
    )
    engine = Engine([denied], secrets=vault, policies=FREE)
    assert [finding.code for finding in engine.check(_calling("denied")).errors] == ["permission"]
    assert vault.asked == []


def _calling(name: str, **args: Any) -> Plan:
    return Plan.model_validate({"steps": [{"id": "s", "tool": name, "args": args}]})


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_late_result_is_scrubbed_too(backend: str) -> None:
    """A thread that outlives its deadline answers the open question, without the secret."""
    release, arrived, events = threading.Event(), anyio.Event(), list[Event]()

    @tool(effect="acts", timeout=5, secret_refs=REFS)
    def slow(token: str) -> Any:
        """Answers when it is too late."""
        release.wait()
        return everywhere(token)

    def watch(event: Event) -> None:
        events.append(event)
        if type(event).__name__ == "DecisionMade":
            arrived.set()

    async def decide(question: Any) -> None:
        release.set()
        await arrived.wait()

    async def main() -> Run:
        engine = Engine([slow], secrets=VAULT, policies=FREE, clock=now, watch=watch, decide=decide)
        return await engine.run(_calling("slow"))

    run = run_virtual(backend, main)
    assert run.state == "done"
    assert run["s"]["bytes"] == "dXNlcj[secret CRM_TOKEN]"
    assert spilled(Path("/nonexistent"), [told(events), repr(run)]) == {}


@pytest.mark.anyio
async def test_what_people_and_hooks_say_is_scrubbed(log: Told) -> None:
    """The answer to a question, the name of who gave it, and the text of a hook's exception in the log."""
    events = list[Event]()

    @tool(effect="acts", requires_approval="each", secret_refs=REFS)
    async def gated(token: str) -> bool:
        """Never called."""
        return True

    async def decide(question: Any) -> Answer:
        return Answer("reject", by=f"ada {SECRET}", reason=f"it says {SECRET.encode().hex()}")

    def watch(event: Event) -> None:
        events.append(event)
        if isinstance(event, RunClosed):
            raise ValueError(SECRET)

    engine = Engine([gated], secrets=VAULT, policies=FREE, decide=decide, watch=watch)
    run = await engine.run(_calling("gated"))
    [(_, failure)] = run.failures
    assert failure.message == "ada [secret CRM_TOKEN] refused this call: it says [secret CRM_TOKEN]"
    assert "ValueError: [secret CRM_TOKEN]" in log.lines[-1]
    assert found_in(told(events) + "".join(log.lines)) == []


# ---- what nobody may hand in


@pytest.mark.anyio
async def test_a_plan_gives_no_argument_that_is_a_secret() -> None:
    """An error of the check, and `bad_args` where a call comes another way."""
    engine = Engine([pay], secrets=VAULT, policies=FREE)
    plan = _calling("pay", amount=1, token={"$": "inputs.token"})
    [finding] = [found for found in engine.check(plan).errors if found.code == "secret_argument"]
    assert finding.pointer == "/steps/0/args/token"
    assert finding.message == "the engine fills 'token' of 'pay' with a secret; leave it out"


@pytest.mark.anyio
async def test_a_model_gives_no_argument_that_is_a_secret() -> None:
    """It is told that it must not; the call is not made."""
    asked = AIMessage("", tool_calls=(ToolCall("c1", "pay", {"amount": 1, "token": "guessed-it"}),))
    model = ScriptedModel([asked, "so be it"])
    run = await Engine([pay], react=React(model), secrets=VAULT, policies=FREE).answer("Pay 1")
    said = model.requests[-1].text
    assert run.output == "so be it"
    assert "secret_argument" in said
    assert "the engine fills 'token' of 'pay' with a secret; leave it out" in said


@pytest.mark.anyio
async def test_a_model_in_a_loop_sees_no_secret() -> None:
    """What its tools give and say is scrubbed before it is told."""
    calls = [
        AIMessage("", tool_calls=(ToolCall(f"c{n}", "fetch", {"way": way}),)) for n, way in enumerate(WAYS)
    ]
    model, events = ScriptedModel([*calls, "enough"]), list[Event]()
    policies = Policies(show_tool_text=True, retry=Retry(attempts=1))
    engine = Engine(TOOLS, react=React(model), secrets=VAULT, policies=policies, watch=events.append)
    run = await engine.answer("Fetch it")
    assert run.output == "enough"
    assert spilled(Path("/nonexistent"), [request.text for request in model.requests] + [told(events)]) == {}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("plan", "inputs", "who"),
    [
        (PAY.model_copy(update={"goal": f"use {SECRET}"}), {}, None),
        (PAY.model_copy(update={"output": {"a": SECRET.encode().hex()}}), {}, None),
        (PAY.model_copy(update={"inputs": {"type": "object"}}), {"token": SECRET}, None),
        (PAY, {}, Principal(id="ada", attributes={"token": SECRET})),
    ],
    ids=["goal", "output", "inputs", "principal"],
)
async def test_what_holds_a_secret_is_not_handed_in(plan: Plan, inputs: Any, who: Principal | None) -> None:
    """It would be written down: refused with the name of the secret, before anything is."""
    journal = MemoryJournal()
    engine = Engine([pay], secrets=VAULT, policies=FREE, journal=journal, principal=who or Principal(id="x"))
    with pytest.raises(
        BadInput, match="holds the secret 'CRM_TOKEN'; leave it out, tools get it by secret_refs"
    ):
        await engine.run(plan, inputs=inputs)
    assert journal.runs() == []


@pytest.mark.anyio
async def test_a_goal_that_holds_a_secret_reaches_no_model() -> None:
    """It is refused before anybody is asked."""
    model = ScriptedModel([GIVE_UP])
    with pytest.raises(BadInput, match="the goal holds the secret"):
        await Engine([pay], ModelPlanner(model), secrets=VAULT).plan(f"pay with {SECRET}")
    assert model.requests == []


@pytest.mark.anyio
async def test_a_patch_that_holds_a_secret_is_no_answer() -> None:
    """A planner in Python may know one; it is not written down, and the run says why it ended."""
    events = list[Event]()
    patch = {"add": [{"id": "again", "value": f"Bearer {SECRET}", "replaces": "s"}]}
    planner = FunctionPlanner(replan=lambda request: patch)
    engine = Engine(TOOLS, planner, secrets=VAULT, watch=events.append)
    run = await engine.run(_calling("fetch", way="said"))
    [answered] = [event for event in events if isinstance(event, ModelAnswered)]
    assert run.state != "done"
    assert answered.failure is not None
    assert answered.failure.message.startswith("the patch holds the secret 'CRM_TOKEN'; leave it out")
    assert found_in(told(events)) == []


# ---- beside


@pytest.mark.anyio
async def test_a_sub_plan_has_the_secrets_of_its_engine() -> None:
    """Its tools get theirs; what they tell is scrubbed in its run and in the one around it."""
    journal = MemoryJournal()
    inner = Plan.model_validate(
        {
            "goal": "Fetch",
            "steps": [{"id": "f", "tool": "fetch", "args": {"way": "returned"}}],
            "output": {"$": "f"},
        }
    )
    outer = as_tool(inner, "inner", [fetch])
    run = await Engine([outer, careless], secrets=VAULT, journal=journal).run(_calling("inner"))
    events = [event for line in journal.runs() for event in journal.events(line.run)]
    assert run["s"]["bytes"] == "dXNlcj[secret CRM_TOKEN]"
    assert len(journal.runs()) == 2
    assert found_in(told(events) + repr(run["s"])) == []


def test_the_review_says_which_secrets_a_call_uses() -> None:
    """Their names, on the screen and as data."""
    seen = review(PAY, Registry(pay))
    assert seen.steps[0].secrets == ("CRM_TOKEN",)
    assert seen.to_json()["steps"][0]["secrets"] == ["CRM_TOKEN"]
    out = io.StringIO()
    Console(file=out, width=100).print(contents(seen))
    assert "uses the secret CRM_TOKEN" in out.getvalue()


@pytest.mark.anyio
async def test_the_host_can_scrub_its_own_logs() -> None:
    """`engine.scrub` knows the secrets of the runs there were: of texts, and of all that can be written as JSON."""
    engine = Engine([pay], secrets=VAULT, policies=FREE)
    await engine.run(PAY)
    assert engine.scrub(f"Bearer {SECRET}") == "Bearer [secret CRM_TOKEN]"
    assert engine.scrub(("a", SECRET.encode())) == ["a", "[secret CRM_TOKEN]"]


def test_secrets_come_from_a_vault() -> None:
    """Anything else is refused when the engine is made."""
    with pytest.raises(
        BadInput, match=r"secrets come from something with `resolve\(ref\)`, not dict; MappingSecrets"
    ):
        Engine([pay], secrets={"CRM_TOKEN": SECRET})  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_a_vault_that_blocks_is_asked_in_a_thread() -> None:
    """So that nothing waits for it; a keyring may ask its owner."""
    places = list[str]()

    class Blocking(Vault):
        blocking = True

        def resolve(self, ref: str) -> Any:
            places.append(threading.current_thread().name)
            return super().resolve(ref)

    run = await Engine([pay], secrets=Blocking(SECRET), policies=FREE).run(PAY)
    assert run.state == "done"
    assert places == ["foreplan-tool"] * 2


TYPED = '''
from foreplan import Registry, tool


@tool(effect="reads", secret_refs={"token": "CRM_TOKEN"})
async def fetch(way: str, token: str) -> dict[str, str]:
    """Use the token, and let it out."""
    if way == "throw":
        raise PermissionError(f"401 for {token}")
    return {"sent": f"Bearer {token}", "hex": token.encode().hex()}


registry = Registry(fetch)
'''


def test_the_command_line_takes_secrets_from_the_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it prints and what it leaves behind holds none; without the variable the call is not begun."""
    steps = [
        {"id": way, "tool": "fetch", "args": {"way": way}, "on_failure": "skip"} for way in ("give", "throw")
    ]
    (tmp_path / "shop.py").write_text(TYPED)
    (tmp_path / "plan.json").write_text(
        json.dumps({"goal": "Fetch", "steps": steps, "output": {"$": "give"}})
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRM_TOKEN", SECRET)
    shell = Shell(tmp_path, capsys)
    words = ("plan.json", "--tools", "shop.py", "--journal", "runs.db")
    reviewed = shell.here("review", *words[:3])
    said = [shell.here("run", *words), shell.here("run", *words, "--json"), shell.here("tools", "shop.py")]
    monkeypatch.delenv("CRM_TOKEN")
    without = shell.here("run", *words)
    assert "uses the secret CRM_TOKEN" in reviewed.out
    assert "Bearer [secret CRM_TOKEN]" in said[1].out
    assert "set the environment variable CRM_TOKEN" in " ".join((without.out + without.err).split())
    assert spilled(tmp_path, [each.out + each.err for each in said]) == {}
