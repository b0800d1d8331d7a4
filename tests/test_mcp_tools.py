"""Tools of MCP servers: loaded as the operator says, pinned, called side by side; what the server does is never trusted."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import pytest

if importlib.util.find_spec("mcp") is None:
    pytest.skip("the package mcp is not installed", allow_module_level=True)

from support.mcp_by_hand import command
from support.mcp_server import URL_OF
from support.mcp_server import command as sdk_command
from support.signing_in import PASSWORD, TOKEN

from foreplan import (
    Effect,
    Engine,
    Kind,
    Level,
    MemoryJournal,
    Plan,
    Policies,
    Retry,
    ToolContext,
    ToolFailure,
    mcp_tools,
)
from foreplan.executor.events import DecisionAsked
from foreplan.executor.mcp_session import ServedTools
from foreplan.executor.runtime import Answer
from foreplan.policies.errors import BadInput
from foreplan.policies.failures import Failure, Happened
from foreplan.registry.attempt import Line
from foreplan.registry.mcp_declared import MOST_MEDIA, failure_by_code, read_answer
from foreplan.registry.vaults import MappingSecrets

pytestmark = pytest.mark.anyio

ONE_LOOP = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""Where the loop makes no difference: a server takes half a second to start."""
READS = dict.fromkeys(("sum", "wait", "die", "notice", "seen", "change", "look", "nonsense"), "reads")


