"""`foreplan mcp` as hosts start it: over stdio and over HTTP on loopback, with clients of the official SDK and our own."""

from __future__ import annotations

import importlib.util
import json
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

if importlib.util.find_spec("mcp") is None:
    pytest.skip("the package mcp is not installed", allow_module_level=True)

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from support.served import Progress, asked, over
from support.shell import Shell, child_environment, write_case

from foreplan import Engine, Plan, Policies, SqliteJournal, mcp_tools
from foreplan.console.app import main
from foreplan.console.served.doors import read_address
from foreplan.policies.errors import BadInput

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

TOKEN = "the-token-of-these-tests"
REFUNDS = {
    "goal": "refund",
    "inputs": {"type": "object", "properties": {"payment": {"type": "string"}}, "required": ["payment"]},
    "steps": [{"id": "r", "tool": "refund", "args": {"payment": {"$": "inputs.payment"}}}],
    "output": {"$": "r"},
}  # fmt: skip
P1 = {"payment": "p1"}
READS = {"steps": [{"id": "p", "tool": "read_ledger", "args": {"path": "x"}}], "output": {"$": "len(p)"}}
HOLDS = {"steps": [{"id": "h", "tool": "hold"}]}
MORE = '''

@tool(effect="reads")
async def hold() -> int:
    """Never come to an end."""
    import anyio
    await anyio.sleep_forever()


@tool(effect="reads")
def chatter() -> str:
    """Print, and have a child print and read."""
    import subprocess
    import sys
    print("not the protocol")
    os.write(1, b"nor this\\n")
    ran = subprocess.run([sys.executable, "-c", "import sys; print(len(sys.stdin.read()), flush=True)"])
    return str(ran.returncode)


registry = Registry(read_ledger, refund, pay, charge, hold, chatter)
'''


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with tools, in which the server is started and people type."""
    write_case(tmp_path)
    with open(tmp_path / "shop.py", "a") as file:
        file.write(MORE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def started() -> subprocess.Popen[str]:
    """The server, with pipes to speak through."""
    pipe = subprocess.PIPE
    return subprocess.Popen(words(), env=child_environment(), stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def words(*more: str) -> list[str]:
    """The command of the server."""
    told = ["-t", "shop.py", "-j", "runs.db", "--permission", "payments.refund"]
    return [sys.executable, "-P", "-m", "foreplan", "mcp", *told, *more]


@asynccontextmanager
async def over_stdio(case: Path, *more: str) -> AsyncIterator[Client]:
    command, *args = words(*more)
    how = StdioServerParameters(command=command, args=args, cwd=case, env=child_environment())
    with anyio.fail_after(60), open(case / "errors.txt", "w") as errors:  # noqa: ASYNC230
        async with Client(stdio_client(how, errlog=errors)) as client:
            yield client


class Listening:
    """A server over HTTP: its process, and its URL."""

    def __init__(self, case: Path, *more: str) -> None:
        self.process = subprocess.Popen(
            words("--http", "127.0.0.1:0", "--token", "token.txt", *more),
            cwd=case,
            env=child_environment(),
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        self.url = self.process.stderr.readline().split()[-1]

    def post(self, document: Any, **headers: str) -> int:
        """The status with which a request is answered that has these headers."""
        said = {"accept": "application/json, text/event-stream", "authorization": f"Bearer {TOKEN}"}
        return httpx2.post(self.url, json=document, headers=said | headers).status_code

    @asynccontextmanager
    async def client(self, mode: Any = "auto") -> AsyncIterator[Client]:
        web = httpx2.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}, timeout=60)
        with anyio.fail_after(60):
            async with web, Client(streamable_http_client(self.url, http_client=web), mode=mode) as client:
                yield client


@pytest.fixture
def listening(case: Path) -> Iterator[Listening]:
    """A server over HTTP, with a token."""
    (case / "token.txt").write_text(TOKEN)
    server = Listening(case)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.communicate()


def person_types(text: str) -> int:
    """What a person types who was told this: the command in it, and a yes."""
    command = text.split("&& foreplan ", 1)[1].split(" -- ", 1)[0]
    return main([*shlex.split(command), "--yes", "--by", "ada", "--quiet"])


async def whole_path(client: Client) -> str:
    """From a plan that does not check to the end of its run; the run's id."""
    assert not (await asked(client, "check", plan={"steps": [{"id": "r", "tool": "refnd"}]})).document["ok"]
    assert (await asked(client, "check", plan=REFUNDS)).document["ok"]
    assert (await asked(client, "review", plan=REFUNDS, inputs=P1)).document["needs_approval"]
    refused = await asked(client, "run", plan=REFUNDS, inputs=P1)
    assert (refused.failed, person_types(refused.text)) == (True, 0)
    ran = await asked(client, "run", plan=REFUNDS, inputs=P1)
    assert not ran.failed, ran.text
    run = str(ran.document["run"])
    assert (await asked(client, "status", run=run)).document["state"] == "done"
    assert (await asked(client, "result", run=run)).document["shape"] == {"type": "string"}
    again = await asked(client, "run", plan=REFUNDS, inputs=P1)
    assert (again.failed, f"used up, by run {run!r}" in again.text) == (True, True)
    return run


