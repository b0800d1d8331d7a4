"""What an MCP server declares and answers, read as data: tools with contracts of ours, plain JSON, the five kinds.

    declaration --clean, one of its name?--> Tool        whatever the operator says, tightened by the server's hints
                     └──> ToolFinding                     the others load all the same
    answer      --structuredContent, else content--> JSON, or a ToolFailure where it says `isError`

A server is a stranger. Its hints say what it would like to be; they may make a tool stricter than the operator says and
never laxer: `readOnlyHint: true` makes nothing a read. No MCP library is needed here: documents come as plain JSON.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ..policies.canonical import digest
from ..policies.causes import by_status
from ..policies.effect import Effect
from ..policies.errors import BadInput, ToolRefused
from ..policies.failures import Happened, Kind, ToolFailure
from ..policies.permissions import Level
from ..policies.text import did_you_mean, safe_text, shorten
from .imports import ToolFinding, checked_options, unpinned
from .options import check_options, checked_name
from .tools import Tool
from .values import Json

__all__ = [
    "Said",
    "acceptable",
    "changes",
    "declared_tools",
    "failure_by_code",
    "pin_of",
    "read_answer",
]

_PINNED = ("annotations", "description", "inputSchema", "name", "outputSchema", "title")
"""What a call was planned, reviewed and approved by."""
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]")
_LONGEST_MESSAGE = 2000
_MOST_SHOWN = 20_000
"""Characters of a change that a person can be asked about: what is cut off would be accepted unseen."""
MOST_MEDIA = 65_536
"""Bytes of an image that stand in a result; of a larger one only its kind and size do."""

Call = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Said:
    """What the operator says of the tools of one server; `options` by the server's name of the tool."""

    prefix: str = ""
    effect: Effect | str = Effect.ACTS
    effects: Mapping[str, Effect | str] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    common: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    names: Collection[str] | None = None
    pinned: Mapping[str, str] | None = None
    origin: str = "an MCP server"

    def check(self, known: Iterable[str]) -> None:
        """Raises `BadInput` for a name that the server does not know: what is misspelt must not be lost."""
        there = list(known)
        for name in [*self.effects, *self.options, *(self.names or ())]:
            if name not in there:
                guess = did_you_mean(name, there) or f"; it has {shorten(', '.join(there), 200) or 'none'}"
                raise BadInput(f"{self.origin} has no tool {shorten(repr(name), 60)}{guess}")

    def options_of(self, name: str) -> dict[str, Any]:
        """The options of this tool, before the server is heard."""
        effect = self.effects.get(name, self.effect)
        return {"effect": effect, **self.common, **self.options.get(name, {})}


def declared_tools(
    declared: list[dict[str, Any]], said: Said, call: Callable[[str, bool], Call]
) -> tuple[list[Tool], dict[str, str], list[ToolFinding]]:
    """The tools, the pin of each by the server's name, and what was noticed. Raises `BadInput` for an unknown name.

    `call` makes the function of a tool, from its name and whether it acts. Of tools that share a name none is loaded:
    nobody could say which of them the server would call.
    """
    checked_name(f"{said.prefix}x")
    counted = Counter(str(each.get("name")) for each in declared)
    said.check(counted)
    check_options({name for each in (said.common, *said.options.values()) for name in each})
    findings: list[ToolFinding] = []
    tools: dict[str, Tool] = {}
    pins: dict[str, str] = {}
    for document in declared:
        name = str(document.get("name"))
        if said.names is not None and name not in said.names:
            continue
        if counted[name] > 1:
            message = f"{said.origin} declares {counted[name]} tools of this name; none of them is loaded"
            findings.append(ToolFinding(name, "duplicate_name", message))
            continue
        made = _declared(document, said, call, findings)
        if made is None:
            continue
        if made.name in tools:
            message = f"another tool is called {made.name!r} already, once what no name may hold is replaced"
            findings.append(ToolFinding(name, "duplicate_name", message))
            continue
        tools[made.name], pins[name] = made, made.recorded_source  # type: ignore[assignment]
    return list(tools.values()), pins, findings


