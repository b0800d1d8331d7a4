"""MCP servers that nobody here wrote, run for real: what they do, what they say, how they die.

T4 of the field (parallel calls on one session) and threat 19 (a server changes a tool under us) are held here on real
servers, threat 13 (a server sends a client elsewhere) in test_mcp_tools.py.
"""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

if importlib.util.find_spec("mcp") is None:
    pytest.skip("the package mcp is not installed", allow_module_level=True)

from support.servers import children, node_server, python_server

from foreplan import Engine, Kind, Plan, Policies, Retry, Run, ToolContext, ToolFailure, mcp_tools
from foreplan.executor.mcp_session import ServedTools
from foreplan.registry.attempt import Line

pytestmark = [pytest.mark.anyio, pytest.mark.proof]

ONE_LOOP = pytest.mark.parametrize("anyio_backend", ["asyncio"])
FREE = Policies(approve="never", retry=Retry(attempts=1))
TIME = ("mcp_server_time", "mcp-server-time")
GIT = ("mcp_server_git", "mcp-server-git")


@asynccontextmanager
async def served(command: list[str], **options: Any) -> AsyncIterator[ServedTools]:
    with anyio.fail_after(60):
        async with mcp_tools(stdio=command, inherit=["PATH"], **options) as tools:
            yield tools


async def run(tools: ServedTools, *steps: dict[str, Any]) -> Run:
    return await Engine(tools, policies=FREE).run(Plan.model_validate({"steps": list(steps)}))


async def call(tools: ServedTools, name: str, line: Line | None = None, **args: Any) -> Any:
    return await tools[name].invoke(args, ToolContext(line=line or Line()))


# --- mcp-server-time.