# ---------------------------------------------------------------------------------------------- stdio


async def test_the_whole_path_over_stdio_and_a_server_that_begins_anew(case: Path) -> None:
    """A person approves with the command that the client was told; the next server knows what ran, and what had to pause."""
    async with over_stdio(case) as client:
        run = await whole_path(client)
        held = (await asked(client, "run", plan=HOLDS, wait=0)).document
    (case / "rules.yaml").write_text("show_tool_text: true\n")
    async with over_stdio(case, "--policies", "rules.yaml") as client:
        told = await asked(client, "result", run=run)
        paused = (await asked(client, "status", run=held["run"])).document
    assert told.document["result"] == "refunded p1"
    assert [each["state"] for each in (held, paused)] == ["running", "waiting"]
    assert paused["reason"] == "interrupted"


async def test_nothing_but_the_protocol_is_on_standard_output(case: Path) -> None:
    """Neither what tools print, nor what their children do; and what those read of the input is empty."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    call = {"name": "run", "arguments": {"plan": {"steps": [{"id": "c", "tool": "chatter"}]}}, "_meta": meta}
    process = started()
    assert process.stdin is not None
    assert process.stdout is not None
    lines = [
        "this is no JSON",
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}),
    ]
    process.stdin.write("".join(f"{line}\n" for line in lines))
    process.stdin.flush()
    said: list[dict[str, Any]] = []
    while not any(each.get("id") == 1 for each in said):
        said.append(json.loads(process.stdout.readline()))
    rest, errors = process.communicate(timeout=60)
    assert rest == ""
    assert (
        next(each for each in said if each.get("id") == 1)["result"]["structuredContent"]["state"] == "done"
    )
    assert all(word in errors for word in ("not the protocol", "nor this", "\n0\n"))
    assert process.returncode == 0


@pytest.mark.parametrize("sign", [pytest.param(signal.SIGINT, marks=pytest.mark.proof), signal.SIGTERM])
async def test_a_server_that_waits_for_its_client_ends_at_once(sign: signal.Signals, case: Path) -> None:
    """It does not wait for the next line."""
    process = started()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["id"] == 1
    process.send_signal(sign)
    while process.poll() is None:  # with its input open
        await anyio.lowlevel.checkpoint()
    _, errors = process.communicate()
    assert (process.returncode, errors.strip()) == (
        130,
        "foreplan: the server has ended; what ran has paused",
    )


async def test_a_plan_of_ours_drives_a_server_of_ours(case: Path) -> None:
    """foreplan's own client checks, runs and asks for the status of a plan, by a plan."""
    whole = {
        "steps": [
            {"id": "checked", "tool": "fp.check", "args": {"plan": {"$literal": READS}}},
            {
                "id": "ran",
                "when": {"$": "checked.ok"},
                "tool": "fp.run",
                "args": {"plan": {"$literal": READS}},
            },
            {"id": "told", "tool": "fp.status", "args": {"run": {"$": "ran.run"}}},
        ],
        "output": {"$": "[told.state, told.tool_calls]"},
    }
    effects = {"check": "reads", "status": "reads"}
    with anyio.fail_after(60):
        async with mcp_tools(
            stdio=words(), prefix="fp.", effects=effects, environment=child_environment()
        ) as tools:
            ran = await Engine(tools, policies=Policies(approve="never")).run(Plan.model_validate(whole))
    assert (ran.state, ran.output) == ("done", ["done", 1]), ran.failures


# ---------------------------------------------------------------------------------------------- HTTP


STRANGERS: dict[str, tuple[dict[str, str], int]] = {
    "no token": ({"authorization": ""}, 401),
    "another token": ({"authorization": f"Bearer {TOKEN}x"}, 401),
    "another host": ({"host": "evil.example"}, 421),
    "a host that begins alike": ({"host": "127.0.0.1.evil.example"}, 421),
    "a page elsewhere": ({"origin": "http://evil.example"}, 403),
    "another host, later": ({"host": "evil.example", "mcp-protocol-version": "2026-07-28"}, 421),
    "a page elsewhere, later": ({"origin": "http://evil.example", "mcp-protocol-version": "2026-07-28"}, 403),
    "no JSON": ({"content-type": "text/plain"}, 400),
}


