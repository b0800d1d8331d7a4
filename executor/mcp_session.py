"""Tools of MCP servers, through the official SDK: `pip install 'foreplan[mcp]'`.

    async with mcp_tools(stdio=["uvx", "mcp-server-time"], prefix="time.", effect="reads") as served:
        async with Engine(served, ...) as engine: ...

What the SDK opens must be closed by the task that opened it, or a cancel scope is left behind in another one. So each
session has one owner, a task that opens it, stays in it and closes it, and nothing else; calls run in the tasks of
their callers, side by side, and only speak through it.

    caller --_turn()--> Turn <--opens, closes-- owner           a Turn is one session, from its opening to its end
       └──── request ───> session ───> answer                   a broken one is followed by another, within bounds

What was loaded is pinned. A server that says something else later is not obeyed: the call is refused before it begins
(`contract_changed`), and stays refused until somebody has looked and loads the tools again.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from inspect import isawaitable
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import anyio

from ..policies.classification import classify
from ..policies.effect import Effect
from ..policies.errors import BadInput, SecretMissing
from ..policies.evidence import retry_after
from ..policies.failures import Happened, Kind, ToolFailure
from ..policies.secrets import Scrubber, Secret
from ..policies.text import safe_text, shorten
from ..registry.imports import ToolFinding
from ..registry.mcp_declared import (
    Said,
    acceptable,
    changes,
    declared_tools,
    failure_by_code,
    pin_of,
    read_answer,
)
from ..registry.registry import Registry
from ..registry.tools import Tool, ToolContext
from ..registry.values import Json
from ..registry.vaults import EnvironmentSecrets, Vault

__all__ = ["ServedTools", "mcp_tools"]

_LOG = logging.getLogger("foreplan.mcp")
_MOST_PAGES = 100

Document = dict[str, Any]


class ServedTools(Registry):
    """The tools of one server, as long as its session is open."""

    def __init__(
        self, tools: Sequence[Tool], pins: Mapping[str, str], findings: Sequence[ToolFinding]
    ) -> None:
        super().__init__(*tools)
        self.pins = dict(pins)
        """What each tool was declared as, by the server's name of it, as digests; plain JSON, for `pinned=`."""
        self.findings = tuple(findings)
        """What was not loaded, or not as the server or the operator said."""


@asynccontextmanager
async def mcp_tools(
    *,
    stdio: Sequence[str] | None = None,
    url: str | None = None,
    prefix: str = "",
    names: Collection[str] | None = None,
    effect: Effect | str = Effect.ACTS,
    effects: Mapping[str, Effect | str] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    pinned: Mapping[str, str] | None = None,
    environment: Mapping[str, str | Secret] | None = None,
    inherit: Collection[str] = (),
    cwd: str | None = None,
    headers: Mapping[str, str | Secret] | None = None,
    auth: Any = None,
    secret_refs: Mapping[str, str] | None = None,
    secrets: Vault | None = None,
    json_text: bool | Collection[str] = True,
    on_error: Happened | str = Happened.MAYBE,
    on_change: str = "stop",
    recheck: float = 60.0,
    patience: float = 30.0,
    reconnects: int = 3,
    **common: Any,
) -> AsyncIterator[ServedTools]:
    """The tools of an MCP server: `stdio` is the command that starts it, `url` where it listens (streamable HTTP).

    A tool acts unless `effects` (by the server's name of it) or `effect` say less; what the server hints can only make
    that stricter. `options` are those of `@tool` by name, `common` those of all (`permissions=`, `level=`, `timeout=`).
    `names` are the tools that are wanted; `pinned`, the `pins` of an earlier session, leaves out what differs.

    A server on stdio sees the variables in `environment` and those named by `inherit`, no others. `secret_refs` says
    which variable, or which header, gets which secret of the vault `secrets`; a header may hold it within a text:
    `headers={"Authorization": "Bearer {secret}"}`. `auth` signs in over HTTP: one of the SDK's providers of OAuth, as
    `mcp.client.auth.OAuthClientProvider`, or any `httpx2.Auth`.

    Before a call that acts the declaration is compared with the pinned one; before others where that was over `recheck`
    seconds ago, and after every reconnection. A tool that changed is not called; with `on_change="ask"` a person is shown
    what differs first, and may accept it for the run. `on_error` is whether a call that the server answers with an error
    may have taken effect. `json_text` reads text that is a JSON object or list as one (of these tools).
    Raises `BadInput`, and `ToolFailure` where the server cannot be reached within `patience` seconds.
    """
    said = Said(
        prefix,
        effect,
        effects or {},
        options or {},
        _with_host(common, url),
        names,
        pinned,
        _origin(stdio, url),
    )
    given = dict((headers if url else environment) or {})
    shown, scrubber = await _revealed(given, secret_refs or {}, secrets or EnvironmentSecrets())
    door = _Door(stdio, url, shown, inherit, cwd, auth, scrubber)
    if on_change not in ("stop", "ask"):
        raise BadInput(f"on_change is 'stop' or 'ask', not {shorten(repr(on_change), 40)}")
    bounds = (recheck, patience, reconnects)
    link = _Link(door, said, scrubber, json_text, Happened(on_error), bounds, asks=on_change == "ask")
    failed: BaseException | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(link.own)
        try:
            declared = await link.load()
            yield ServedTools(*declared_tools(declared, said, link.caller))
        except (anyio.get_cancelled_exc_class(), GeneratorExit):
            raise
        except BaseException as error:  # raised below: a task group would wrap it
            failed = error
        finally:
            link.close()
    if failed is not None:
        raise failed