@asynccontextmanager
async def served(*words: str, **options: Any) -> AsyncIterator[ServedTools]:
    """The tools of the server of these tests, over stdio."""
    with anyio.fail_after(60):
        async with mcp_tools(stdio=command(*words), **{"prefix": "t.", "effects": READS, **options}) as found:
            yield found


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    """The address of a server that is started once for these tests."""
    process = subprocess.Popen(sdk_command("http"), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip().removeprefix(URL_OF)
    finally:
        process.kill()
        process.communicate()


async def call(tools: ServedTools, name: str, line: Line | None = None, **args: Any) -> Any:
    return await tools[name].invoke(args, ToolContext(line=line or Line()))


async def refused(tools: ServedTools, name: str, **args: Any) -> ToolFailure:
    with pytest.raises(ToolFailure) as raised:
        await call(tools, name, **args)
    return raised.value


async def call_until_it_fails(tools: ServedTools, name: str) -> None:
    """A notice comes when it comes."""
    while True:
        await call(tools, name, a=1, b=1)


def plan_of(*steps: dict[str, Any]) -> Plan:
    return Plan.model_validate({"steps": list(steps)})


async def failure_of(tools: ServedTools, step: dict[str, Any]) -> tuple[str, Failure]:
    """How the only step of a plan ends, and why."""
    run = await Engine(tools, policies=Policies(retry=Retry(attempts=1), approve="never")).run(plan_of(step))
    [(_, failure)] = run.failures
    return run.state, failure


# --- Loading.


@ONE_LOOP
async def test_a_tool_acts_unless_the_operator_says_less_and_hints_only_tighten() -> None:
    """`readOnlyHint: true` makes nothing a read; a hint against what the operator says makes it stricter, and is told."""
    said = {"wipe": "reads", "put": "reads", "look": "reads"}
    async with served(effects=said, permissions=("t:use",), options={"look": {"level": "high"}}) as tools:
        found = {name: (tools[f"t.{name}"].effect, tools[f"t.{name}"].level) for name in ("sum", *said)}
        assert found == {
            "sum": (Effect.ACTS, Level.LOW),
            "wipe": (Effect.ACTS, Level.MEDIUM),
            "put": (Effect.WRITES, Level.LOW),
            "look": (Effect.READS, Level.HIGH),
        }
        assert [(f.tool, f.code, f.loaded) for f in tools.findings] == [
            ("wipe", "tightened", True),
            ("wipe", "tightened", True),
            ("put", "tightened", True),
        ]
        assert tools["t.look"].description == "look\\u202e it."
        assert tools["t.look"].permissions == ("t:use",)


@ONE_LOOP
async def test_what_cannot_be_loaded_is_a_finding_and_the_rest_loads() -> None:
    """Hostile and invalid schemas, unknown drafts, names that are taken or too long: one finding each."""
    async with served("strange") as tools:
        assert {(f.tool[:20], f.code, f.loaded) for f in tools.findings if f.code != "tightened"} == {
            ("far", "invalid_schema", False),
            ("draft", "invalid_schema", False),
            ("listed", "invalid_schema", False),
            ("odd", "invalid_schema", False),
            ("'no tool at all'", "invalid_schema", False),
            ("twice", "duplicate_name", False),
            ("notes/read all", "renamed", True),
            ("n" * 20, "invalid_name", False),
        }
        assert "t.notes_read_all" in tools
        assert len(tools) == 13


@ONE_LOOP
async def test_a_slip_of_the_operator_is_refused_with_the_nearest_name() -> None:
    """A misspelt name, option, prefix or way must not leave a tool laxer, or out."""
    with pytest.raises(BadInput, match="has no tool 'summ'; did you mean 'sum'"):
        async with served(effects={"summ": "reads"}):
            pass
    with pytest.raises(BadInput, match="no option 'permission'; did you mean 'permissions'"):
        async with served(permission="x"):
            pass
    with pytest.raises(BadInput, match="there are reads, writes, acts"):
        async with served(effect="read"):
            pass
    with pytest.raises(BadInput, match="one of stdio"):
        async with mcp_tools():
            pass


async def test_a_server_that_does_not_come_up_is_a_failure_with_a_sentence() -> None:
    """One that ends at once, and a command that is not there; never an exception group."""
    for stdio in ([sys.executable, "-c", "0"], ["/nowhere/at/all"]):
        with pytest.raises(ToolFailure, match="cannot be reached"):
            async with mcp_tools(stdio=stdio):
                pass


@ONE_LOOP
async def test_what_the_body_raises_is_raised_as_it_is() -> None:
    """No task group shows through."""
    with pytest.raises(KeyError, match="mine"):
        async with served():
            raise KeyError("mine")


@ONE_LOOP
async def test_a_server_sees_no_variable_that_was_not_named() -> None:
    """Not even those that the SDK always lets through; a secret of the vault gets there, and out of nothing again."""
    vault = MappingSecrets({"T": TOKEN})
    options = {
        "environment": {"A": "1"},
        "secret_refs": {"TOKEN": "T"},
        "secrets": vault,
        "inherit": ["PATH"],
    }
    async with served(**options, on_error="no") as tools:
        seen = (await call(tools, "t.seen"))["environment"]
        assert {k: v for k, v in seen.items() if k != "LC_CTYPE"} == {
            "A": "1",
            "TOKEN": "[secret T]",
            "PATH": os.environ["PATH"],
        }
        assert str(await refused(tools, "t.refuse")) == "no room for [secret T]"


# --- Calls.


FIFTY = {"each": {"$": "range(50)"}, "as": "n", "args": {"a": {"$": "n"}, "b": 1}}


async def test_fifty_calls_run_side_by_side_on_one_session() -> None:
    """T4 of the field. One owner task per session: callers come and go, in tasks of their own, and no scope is left in another's."""
    async with served() as tools:
        run = await Engine(tools).run(plan_of({"id": "sums", "tool": "t.sum", **FIFTY}))
        assert run["sums"] == [{"total": n + 1} for n in range(50)]
        assert (await call(tools, "t.seen"))["called"].count("sum") == 50


async def test_fifty_calls_run_side_by_side_over_http(web: str) -> None:
    """T4 again: each has a stream of its own, and all have one session."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with mcp_tools(url=web, headers=headers, prefix="t.", effect="reads") as tools:
        before = (await call(tools, "t.called"))["result"].count("total")
        run = await Engine(tools).run(plan_of({"id": "sums", "tool": "t.total", **FIFTY}))
        assert run["sums"] == [{"total": n + 1} for n in range(50)]
        assert (await call(tools, "t.called"))["result"].count("total") == before + 50


async def test_a_call_that_is_given_up_is_cancelled_at_the_server_and_nothing_else_is() -> None:
    """The server is told; the session and the other calls go on. Progress is heard meanwhile."""
    told: list[Any] = []
    scope = anyio.CancelScope()

    def tell(done: float | None, total: float, text: str) -> None:
        told.append((done, total, text))
        scope.cancel()

    async with served() as tools:
        with scope:
            await call(tools, "t.wait", Line(tell))
        assert scope.cancelled_caught
        assert told == [(1, 4, "waiting\\u202e")]
        while not (seen := await call(tools, "t.seen"))["cancelled"]:
            await anyio.lowlevel.checkpoint()
        assert len(seen["cancelled"]) == 1


@ONE_LOOP
async def test_a_time_out_is_one_of_the_five_kinds_and_the_session_goes_on() -> None:
    """The tool's own timeout holds."""
    async with served(options={"wait": {"timeout": 0.3}}) as tools:
        _, failure = await failure_of(tools, {"id": "w", "tool": "t.wait"})
        assert (failure.kind, failure.code) == (Kind.TIMEOUT, "deadline")
        assert await call(tools, "t.look") == [1, 2]


async def test_a_server_that_dies_in_mid_call_leaves_an_unknown_outcome_and_is_started_anew() -> None:
    """Of a tool that acts nobody knows; the next call has a new session."""
    async with served(effects={k: v for k, v in READS.items() if k != "die"}) as tools:
        run = await Engine(tools, policies=Policies(approve="never")).run(
            plan_of({"id": "d", "tool": "t.die"})
        )
        assert run.state == "waiting"
        assert await call(tools, "t.sum", a=1, b=2) == {"total": 3}


@ONE_LOOP
async def test_a_server_that_keeps_dying_is_not_started_for_ever() -> None:
    """`reconnects` in a row without an answer; a good answer makes them anew."""
    async with served(reconnects=1) as tools:
        for _ in range(2):
            failure = await refused(tools, "t.die")
            assert (failure.kind, failure.code, failure.happened) == (
                Kind.NETWORK,
                "connection_closed",
                Happened.MAYBE,
            )
        failure = await refused(tools, "t.sum", a=1, b=1)
        assert (failure.code, failure.happened) == ("disconnected", Happened.NO)


@ONE_LOOP
async def test_what_a_server_says_no_to_is_a_failure_of_its_kind() -> None:
    """`isError` is business, and may have happened unless the operator knows better; protocol errors have kinds."""
    async with served() as tools:
        failure = await refused(tools, "t.refuse")
        assert (failure.kind, failure.code, failure.happened) == (Kind.BUSINESS, "refused", Happened.MAYBE)
        _, told = await failure_of(tools, {"id": "r", "tool": "t.raise"})
        assert (told.kind, told.code, told.untrusted) == (Kind.BAD_ARGS, "invalid_params", True)


@ONE_LOOP
async def test_over_http_the_status_decides_and_retry_after_is_heard(web: str) -> None:
    """401 is a permission, 429 says when to come back; the header holds a secret of the vault."""
    with pytest.raises(ToolFailure) as raised:
        async with mcp_tools(url=web, headers={"Authorization": "Bearer wrong"}):
            pass
    assert raised.value.kind is Kind.PERMISSION
    refs: dict[str, Any] = {
        "headers": {"Authorization": "Bearer {secret}"},
        "secret_refs": {"Authorization": "T"},
    }
    async with mcp_tools(url=web, **refs, secrets=MappingSecrets({"T": TOKEN}), effect="reads") as tools:
        failure = await refused(tools, "put")
        assert (failure.kind, failure.happened, failure.retry_after) == (Kind.NETWORK, Happened.NO, 7.0)
        assert tools["put"].host == web.split("/")[2]


@asynccontextmanager
async def through_a_line(url: str) -> AsyncIterator[tuple[str, anyio.CancelScope]]:
    """The server by way of a line that can be cut: cancel the scope, and nobody is there any more."""
    port = int(url.split("/")[2].split(":")[1])

    async def pass_on(from_: Any, to: Any) -> None:
        with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            while True:
                await to.send(await from_.receive())

    async def connected(here: Any) -> None:
        async with (
            here,
            await anyio.connect_tcp("127.0.0.1", port) as there,
            anyio.create_task_group() as both,
        ):
            both.start_soon(pass_on, here, there)
            await pass_on(there, here)
            both.cancel_scope.cancel()

    async def line(listening: Any, scope: anyio.CancelScope) -> None:
        with scope:
            async with listening:
                await listening.serve(connected)

    listening = await anyio.create_tcp_listener(local_host="127.0.0.1")
    here = listening.extra(anyio.abc.SocketAttribute.local_port)
    async with anyio.create_task_group() as group:
        group.start_soon(line, listening, scope := anyio.CancelScope())
        yield f"http://127.0.0.1:{here}/mcp", scope
        scope.cancel()


async def test_a_server_that_is_gone_is_the_network(web: str) -> None:
    """In the middle of a session over HTTP."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        through_a_line(web) as (url, line),
        mcp_tools(url=url, headers=headers, effect="reads") as tools,
    ):
        assert await call(tools, "total", a=1, b=1) == {"total": 2}
        line.cancel()
        failure = await refused(tools, "total", a=1, b=1)
        assert failure.kind is Kind.NETWORK


class Kept:
    """What a provider of OAuth keeps from one sign-in to the next."""

    def __init__(self) -> None:
        self.tokens: Any = None
        self.client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client: Any) -> None:
        self.client = client


def signed_in(url: str, kept: Kept, password: str = PASSWORD) -> Any:
    """A provider of the SDK's that knows a name and a password."""
    from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider

    name, _, secret = password.partition(":")
    base = url.removesuffix("/mcp")
    return ClientCredentialsOAuthProvider(url, kept, client_id=name, client_secret=secret, issuer=base)


async def test_a_server_that_wants_oauth_is_signed_in_to(web: str) -> None:
    """`auth=` is the SDK's provider; the token that it fetched is a secret like any other."""
    kept = Kept()
    async with mcp_tools(url=web, auth=signed_in(web, kept), effect="reads") as tools:
        assert await call(tools, "total", a=1, b=2) == {"total": 3}
        assert (await call(tools, "heard"))["result"] == "let in by Bearer [secret token]"
    assert kept.tokens.access_token == TOKEN


@ONE_LOOP
async def test_a_person_signs_in_to_a_server(web: str) -> None:
    """The provider registers, sends the person to a page, gets a code back there and a token for it."""
    import httpx2
    from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata

    came_back: list[dict[str, str]] = []

    async def browse(page: str) -> None:
        async with httpx2.AsyncClient() as browser:
            sent = (await browser.get(page)).headers["location"]
        came_back.append({name: values[0] for name, values in parse_qs(urlsplit(sent).query).items()})

    async def returned() -> AuthorizationCodeResult:
        return AuthorizationCodeResult(**came_back[0])

    about = OAuthClientMetadata.model_validate({"redirect_uris": ["http://127.0.0.1/back"]})
    kept = Kept()
    auth = OAuthClientProvider(web, about, kept, browse, returned)
    async with mcp_tools(url=web, auth=auth, effect="reads") as tools:
        assert await call(tools, "total", a=1, b=2) == {"total": 3}
    assert (kept.client.client_id, kept.tokens.access_token, len(came_back)) == ("registered", TOKEN, 1)


@ONE_LOOP
async def test_who_cannot_sign_in_is_told_so(web: str) -> None:
    """A permission, with what the authorization server said; and `auth` that is none is refused at once."""
    with pytest.raises(ToolFailure, match="invalid_client") as raised:
        async with mcp_tools(url=web, auth=signed_in(web, Kept(), "tester:wrong")):
            pass
    assert (raised.value.kind, raised.value.happened) == (Kind.PERMISSION, Happened.NO)
    with pytest.raises(BadInput, match=r"an httpx2\.Auth"):
        async with mcp_tools(url=web, auth=("tester", "wrong")):
            pass


@ONE_LOOP
async def test_a_server_cannot_send_a_client_elsewhere(web: str) -> None:
    """Threat 13: a redirect to another origin is not followed, so nothing that was meant for the server gets there."""
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.setblocking(False)
        host, port = elsewhere.getsockname()
        for target in (f"http://{host}:{port}/mcp", f"http://2130706433:{port}/mcp"):
            moved = web.removesuffix("/mcp") + f"/moved/{target}"
            with pytest.raises(ToolFailure, match="cannot be reached") as raised:
                async with mcp_tools(url=moved, headers={"X-Key": TOKEN}):
                    pass
            assert raised.value.happened is Happened.NO
        with pytest.raises(BlockingIOError):
            elsewhere.accept()


# --- What was loaded is pinned.


async def test_a_tool_that_the_server_changed_is_not_called_any_more() -> None:
    """Threat 19: before a call that acts the server is asked, and the run stops and says what differs."""
    async with served(effects={"change": "reads", "seen": "reads"}) as tools:
        step = {"id": "s", "tool": "t.sum", "args": {"a": 1, "b": 1}, "after": ["c"]}
        run = await Engine(tools, policies=Policies(approve="never")).run(
            plan_of({"id": "c", "tool": "t.change"}, step)
        )
        [(_, failure)] = run.failures
        assert (run.state, failure.kind, failure.code) == ("failed", Kind.PERMISSION, "contract_changed")
        assert (failure.happened, failure.details) == (Happened.NO, {"changed": ["description"]})
        assert "declared otherwise now (description)" in failure.message
        assert "sum" not in (await call(tools, "t.seen"))["called"]


CHANGE = {"id": "c", "tool": "t.change"}
TWICE = {"id": "s", "each": [1, 2], "tool": "t.sum", "args": {"a": {"$": "item"}, "b": 1}, "after": ["c"]}
READ = {"effects": {"change": "reads", "seen": "reads"}}


@pytest.mark.parametrize("choice", ["approve", "reject"])
async def test_a_person_may_accept_what_a_server_changed(choice: str) -> None:
    """Threat 19, asked: what differs is shown as text that does nothing, the answer is recorded with the new pin."""
    journal = MemoryJournal()

    async def decide(asked: DecisionAsked) -> Answer:
        return Answer(choice, "ada")

    async with served(**READ, on_change="ask") as tools:
        engine = Engine(tools, policies=Policies(approve="never"), journal=journal, decide=decide)
        run = await engine.run(plan_of(CHANGE, TWICE))
        called = (await call(tools, "t.seen"))["called"].count("sum")
    async with served("changed") as tools:
        pin = tools.pins["sum"]
    asked = [event for event in journal.events(run.id) if isinstance(event, DecisionAsked)]
    assert [event.question["contract"] for event in asked] == [
        {
            "pin": pin,
            "changed": {
                "description": {
                    "was": "Add two numbers.",
                    "now": "Add two numbers, and send them to \\u202eme.",
                }
            },
        }
    ] * 2
    assert engine.replay(run.id).identical
    if choice == "approve":
        assert (run.state, run["s"], called) == ("done", [{"total": 2}, {"total": 3}], 2)
    else:
        assert (run.state, called) == ("failed", 0)
        assert {failure.code for _, failure in run.failures} == {"rejected"}


@ONE_LOOP
@pytest.mark.parametrize("word", ["worse", "other", "more"])
async def test_nobody_is_asked_about_what_the_plan_was_checked_by(word: str) -> None:
    """Another effect, another result, arguments that are no longer enough: then the run stops, as it does unasked."""
    async with served(word, effects={**READ["effects"], "sum": "reads"}, recheck=0, on_change="ask") as tools:
        run = await Engine(tools, policies=Policies(approve="never")).run(plan_of(CHANGE, TWICE))
        assert run.state == "failed"
        assert {failure.code for _, failure in run.failures} == {"contract_changed"}
        assert "sum" not in (await call(tools, "t.seen"))["called"]


@ONE_LOOP
async def test_what_was_accepted_holds_for_that_run_alone() -> None:
    """Asked with nobody there the run waits; accepted it goes on; the next run is asked again."""
    async with served(**READ, on_change="ask") as tools:
        engine = Engine(tools, policies=Policies(approve="never"), journal=MemoryJournal())
        run = await engine.run(plan_of(CHANGE, {**TWICE, "each": [1]}))
        assert run.state == "waiting"
        [asked] = run.waiting
        run = await engine.resume(run.id, decisions={asked.id: Answer("approve", "ada")})
        assert (run.state, run["s"]) == ("done", [{"total": 2}])
        again = await engine.run(plan_of({**TWICE, "after": []}))
        assert again.state == "waiting"


async def test_a_server_that_tells_of_a_change_is_asked_what_it_is() -> None:
    """Reads are not compared each time; a notice makes the next call look."""
    async with served() as tools:
        await call(tools, "t.change")
        assert await call(tools, "t.sum", a=1, b=1) == {"total": 2}
        await call(tools, "t.notice")
        with pytest.raises(ToolFailure, match="declared otherwise"):
            await call_until_it_fails(tools, "t.sum")


@pytest.mark.parametrize("way", ["http", pytest.param("stdio", marks=pytest.mark.proof)])
async def test_a_server_of_the_newer_protocol_tells_on_a_stream_of_its_own(way: str, web: str) -> None:
    """The stream is asked for, and what comes on it makes the next call look."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    there: dict[str, Any] = {"url": web, "headers": headers} if way == "http" else {"stdio": sdk_command()}
    with anyio.fail_after(60):
        async with mcp_tools(**there, effect="reads") as tools:
            await call(tools, "change")
            with pytest.raises(ToolFailure, match="declared otherwise"):
                await call_until_it_fails(tools, "total")


@ONE_LOOP
async def test_pins_of_an_earlier_session_leave_out_what_is_new_or_other() -> None:
    """They are plain JSON; with the same server all is loaded."""
    async with served() as tools:
        pins = tools.pins
        assert tools["t.sum"].source_digest == pins["sum"]
    async with served(pinned=pins) as again:
        assert again.names == tools.names
        assert [again[n].fingerprint for n in again.names] == [tools[n].fingerprint for n in tools.names]
    other = {**pins, "sum": pins["put"]}
    del other["look"]
    async with served(pinned=other) as fewer:
        assert {(f.tool, f.code) for f in fewer.findings if not f.loaded} == {
            ("sum", "contract_changed"),
            ("look", "not_pinned"),
        }
        assert "t.sum" not in fewer


@ONE_LOOP
async def test_an_answer_in_no_form_of_the_protocol_is_a_failure() -> None:
    """Nonsense between the lines is passed over, an answer that is none is told."""
    async with served() as tools:
        failure = await refused(tools, "t.nonsense")
        assert (failure.kind, failure.code, failure.happened) == (
            Kind.BUSINESS,
            "bad_response",
            Happened.MAYBE,
        )
        assert await call(tools, "t.look") == [1, 2]


@ONE_LOOP
async def test_a_tool_outlives_its_session_as_a_failure() -> None:
    """Called after the end it says so."""
    async with served() as tools:
        pass
    failure = await refused(tools, "t.look")
    assert (failure.kind, failure.code, failure.happened) == (Kind.NETWORK, "session_closed", Happened.NO)


# --- Answers as plain JSON.

IMAGE = {"type": "image", "mimeType": "image/png", "data": "AAECAw=="}
SHOWN = {"mime": "image/png", "bytes": 4, "data": "AAECAw=="}


@pytest.mark.parametrize(
    ("answer", "json_text", "meant"),
    [
        ({"structuredContent": {"a": 1}, "content": [{"type": "text", "text": "x"}]}, True, {"a": 1}),
        ({"content": [{"type": "text", "text": ' {"a": 1}'}]}, True, {"a": 1}),
        ({"content": [{"type": "text", "text": ' {"a": 1}'}]}, False, ' {"a": 1}'),
        ({"content": [{"type": "text", "text": "[NaN]"}]}, True, "[NaN]"),
        ({"content": [{"type": "text", "text": "17"}]}, True, "17"),
        ({"content": []}, True, None),
        ({"content": [{"type": "text", "text": "a"}, IMAGE]}, True, ["a", SHOWN]),
        ({"content": [{**IMAGE, "data": "A" * 2 * MOST_MEDIA}]}, True, {"mime": "image/png", "bytes": 98304}),
        (
            {
                "content": [
                    {"type": "resource", "resource": {"uri": "a:b", "mimeType": "text/plain", "text": "t"}}
                ]
            },
            True,
            {"uri": "a:b", "mime": "text/plain", "text": "t"},
        ),
        (
            {"content": [{"type": "resource_link", "uri": "a:b", "name": "n"}]},
            True,
            {"uri": "a:b", "name": "n", "mime": ""},
        ),
    ],
)
def test_an_answer_becomes_plain_json(answer: dict[str, Any], json_text: bool, meant: Any) -> None:
    """What is structured comes first; text, images and resources have a rule each."""
    assert read_answer(answer, json_text=json_text, on_error=Happened.MAYBE) == meant


@pytest.mark.parametrize(
    ("code", "kind", "happened"),
    [
        (-32601, Kind.BAD_ARGS, Happened.NO),
        (-32602, Kind.BAD_ARGS, Happened.NO),
        (-32603, Kind.NETWORK, Happened.MAYBE),
        (-32001, Kind.TIMEOUT, Happened.MAYBE),
        (-32600, Kind.BUSINESS, Happened.NO),
        (-32099, Kind.BUSINESS, Happened.MAYBE),
        (7, Kind.BUSINESS, Happened.MAYBE),
    ],
)
def test_a_protocol_error_is_of_one_of_the_five_kinds(code: int, kind: Kind, happened: Happened) -> None:
    """By its number, never by its text."""
    failure = failure_by_code(code, "permission denied: timeout")
    assert (failure.kind, failure.happened) == (kind, happened)