def _declared(
    document: dict[str, Any], said: Said, call: Callable[[str, bool], Call], findings: list[ToolFinding]
) -> Tool | None:
    """One tool, or None and a finding. What the operator says wrongly of it is raised."""
    name = str(document.get("name"))
    options = checked_options(said.options_of(name), said.prefix + name)
    hints = document.get("annotations")
    noticed = _tightened(name, options, hints if isinstance(hints, Mapping) else {})
    if not isinstance(document.get("inputSchema"), Mapping):
        findings.append(
            ToolFinding(shorten(name, 80), "invalid_schema", "it declares no inputSchema that is an object")
        )
        return None
    execution = document.get("execution")
    if isinstance(execution, Mapping) and execution.get("taskSupport") == "required":
        message = "it runs only as a task of the protocol, which is asked about later; it cannot be called as a tool"
        findings.append(ToolFinding(shorten(name, 80), "task_only", message))
        return None
    ours = said.prefix + _UNFIT.sub("_", name)
    try:
        pin = pin_of(document)
        made = Tool.declare(
            ours,
            _text(document.get("description")),
            input_schema=document["inputSchema"],
            output_schema=document.get("outputSchema"),
            title=options.pop("title", "") or safe_text(_title(document), 200),
            call=call(name, options["effect"] is Effect.ACTS),
            origin=f"{said.origin}: {shorten(name, 80)}",
            **options,
        )
    except (ToolRefused, ValueError) as error:
        code = "invalid_name" if "cannot name a tool" in str(error) else "invalid_schema"
        findings.append(ToolFinding(shorten(name, 80), code, shorten(str(error), 300)))
        return None
    if said.pinned is not None and said.pinned.get(name) != pin:
        findings.append(unpinned(name, said.pinned))
        return None
    if ours != said.prefix + name:
        findings.append(ToolFinding(name, "renamed", f"it is called {ours!r} here", loaded=True))
    findings += noticed
    return dataclasses.replace(made, recorded_source=pin)


def _text(said: object) -> str:
    return said if isinstance(said, str) else ""


def _title(document: Mapping[str, Any]) -> str:
    hints = document.get("annotations")
    return _text(document.get("title")) or _text(hints.get("title") if isinstance(hints, Mapping) else "")


def _tightened(name: str, options: dict[str, Any], hints: Mapping[str, Any]) -> list[ToolFinding]:
    """Make the effect and the level in `options` as strict as the hints say, and say so."""
    before: Effect = options["effect"]
    after = _stricter(before, hints)
    findings = []
    if after is not before:
        options["effect"] = after
        message = f"the server's own hints say that it {after.value}, so it does not count as {before.value}"
        findings.append(ToolFinding(name, "tightened", message, loaded=True))
    harms = hints.get("destructiveHint") is True and hints.get("readOnlyHint") is not True
    if harms and options.get("level", Level.LOW) is Level.LOW:
        options["level"] = Level.MEDIUM
        message = "the server calls it destructive, so its level is medium"
        findings.append(ToolFinding(name, "tightened", message, loaded=True))
    return findings


def _stricter(effect: Effect, hints: Mapping[str, Any]) -> Effect:
    """READS stays only what no hint speaks against, WRITES only what is not said to be unsafe to repeat."""
    read_only, destructive = hints.get("readOnlyHint"), hints.get("destructiveHint")
    changes = read_only is False or (destructive is True and read_only is not True)
    if effect is Effect.READS and changes:
        return Effect.WRITES if hints.get("idempotentHint") is True else Effect.ACTS
    if effect is Effect.WRITES and hints.get("idempotentHint") is False and read_only is not True:
        return Effect.ACTS
    return effect