def _origin(stdio: Sequence[str] | None, url: str | None) -> str:
    """What the server is called in messages: of a URL nothing that may be a secret."""
    if url is None:
        return shorten(" ".join(map(str, stdio or ())), 120)
    parts = urlsplit(url)
    return shorten(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}", 120)


def _with_host(common: Mapping[str, Any], url: str | None) -> dict[str, Any]:
    """Limits hold for a host, so the tools of a server say which it is."""
    host = urlsplit(url).netloc.rpartition("@")[2].lower() if url else ""
    return {**({"host": host} if host and "[" not in host else {}), **common}


async def _revealed(
    given: Mapping[str, str | Secret], refs: Mapping[str, str], vault: Vault
) -> tuple[dict[str, str], Scrubber]:
    """Variables or headers as text, and what takes the secrets among them out of what the server says."""
    scrubber, shown = Scrubber(), {}
    for name, value in given.items():
        if isinstance(value, Secret):
            scrubber.add(Secret(value.reveal(), value.name or name))
        shown[name] = value.reveal() if isinstance(value, Secret) else str(value)
    for name, ref in refs.items():
        try:
            answer = vault.resolve(ref)
            said = await answer if isawaitable(answer) else answer
        except SecretMissing as error:
            raise BadInput(f"{name} of an MCP server needs the secret {ref!r}: {error}") from None
        secret = Secret(said.reveal() if isinstance(said, Secret) else said, ref)
        scrubber.add(secret)
        shown[name] = shown.get(name, "{secret}").replace("{secret}", secret.reveal())
    return shown, scrubber


# --- The way to a server.


_LAUNCH = "import os, sys; keep = set(sys.argv[1].split()); os.execve(sys.argv[2], sys.argv[2:], {k: v for k, v in os.environ.items() if k in keep})"
"""The SDK lets a server inherit HOME, PATH, USER and others, always; this takes them away again, before it begins."""
_ANSWERED: ContextVar[list[Any] | None] = ContextVar("foreplan_mcp_answered", default=None)
"""HTTP answers to the requests of one call: the SDK tells only that there was an error, not its status."""