async def test_the_whole_path_over_http_and_strangers_who_are_not_let_in(listening: Listening) -> None:
    """Another client sees the run, one of the earlier protocol too. Not let in is who brings no token, calls the server by
    another name (DNS rebinding), comes from another page, or brings too much."""
    async with listening.client() as client, listening.client("legacy") as other:
        run = await whole_path(client)
        assert [line["run"] for line in (await asked(other, "runs")).document["runs"]] == [run]
        lists = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        answers = {name: listening.post(lists, **headers) for name, (headers, _) in STRANGERS.items()}
        assert listening.post({"x": "x" * 5_000_000}) == 413
        assert len((await asked(client, "runs")).document["runs"]) == 1
    assert answers == {name: status for name, (_, status) in STRANGERS.items()}


async def test_whoever_gives_up_a_request_or_ends_the_server_pauses_what_runs(listening: Listening) -> None:
    """A closed connection cancels its request, and others are served on; SIGTERM ends all. Both runs can be resumed."""
    plan = {"steps": [{"id": "v", "value": 1}, *HOLDS["steps"]]}
    async with listening.client() as client:
        progress = Progress()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: client.call_tool("run", {"plan": plan}, progress_callback=progress))
            await progress.rang.wait()
            tasks.cancel_scope.cancel()
        [line] = (await asked(client, "runs")).document["runs"]
        assert (await over(client, line["run"])).document["reason"] == "interrupted"
        await asked(client, "run", plan=HOLDS, wait=0)
    listening.process.send_signal(signal.SIGTERM)
    await in_a_thread(listening.process.wait)
    with SqliteJournal("runs.db") as journal:
        assert [(line.state, line.reason) for line in journal.runs()] == [("waiting", "interrupted")] * 2


# ---------------------------------------------------------------------------------------------- how it is started

BAD: dict[str, tuple[list[str], str]] = {
    "no address": (["--http", "127.0.0.1:http"], "'127.0.0.1:http' is no address; write HOST:PORT"),
    "beyond this machine": (["--http", "0.0.0.0:0"], "0.0.0.0 is reached from other machines, so a token is needed"),
    "a token for stdio": (["--token", "token.txt"], "--token is for a server over HTTP; give --http"),
    "a short token": (["--http", "0", "--token", "short.txt"], "the token in short.txt must be one word of 16"),
    "no such token": (["--http", "0", "--token", "tokn.txt"], "there is no file 'tokn.txt'; did you mean 'token.txt'?"),
    "an address of others": (["--http", "192.0.2.1:0", "--token", "token.txt"], "192.0.2.1:0 cannot be listened on"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
async def test_words_that_make_no_server_are_a_sentence(
    name: str, case: Path, capsys: pytest.CaptureFixture[str], anyio_backend: str
) -> None:
    """And exit code 2."""
    (case / "token.txt").write_text(TOKEN)
    (case / "short.txt").write_text("short")
    given, said = BAD[name]
    told = await in_a_thread(lambda: Shell(case, capsys).here("mcp", "-t", "shop.py", *given))
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith(f"foreplan: {said}"), told.err


async def in_a_thread(function: Callable[[], Any]) -> Any:
    """A command has an event loop of its own."""
    return await anyio.to_thread.run_sync(function)


async def test_without_the_extra_it_says_what_to_install(case: Path) -> None:
    """In a sentence, and nothing on standard output."""
    code = "import sys; sys.modules['mcp'] = None; from foreplan.console.app import main; sys.exit(main())"
    command = [sys.executable, "-P", "-c", code, "mcp", "-t", "shop.py"]
    ran = await anyio.run_process(command, env=child_environment(), check=False)
    said = b"foreplan: foreplan as an MCP server needs the package 'mcp': pip install 'foreplan[mcp]'\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, b"", said)


@pytest.mark.parametrize(
    ("word", "address"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("8000", ("127.0.0.1", 8000)),
        (":8000", ("127.0.0.1", 8000)),
        ("localhost", ("localhost", 8765)),
        ("[::1]:0", ("::1", 0)),
        ("[::1]", ("::1", 8765)),
        ("example.org:65536", None),
        ("example.org:http", None),
    ],
)
async def test_an_address_may_leave_out_host_or_port(word: str, address: tuple[str, int] | None) -> None:
    """It is on this machine alone where no host is said."""
    try:
        assert address == read_address(word)
    except BadInput:
        assert address is None