@ONE_LOOP
async def test_the_time_server_converts_and_says_no() -> None:
    """What it gives is checked against its own output schema; what it refuses is business."""
    at = {"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "UTC"}
    async with served(python_server(*TIME, "--local-timezone", "UTC"), effect="reads") as tools:
        done = await run(
            tools,
            {"id": "there", "tool": "convert_time", "args": at},
            {
                "id": "nowhere",
                "tool": "convert_time",
                "args": {**at, "source_timezone": "Asia/Toky"},
                "on_failure": "skip",
            },
        )
    assert done["there"]["target"]["datetime"][10:] == "T03:00:00+00:00"
    [(_, failure)] = done.failures
    assert (failure.kind, failure.code, failure.untrusted) == (Kind.BUSINESS, "refused", True)


@ONE_LOOP
async def test_a_real_server_that_says_something_else_tomorrow_is_not_loaded() -> None:
    """Threat 19, from one day to the next: its local time zone stands in its declarations."""
    async with served(python_server(*TIME, "--local-timezone", "UTC")) as tools:
        pins = tools.pins
    async with served(python_server(*TIME, "--local-timezone", "Asia/Tokyo"), pinned=pins) as tools:
        assert [(f.tool, f.code) for f in tools.findings] == [
            ("get_current_time", "contract_changed"),
            ("convert_time", "contract_changed"),
        ]
        assert len(tools) == 0


async def test_a_real_server_that_is_another_after_it_was_killed_is_not_called(tmp_path: Path) -> None:
    """Threat 19, in the middle of a session: a new process with other declarations takes its place."""
    zone = tmp_path / "zone"
    zone.write_text("UTC")
    words = python_server(*TIME)
    start = ["sh", "-c", f'exec {" ".join(words)} --local-timezone "$(cat {zone})"']
    async with served(start, effect="reads") as tools:
        assert (await call(tools, "get_current_time", timezone="UTC"))["timezone"] == "UTC"
        zone.write_text("Asia/Tokyo")
        kill_servers()
        with pytest.raises(ToolFailure, match="declared otherwise now") as raised:
            await until_it_is_noticed(tools, "get_current_time", timezone="UTC")
    assert (raised.value.code, raised.value.details) == ("contract_changed", {"changed": ["inputSchema"]})


def kill_servers() -> None:
    """SIGKILL to each server of this process."""
    if sys.platform != "linux":
        pytest.skip("which processes are the servers, only Linux tells")
    for process in children(os.getpid()):
        if b"mcp" in Path(f"/proc/{process}/cmdline").read_bytes():
            os.kill(process, signal.SIGKILL)


async def until_it_is_noticed(tools: ServedTools, name: str, **args: Any) -> None:
    """The first call may still find the session that has just died."""
    for _ in range(3):
        with contextlib.suppress(ToolFailure):
            await call(tools, name, **args)
            continue
        break
    await call(tools, name, **args)


# --- mcp-server-git.


def git(folder: Path, *words: str) -> str:
    """What git itself says."""
    if shutil.which("git") is None:
        pytest.skip("git is not there")
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@ONE_LOOP
async def test_a_plan_commits_through_the_git_server(tmp_path: Path) -> None:
    """What a plan of reads and acts did is in the repository, as git itself says."""
    git(tmp_path, "init", "-q")
    (tmp_path / "note.txt").write_text("one line\n")
    who = {f"GIT_{role}_{part}": "ada" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    at = {"repo_path": str(tmp_path)}
    reads = dict.fromkeys(("git_status", "git_log"), "reads")
    async with served(python_server(*GIT), environment=who, effects=reads) as tools:
        done = await run(
            tools,
            {"id": "before", "tool": "git_status", "args": at},
            {
                "id": "staged",
                "tool": "git_add",
                "args": {**at, "files": ["note.txt"]},
                "after": ["before"],
            },
            {
                "id": "committed",
                "tool": "git_commit",
                "args": {**at, "message": "Write a note; $(rm -rf .)"},
                "after": ["staged"],
            },
            {"id": "log", "tool": "git_log", "args": at, "after": ["committed"]},
        )
    assert done.state == "done"
    assert "note.txt" in str(done["before"])
    assert git(tmp_path, "log", "--format=%an %s") == "ada Write a note; $(rm -rf .)\n"
    assert "Write a note" in str(done["log"])


# --- @modelcontextprotocol/server-filesystem.


async def test_fifty_files_are_written_and_read_side_by_side(tmp_path: Path) -> None:
    """T4: a hundred calls on one session, fifty at once, and the disk holds what was to be written."""
    each = {"each": {"$": "range(50)"}, "as": "n"}
    path = {"$": f"f'{tmp_path}/{{n}}.txt'"}
    async with served(node_server("server-filesystem", str(tmp_path)), effect="writes") as tools:
        done = await run(
            tools,
            {
                "id": "written",
                **each,
                "tool": "write_file",
                "args": {"path": path, "content": {"$": "f'file {n}'"}},
            },
            {"id": "read", **each, "tool": "read_text_file", "args": {"path": path}, "after": ["written"]},
        )
    assert done["read"] == [{"content": f"file {n}"} for n in range(50)]
    assert texts_in(tmp_path) == {f"{n}.txt": f"file {n}" for n in range(50)}


def texts_in(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


@ONE_LOOP
@pytest.mark.parametrize("path", ["/etc/passwd", "{0}/../../../etc/passwd", "{0}/link"])
async def test_what_a_server_guards_it_guards_and_a_path_is_only_data(tmp_path: Path, path: str) -> None:
    """A path goes to the server as it is written; that it leads out of its folder is for the server to refuse
    (threat 12)."""
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "{$: 1}").write_text("a name like an expression")
    async with served(
        node_server("server-filesystem", str(tmp_path)), effect="reads", on_error="no"
    ) as tools:
        out = {"path": path.format(tmp_path)}
        odd = {"path": f"{tmp_path}/{{$: 1}}"}
        done = await run(
            tools,
            {"id": "out", "tool": "read_text_file", "args": out, "on_failure": "skip"},
            {"id": "odd", "tool": "read_text_file", "args": odd},
        )
    [(_, failure)] = done.failures
    assert (failure.kind, failure.code) == (Kind.BUSINESS, "refused")
    assert "outside allowed directories" in failure.message
    assert done["odd"] == {"content": "a name like an expression"}


# --- @modelcontextprotocol/server-everything.


@ONE_LOOP
async def test_everything_that_a_server_may_answer_becomes_plain_json() -> None:
    """Text, images, structured content, resources and links to them; a tool that is a task is a finding."""
    async with served(node_server("server-everything"), effect="reads") as tools:
        left_out = [(f.tool, f.code) for f in tools.findings if not f.loaded]
        assert left_out == [("simulate-research-query", "task_only")]
        assert await call(tools, "echo", message="hello") == "Echo: hello"
        assert list(await call(tools, "get-env")) == ["PATH"]
        assert set(await call(tools, "get-structured-content", location="Chicago")) == {
            "temperature",
            "conditions",
            "humidity",
        }
        text, image, *_ = await call(tools, "get-tiny-image")
        assert (type(text), image["mime"], image["bytes"] > 1000, image["data"][:8]) == (
            str,
            "image/png",
            True,
            "iVBORw0K",
        )
        _, resource, _ = await call(tools, "get-resource-reference", resourceType="Text", resourceId=1)
        assert (resource["uri"], resource["mime"]) == ("demo://resource/dynamic/text/1", "text/plain")
        assert resource["text"].startswith("Resource 1")
        _, blob, _ = await call(tools, "get-resource-reference", resourceType="Blob", resourceId=2)
        assert base64.b64decode(blob["data"]).startswith(b"Resource 2")
        _, *links = await call(tools, "get-resource-links", count=2)
        assert [set(link) for link in links] == [{"uri", "name", "mime"}] * 2


async def test_progress_is_heard_and_a_call_that_is_given_up_leaves_the_others_alone() -> None:
    """Of a long operation each step is told; one that is cancelled ends, the session goes on."""
    told: list[Any] = []
    scope = anyio.CancelScope()

    def stop(done: float | None, total: float, text: str) -> None:
        scope.cancel()

    async with served(node_server("server-everything"), effect="reads") as tools:
        line = Line(lambda *said: told.append(said))
        assert "completed" in await call(tools, "trigger-long-running-operation", line, duration=0.1, steps=4)
        assert [said[:2] for said in told] == [(n, 4) for n in (1, 2, 3, 4)]
        with scope:
            await call(tools, "trigger-long-running-operation", Line(stop), duration=500, steps=5000)
        assert scope.cancelled_caught
        assert await call(tools, "get-sum", a=1, b=2) == "The sum of 1 and 2 is 3."


async def test_a_real_server_killed_in_mid_call_leaves_an_unknown_outcome() -> None:
    """SIGKILL while an act is under way: nobody knows, so a person is asked; the next call has a new process."""

    def hear(said: Any) -> None:
        if not killed:
            killed.append(said.step)
            kill_servers()

    killed: list[str] = []
    reads = {"get-sum": "reads"}
    async with served(node_server("server-everything"), effects=reads) as tools:
        long = {
            "id": "long",
            "tool": "trigger-long-running-operation",
            "args": {"duration": 500, "steps": 5000},
        }
        engine = Engine(tools, policies=FREE, listen=hear)
        done = await engine.run(Plan.model_validate({"steps": [long]}))
        assert (done.state, killed) == ("waiting", ["long"])
        assert await call(tools, "get-sum", a=2, b=2) == "The sum of 2 and 2 is 4."


@contextmanager
def everything_over_http() -> Iterator[str]:
    """Its address, as long as it runs."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = node_server("server-everything", "streamableHttp")
    process = subprocess.Popen(command, env={**os.environ, "PORT": port}, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        while "listening" not in process.stderr.readline():
            assert process.poll() is None
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.communicate()


@ONE_LOOP
async def test_fifty_calls_run_side_by_side_on_a_real_server_over_http() -> None:
    """T4 over streamable HTTP."""
    args = {"a": {"$": "n"}, "b": 1}
    step = {"id": "s", "each": {"$": "range(50)"}, "as": "n", "tool": "get-sum", "args": args}
    with everything_over_http() as url:
        async with mcp_tools(url=url, effect="reads") as tools:
            done = await run(tools, step)
            assert done["s"] == [f"The sum of {n} and 1 is {n + 1}." for n in range(50)]