class _Door:
    """How a server is reached, checked before anything is begun."""

    def __init__(
        self,
        stdio: Sequence[str] | None,
        url: str | None,
        shown: Mapping[str, str],
        inherit: Collection[str],
        cwd: str | None,
        auth: Any,
        scrubber: Scrubber,
    ) -> None:
        if (stdio is None) == (url is None):
            raise BadInput("an MCP server is reached by one of stdio=[command, …] and url='https://…'")
        if stdio is not None and (isinstance(stdio, str) or not stdio):
            raise BadInput(f"stdio is a list, the command and its arguments, not {shorten(repr(stdio), 60)}")
        if url is not None and urlsplit(url).scheme not in ("http", "https"):
            raise BadInput(
                f"the url of an MCP server begins with https:// or http://, not {shorten(url, 60)}"
            )
        if isinstance(inherit, str):
            raise BadInput(f"inherit is a list of variables: inherit=[{inherit!r}]")
        if auth is not None and (url is None or not callable(getattr(auth, "async_auth_flow", None))):
            raise BadInput(
                "auth signs in at the url of a server: an httpx2.Auth, such as mcp.client.auth.OAuthClientProvider(…)"
            )
        self.sdk = _sdk()
        self._stdio, self._url, self._shown, self._inherit, self._cwd = stdio, url, shown, inherit, cwd
        self._auth, self._scrubber = auth, scrubber

    def transport(self) -> AbstractAsyncContextManager[Any]:
        return self._web() if self._url is not None else self._process()

    @asynccontextmanager
    async def _process(self) -> AsyncIterator[Any]:
        assert self._stdio is not None
        command = [shutil.which(self._stdio[0]) or self._stdio[0], *self._stdio[1:]]
        seen = {name: os.environ[name] for name in self._inherit if name in os.environ} | dict(self._shown)
        if os.name == "posix":
            command = [sys.executable, "-I", "-S", "-c", _LAUNCH, " ".join(seen), *command]
        parameters = self.sdk.StdioServerParameters(
            command=command[0], args=command[1:], env=seen, cwd=self._cwd
        )
        with ExitStack() as stack:
            nowhere = stack.enter_context(open(os.devnull, "w"))  # noqa: ASYNC230 - it is no file
            async with self.sdk.stdio_client(parameters, errlog=nowhere) as streams:
                yield streams

    @asynccontextmanager
    async def _web(self) -> AsyncIterator[Any]:
        from mcp.client import streamable_http

        sdk: Any = streamable_http
        web = sdk.create_mcp_http_client(headers=dict(self._shown), auth=self._auth)
        web.timeout = None  # the time limits of the run hold
        web.event_hooks = {"request": [self._note_credential], "response": [self._note_answer]}
        async with web, sdk.streamable_http_client(self._url, http_client=web) as streams:
            yield streams

    async def _note_credential(self, request: Any) -> None:
        """What `auth` fetched for itself is a secret like those that were handed in."""
        said = request.headers.get("Authorization", "").split(" ", 1)[-1]
        if self._auth is not None and said:
            self._scrubber.add(Secret(said, "token"))

    async def _note_answer(self, response: Any) -> None:
        """Of the server itself, and the last word: signing in asks others, and asks it twice."""
        noted = _ANSWERED.get()
        if noted is None or urlsplit(str(response.request.url)).path != urlsplit(str(self._url)).path:
            return
        noted[:] = [response] if response.status_code >= 400 else []


def _sdk() -> Any:
    try:
        import mcp
        import mcp.client.stdio
    except ModuleNotFoundError:
        raise BadInput("tools of MCP servers need the package 'mcp': pip install 'foreplan[mcp]'") from None
    return mcp


class _Heard:
    """The stream of what a server says, which tells when it ends, and keeps the tools in it as they were declared.

    The SDK refuses a whole list for one tool that is not in the protocol's form; such tools are taken out before.
    """

    def __init__(self, stream: Any, turn: _Turn) -> None:
        self._stream = stream
        self._turn = turn

    async def __aenter__(self) -> _Heard:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> Any:
        return await self._stream.__aexit__(*raised)

    def __aiter__(self) -> _Heard:
        return self

    async def __anext__(self) -> Any:
        try:
            said = await self._stream.__anext__()
        except StopAsyncIteration:
            self._turn.leave.set()
            raise
        result = getattr(getattr(said, "message", None), "result", None)
        if isinstance(result, dict) and isinstance(result.get("tools"), list):
            self._turn.declared += result["tools"]
            result["tools"] = [each for each in result["tools"] if self._fits(each, result)]
        return said

    def _fits(self, tool: Any, result: Document) -> bool:
        from mcp.types.methods import validate_server_result

        client = self._turn.client
        try:
            validate_server_result("tools/list", client.protocol_version, {**result, "tools": [tool]})
        except ValueError:
            return False
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


