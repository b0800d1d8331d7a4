"""The server object of the official SDK over an engine: `pip install 'foreplan[mcp]'`.

    server = mcp_server(engine, approvals="approvals")       the SDK's `Server`
    server.streamable_http_app(...)                          mounted where other web applications are
    foreplan mcp --tools ... --journal ...                   over stdio, or on loopback

All that leaves here has been through one place, which takes out secrets and makes texts safe to be shown.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import anyio

from ...executor.blocking import first_error
from ...executor.engine import Engine
from ...planner.findings import CheckFailed, PlanUnreadable
from ...planner.prompt import catalogue, plan_language
from ...planner.react import compact
from ...policies.errors import BadInput, ForeplanError, expect
from ...policies.spelling import spelled
from ...policies.text import safe_text
from .consent import Consent, Spell, plain_spelling
from .desk import Desk
from .offers import Offer, instructions
from .service import Service

__all__ = ["mcp_server", "sdk"]

_LOG = logging.getLogger("foreplan")
_LANGUAGE, _TOOLS = "foreplan://language", "foreplan://tools"


def sdk() -> Any:
    """The official SDK. Raises `BadInput` where it is not installed."""
    try:
        import mcp.server.lowlevel
        import mcp.types
    except ModuleNotFoundError:
        raise BadInput(
            "foreplan as an MCP server needs the package 'mcp': pip install 'foreplan[mcp]'"
        ) from None
    return mcp


@spelled
def mcp_server(
    engine: Engine, *, approvals: str | Path | None = None, command: Spell = plain_spelling
) -> Any:
    """A server, as the official SDK has it, by which a client plans, checks, reviews and runs with this engine.

    It runs only where the engine's journal is a file. `approvals` is a folder into which people, and nobody else, put
    approvals; an approval that a client hands over counts only where the engine has `approvers`. `command(*words)` spells
    a command line of foreplan for whoever must type it. Raises `BadInput` where the SDK is not installed.
    """
    mcp = sdk()
    expect(Engine, engine, "what is served", "Engine(tools, journal='runs.db') makes one")
    consent = Consent(engine, Path(approvals) if approvals is not None else None, command)
    service = Service(engine, consent, command)
    return _server(mcp, engine, service)


def _server(mcp: Any, engine: Engine, service: Service) -> Any:
    types = mcp.types

    async def list_tools(context: Any, params: Any) -> Any:
        return types.ListToolsResult(tools=[_declared(types, offer) for offer in service.offers])

    async def call_tool(context: Any, params: Any) -> Any:
        async def tell(settled: int, last: str) -> None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await context.session.report_progress(settled, None, last)

        given = params.arguments or {}
        return await _answered(
            types, engine, lambda: service.call(params.name, given, context.lifespan_context, tell)
        )

    async def list_resources(context: Any, params: Any) -> Any:
        language = types.Resource(
            uri=_LANGUAGE, name="language", title="How plans are written", mime_type="text/plain"
        )
        tools = types.Resource(
            uri=_TOOLS, name="tools", title="Tools that plans may call", mime_type="application/json"
        )
        return types.ListResourcesResult(resources=[language, tools])

    async def read_resource(context: Any, params: Any) -> Any:
        uri = str(params.uri)
        texts: dict[str, Callable[[], str]] = {
            _LANGUAGE: plan_language,
            _TOOLS: lambda: compact(engine.scrub(catalogue(service.tools))),
        }
        if uri not in texts:
            refused: Any = mcp.MCPError
            raise refused(code=types.INVALID_PARAMS, message=f"there are {' and '.join(texts)}")
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, text=texts[uri]())])

    @asynccontextmanager
    async def lifespan(server: Any) -> AsyncIterator[Desk]:
        with first_error():
            async with anyio.create_task_group() as tasks:
                try:
                    yield Desk(engine, tasks)
                finally:
                    tasks.cancel_scope.cancel()  # what is under way pauses, and can be resumed

    return mcp.server.lowlevel.Server(
        "foreplan",
        version=metadata.version("foreplan"),
        title="foreplan",
        instructions=instructions(service.offers),
        lifespan=lifespan,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )


def _declared(types: Any, offer: Offer) -> Any:
    """A tool as the protocol declares it; hints say what is true of it."""
    hints = types.ToolAnnotations(
        title=offer.title,
        read_only_hint=offer.reads,
        destructive_hint=not offer.reads,
        idempotent_hint=offer.reads,
        open_world_hint=offer.world,
    )
    return types.Tool(
        name=offer.name,
        title=offer.title,
        description=offer.description,
        input_schema=offer.takes,
        output_schema=offer.gives,
        annotations=hints,
    )


async def _answered(types: Any, engine: Engine, ask: Callable[[], Awaitable[Any]]) -> Any:
    """What a tool gives, or what went wrong, as a result of the protocol: without secrets, never a traceback."""
    document: Any = None
    failed = True
    try:
        document, text = await ask()
        failed = False
    except ForeplanError as error:
        if error.__cause__ is not None:
            _LOG.error("%s", error, exc_info=error.__cause__)
        text = _sentence(error)
    except Exception as error:
        _LOG.exception("a request failed")
        text = f"something unexpected went wrong in foreplan ({type(error).__name__}); its log says where"
    content = types.TextContent(type="text", text=safe_text(engine.scrub(text)))
    given = {} if document is None else {"structured_content": engine.scrub(document)}
    return types.CallToolResult(content=[content], is_error=failed, **given)


def _sentence(error: ForeplanError) -> str:
    """All that is wrong, where it is a plan."""
    match error:
        case CheckFailed():
            return f"the plan does not check, so nothing has run:\n{error.report}"
        case PlanUnreadable():
            return "\n".join(["the plan cannot be read:", *map(str, error.findings)])
        case _:
            return str(error)