def pin_of(document: Mapping[str, Any]) -> str:
    """`sha256:…` of what a server declares of a tool. Raises `ValueError` for what is no JSON."""
    return digest({key: document[key] for key in _PINNED if document.get(key) is not None})


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The parts of a declaration that are not what they were."""
    return [
        key
        for key in _PINNED
        if json.dumps(before.get(key), sort_keys=True) != json.dumps(now.get(key), sort_keys=True)
    ]


def acceptable(
    before: dict[str, Any], now: dict[str, Any], said: Said, args: Mapping[str, Json]
) -> dict[str, Json] | None:
    """What a person is shown of a declaration that changed, as texts that can do nothing, and its pin.

    None where nobody can accept it, since the plan was checked by what is another now: the result, what the call does to
    the world, whether it takes these arguments at all; or where it is too long to be looked at.
    """
    unpinned = dataclasses.replace(said, pinned=None)
    tools = [_declared(each, unpinned, lambda name, acts: _nothing, []) for each in (before, now)]
    parts = changes(before, now)
    shown = {part: {"was": _shown(before.get(part)), "now": _shown(now.get(part))} for part in parts}
    old, new = tools
    if old is None or new is None or "outputSchema" in parts or len(json.dumps(shown)) > _MOST_SHOWN:
        return None
    if (old.effect, old.level) != (new.effect, new.level) or not new.input.accepts(dict(args)):
        return None
    return {"pin": pin_of(now), "changed": shown}


def _nothing() -> None:
    """Behind a tool that is only looked at."""


def _shown(part: object) -> str:
    text = (
        part if isinstance(part, str) else "" if part is None else json.dumps(part, sort_keys=True, indent=1)
    )
    return safe_text(text, _MOST_SHOWN)


# --- What a server answers.


def read_answer(answer: Mapping[str, Any], *, json_text: bool, on_error: Happened) -> Json:
    """The result as plain JSON. Raises `ToolFailure` where the answer says that it is an error."""
    structured, content = answer.get("structuredContent"), answer.get("content") or []
    parts = [_part(block) for block in content if isinstance(block, Mapping)]
    if answer.get("isError"):
        texts = [part for part in parts if isinstance(part, str)]
        details = {"answer": structured} if structured is not None else None
        message = safe_text("\n".join(texts), _LONGEST_MESSAGE) or "the server says no, without a word"
        raise ToolFailure(message, code="refused", happened=on_error, details=details)
    if structured is not None:
        return structured
    if json_text:
        parts = [_as_json(part) if isinstance(part, str) else part for part in parts]
    return parts[0] if len(parts) == 1 else parts or None


def _as_json(text: str) -> Json:
    """What a text says that is a JSON object or list as a whole; any other text as it is."""
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text


def _no_constant(name: str) -> Json:
    raise ValueError(name)


def _part(block: Mapping[str, Any]) -> Json:
    """One block of content: a text is a text, everything else an object that says what it is."""
    match block.get("type"):
        case "text":
            return _text(block.get("text"))
        case "image" | "audio":
            return _media(block.get("mimeType"), _text(block.get("data")))
        case "resource":
            inside = block.get("resource") or {}
            named = {"uri": _text(inside.get("uri")), "mime": _text(inside.get("mimeType"))}
            if isinstance(inside.get("text"), str):
                return {**named, "text": inside["text"]}
            return {**named, **_media(inside.get("mimeType"), _text(inside.get("blob")))}
        case "resource_link":
            kept = {"uri": "uri", "name": "name", "mimeType": "mime"}
            return {ours: _text(block.get(theirs)) for theirs, ours in kept.items()}
    return {"type": shorten(_text(block.get("type")), 40)}


def _media(mime: object, data: str) -> dict[str, Json]:
    """Bytes in base64, which stay text; how many they are follows from its length."""
    size = len(data) * 3 // 4 - data[-2:].count("=")
    shown = {"data": data} if size <= MOST_MEDIA else {}
    return {"mime": _text(mime), "bytes": size, **shown}


_BY_CODE: dict[int, tuple[Kind, str, Happened]] = {
    -32700: (Kind.BUSINESS, "invalid_request", Happened.NO),
    -32600: (Kind.BUSINESS, "invalid_request", Happened.NO),
    -32601: (Kind.BAD_ARGS, "unknown_tool", Happened.NO),
    -32602: (Kind.BAD_ARGS, "invalid_params", Happened.NO),
    -32000: (
        Kind.NETWORK,
        "connection_closed",
        Happened.MAYBE,
    ),  # the SDK's own, where no answer can come any more
    -32001: (Kind.TIMEOUT, "server_timeout", Happened.MAYBE),
}
"""JSON-RPC 2.0, section 5.1, and the MCP specification."""


def failure_by_code(
    code: int, message: str, *, status: int | None = None, retry_after: float | None = None
) -> ToolFailure:
    """The failure that a protocol error is; where an HTTP status came with it, that decides."""
    said = safe_text(message, _LONGEST_MESSAGE) or f"the server answered with error {code}"
    if status is not None or code == -32603:
        rule = by_status(status or 500)
        return ToolFailure(
            said, kind=rule.kind, code=rule.code, happened=rule.happened, retry_after=retry_after
        )
    kind, name, happened = _BY_CODE.get(code, (Kind.BUSINESS, "mcp_error", Happened.MAYBE))
    return ToolFailure(said, kind=kind, code=name, happened=happened, details={"code": code})