# --- The session and its owner.


class _Turn:
    """One session, from its opening to its end."""

    def __init__(self) -> None:
        self.client: Any = None
        self.ready = anyio.Event()
        self.leave = anyio.Event()
        self.over = False
        self.problem: BaseException | None = None
        self.answered: list[Any] = []
        """HTTP answers with an error, on the way to a session."""
        self.declared: list[Any] = []
        """Tools as the server writes them, of the list that is being read."""
        self.listed = -math.inf
        self.stale = True
        self.listing = anyio.Lock()

    def documents(self) -> list[Document]:
        """What was declared in the list that was read last; what is no object stands as the name of nothing."""
        return [
            each if isinstance(each, dict) else {"name": shorten(repr(each), 40)} for each in self.declared
        ]

    def changed(self) -> None:
        """The server says that its tools are others."""
        self.stale = True


class _Link:
    """Keeps a session with one server and makes calls through it."""

    def __init__(
        self,
        door: _Door,
        said: Said,
        scrubber: Scrubber,
        json_text: bool | Collection[str],
        on_error: Happened,
        bounds: tuple[float, float, int],
        *,
        asks: bool,
    ) -> None:
        self._door = door
        self._said, self._origin = said, said.origin
        self._asks = asks
        self._scrubber = scrubber
        self._json_text = json_text
        self._on_error = on_error
        self._recheck, self._patience, self._reconnects = bounds
        self._turn: _Turn | None = None
        self._asked = anyio.Event()
        self._closed = False
        self._tries = 0
        self._pinned: dict[str, Document] = {}
        self._changed: dict[str, _Change] = {}
        """Tools that the server changed, and what of them."""
        self._thread = threading.get_ident()

    # The owner.

    async def own(self) -> None:
        """Open a session whenever one is asked for, stay in it until it is over, close it: all in this task."""
        while True:
            await self._asked.wait()
            self._asked = anyio.Event()
            if self._closed:
                if self._turn is not None:
                    self._turn.over = True
                    self._turn.ready.set()  # for a call that has asked for another session just now
                return
            if self._turn is not None:
                await self._keep(self._turn)

    async def _keep(self, turn: _Turn) -> None:
        scope = anyio.CancelScope(deadline=anyio.current_time() + self._patience)
        _ANSWERED.set(turn.answered)
        try:
            with scope:
                async with self._client(turn) as client:
                    scope.deadline = math.inf
                    turn.client = client
                    turn.ready.set()
                    await self._stay(turn)
        except Exception as error:  # told to whoever asks for the session
            turn.problem = turn.problem or error
        finally:
            if scope.cancelled_caught:
                turn.problem = TimeoutError(f"{self._origin} did not answer within {self._patience:g} s")
            turn.over = True
            turn.ready.set()

    def _client(self, turn: _Turn) -> AbstractAsyncContextManager[Any]:
        sdk = self._door.sdk

        @asynccontextmanager
        async def heard() -> AsyncIterator[Any]:
            async with self._door.transport() as (reading, writing):
                yield _Heard(reading, turn), writing

        async def notice(message: Any) -> None:
            if getattr(message, "method", "") == "notifications/tools/list_changed":
                turn.changed()

        return cast(
            "AbstractAsyncContextManager[Any]",
            sdk.Client(heard(), message_handler=notice, cache=None),
        )

    async def _stay(self, turn: _Turn) -> None:
        tools = turn.client.server_capabilities.tools
        async with anyio.create_task_group() as group:
            if tools is not None and tools.list_changed and turn.client.session.discover_result is not None:
                group.start_soon(self._listen, turn)
            await turn.leave.wait()
            group.cancel_scope.cancel()

    async def _listen(self, turn: _Turn) -> None:
        """Servers of the newer protocol tell of changes on a stream that is asked for."""
        try:
            async with turn.client.listen(tools_list_changed=True) as told:
                async for _ in told:
                    turn.changed()
        except Exception as error:
            _LOG.info("%s tells of no changes: %s", self._origin, type(error).__name__)
        turn.changed()

    def close(self) -> None:
        """Let the owner come to its end."""
        self._closed = True
        if self._turn is not None:
            self._turn.leave.set()
        self._asked.set()

    # What calls need of it.

    async def _session(self) -> _Turn:
        """A session that is open, opened for this call if need be. Raises `ToolFailure`: nothing has been sent."""
        turn = self._turn
        if turn is None or turn.over or turn.leave.is_set():
            turn = await self._another(turn)
        await turn.ready.wait()
        if turn.client is None:
            raise self._unreachable(turn)
        return turn

    async def _another(self, last: _Turn | None) -> _Turn:
        if self._closed:
            raise self._failure(
                "its session was closed; call its tools inside `async with mcp_tools(…)`", "session_closed"
            )
        if last is not None and self._tries >= self._reconnects:
            said = f"it was lost {self._tries} times in a row, so it is not asked again; load its tools anew"
            raise self._failure(said, "disconnected")
        if self._turn is last:
            self._tries += last is not None
            self._turn = _Turn()
            self._asked.set()
        assert self._turn is not None
        return self._turn

    def _failure(self, said: str, code: str, happened: Happened = Happened.NO) -> ToolFailure:
        return ToolFailure(f"{self._origin}: {said}", kind=Kind.NETWORK, code=code, happened=happened)

    def _unreachable(self, turn: _Turn) -> ToolFailure:
        problem = turn.problem or ConnectionError("it ended before it answered")
        failure = classify(problem)
        said = (
            f"{self._origin} cannot be reached: {self._scrubber.scrub_text(safe_text(failure.message, 500))}"
        )
        if turn.answered:
            last = turn.answered[-1]
            told = failure_by_code(0, said, status=last.status_code, retry_after=retry_after(last.headers))
            told.happened = Happened.NO
            return told
        return ToolFailure(
            said,
            kind=failure.kind if failure.code != "tool_error" else Kind.NETWORK,
            code=failure.code if failure.code != "tool_error" else "unreachable",
        )

    # Declarations.

    async def load(self) -> list[Document]:
        """What the server declares, which is pinned from now on. Raises `ToolFailure`."""
        with anyio.move_on_after(self._patience):
            turn = await self._session()
            declared = await self._list(turn)
            self._pinned = {str(each.get("name")): each for each in declared}
            self._tries = 0
            return declared
        raise self._failure(f"it listed no tools within {self._patience:g} s", "deadline")

    async def _list(self, turn: _Turn) -> list[Document]:
        from mcp.types import PaginatedRequestParams

        turn.declared = []
        begun, turn.stale = anyio.current_time(), False
        cursor = None
        for _ in range(_MOST_PAGES):
            with self._told(turn, begun=False):
                page = await turn.client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
            cursor = page.next_cursor
            if cursor is None:
                turn.listed = begun
                return turn.documents()
        raise self._failure(f"its list of tools has over {_MOST_PAGES} pages", "protocol_error")

    async def _compare(self, name: str, args: dict[str, Json], accepted: str, *, always: bool) -> _Turn:
        """A session in which the tool is what it was when it was loaded, or was accepted as. Raises `ToolFailure`."""
        asked = anyio.current_time()
        self._refuse(name, args, accepted)
        turn = await self._session()
        if always or turn.stale or asked - turn.listed > self._recheck:
            async with turn.listing:
                if turn.stale or turn.listed < asked:  # else another call has asked in the meantime
                    self._judge(await self._list(turn))
        self._refuse(name, args, accepted)
        return turn

    def _judge(self, declared: list[Document]) -> None:
        now: dict[str, list[Document]] = {}
        for each in declared:
            now.setdefault(str(each.get("name")), []).append(each)
        for name, before in self._pinned.items():
            offered = now.get(name, [{}])
            others = [each for each in offered if not _same(before, each)]
            if others:
                self._changed[name] = _Change(changes(before, others[0]), *_pinned(offered))
            elif name in self._changed:  # it stays so, also where it is again what it was
                self._changed[name] = self._changed[name]._replace(now=None, pin=None)

    def _refuse(self, name: str, args: dict[str, Json], accepted: str) -> None:
        change = self._changed.get(name)
        if change is None or (accepted and change.pin == accepted):
            return
        otherwise = f"is declared otherwise now ({', '.join(change.parts)}) than when it was loaded"
        what = "is no longer offered" if "name" in change.parts else otherwise
        details: dict[str, Any] = {"changed": change.parts}
        if self._asks and change.now is not None:
            contract = acceptable(self._pinned[name], change.now, self._said, args)
            details |= {"contract": self._scrubber.scrub(contract)} if contract else {}
        raise ToolFailure(
            f"{name!r} of {self._origin} {what}, so it is not called",
            kind=Kind.PERMISSION,
            code="contract_changed",
            hint="look at what the server declares now, load its tools again, and approve the plan again",
            details=details,
        )

    # Calls.

    def caller(self, name: str, acts: bool) -> Callable[..., Awaitable[Json]]:
        """The function of a tool."""

        async def call(args: dict[str, Json], context: ToolContext) -> Json:
            return await self._call(name, args, context, acts=acts)

        return call

    async def _call(self, name: str, args: dict[str, Json], context: ToolContext, *, acts: bool) -> Json:
        from mcp.types import CallToolRequest, CallToolRequestParams, CallToolResult

        if threading.get_ident() != self._thread:
            said = "its session belongs to another event loop; open it where the run is"
            raise self._failure(said, "other_loop")
        turn = await self._compare(name, args, context.line.accepted, always=acts)
        told = _progress(context) if context.line.tell is not None else None
        request = CallToolRequest(params=CallToolRequestParams(name=name, arguments=args))
        with self._told(turn, begun=True):
            answer = await turn.client.session.send_request(request, CallToolResult, progress_callback=told)
        self._tries = 0
        document = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
        document = self._scrubber.scrub(document)
        as_json = self._json_text if isinstance(self._json_text, bool) else name in self._json_text
        return read_answer(document, json_text=as_json, on_error=self._on_error)

    @contextmanager
    def _told(self, turn: _Turn, *, begun: bool) -> Any:
        """What goes wrong with a request as a `ToolFailure`; `begun` where it may have had an effect."""
        noted: list[Any] = []
        before = _ANSWERED.set(noted)
        try:
            yield
        except Exception as error:
            failure = self._wrong(turn, error, noted)
            if not begun:
                failure.happened = Happened.NO
            raise failure from None
        finally:
            _ANSWERED.reset(before)

    def _wrong(self, turn: _Turn, error: Exception, noted: list[Any]) -> ToolFailure:
        status = noted[-1].status_code if noted else None
        said = self._scrubber.scrub_text(str(error))
        if not isinstance(error, self._door.sdk.MCPError):
            message = f"{self._origin} answered in no form that the protocol knows: {shorten(said, 300)}"
            return ToolFailure(message, code="bad_response", happened=Happened.MAYBE)
        if status == 404:
            turn.leave.set()  # MCP: a session that the server has forgotten is a 404
            return self._failure("it has ended the session", "session_ended")
        if turn.over or turn.leave.is_set():
            return self._failure("the connection ended", "connection_closed", Happened.MAYBE)
        wait = retry_after(noted[-1].headers) if noted else None
        return failure_by_code(error.code, said, status=status, retry_after=wait)


class _Change(NamedTuple):
    """What of a tool is declared otherwise, how it is declared now, and the digest of that; None: by no one declaration."""

    parts: list[str]
    now: Document | None
    pin: str | None


def _pinned(offered: list[Document]) -> tuple[Document | None, str | None]:
    """The one declaration of a name, and its pin."""
    try:
        return (offered[0], pin_of(offered[0])) if len(offered) == 1 and offered[0] else (None, None)
    except ValueError:
        return None, None


def _same(before: Document, now: Document) -> bool:
    try:
        return pin_of(before) == pin_of(now)
    except ValueError:
        return False


def _progress(context: ToolContext) -> Callable[[float, float | None, str | None], Awaitable[None]]:
    async def told(done: float, total: float | None, text: str | None) -> None:
        words = safe_text(text or "", 200)
        if total:
            context.progress(done, total, words)
        else:
            context.note(words or f"{done:g}")

    return told
