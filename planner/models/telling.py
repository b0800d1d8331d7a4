"""An answer while a service tells it: what every adapter checks, streamed or whole.

    part --text(), call(), refuse()--> Telling --end()--> the last chunk, or a failure with a sentence

A service that breaks off, names no reason, gives two calls one id or says nothing at all has not answered: that is a
`ToolFailure` of one of the five kinds, never a short answer. What repeats well (a broken answer) is of the kind
`network`; what does not (a refusal, an answer that is too long) is `business`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from ...policies.causes import by_status
from ...policies.errors import BadInput
from ...policies.failures import Happened, Kind, ToolFailure
from ...policies.secrets import Secret
from ...policies.text import did_you_mean, shorten, with_article
from .chunks import AIMessageChunk, ToolCallChunk
from .messages import AIMessage, InvalidToolCall

__all__ = [
    "GRAMMAR",
    "Names",
    "Telling",
    "allowed",
    "broken",
    "calls_in",
    "counts",
    "cut_off",
    "held_to",
    "is_here",
    "key_for",
    "needs",
    "said_error",
    "trusted",
    "whole_answer",
]

GRAMMAR = "x-grammar"
"""Key of a `response_format` for an answer that is no JSON: its grammar in GBNF, for those who take one."""


def held_to(response_format: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The schema to send to a service that takes no grammars: none, where the answer is to be no JSON."""
    return None if response_format is not None and GRAMMAR in response_format else response_format


Json = Any


def broken(what: str) -> ToolFailure:
    """The service answered, and not in its own form: worth asking again."""
    return ToolFailure(
        f"the service gave no usable answer: {what}",
        kind=Kind.NETWORK,
        code="protocol_error",
        happened=Happened.MAYBE,
    )


def cut_off() -> ToolFailure:
    """The connection ended in the midst of an answer."""
    message = "the answer was cut off: the stream ended before the service said that it is complete"
    return ToolFailure(message, kind=Kind.NETWORK, code="incomplete_answer", happened=Happened.MAYBE)


def said_error(error: object) -> ToolFailure:
    """The failure that a service tells inside an answer, where there is no HTTP status any more."""
    document = error if isinstance(error, Mapping) else {"message": error}
    words = [document.get(name) for name in ("status", "code", "type")]
    numbers = [int(w) for w in words if isinstance(w, int) or (isinstance(w, str) and w.isdecimal())]
    status = next((n for n in numbers if 400 <= n <= 599), None)
    if status is None:
        status = next((_WORDS[w] for w in words if isinstance(w, str) and w in _WORDS), 500)
    rule = by_status(status)
    message = shorten(str(document.get("message") or document.get("type") or "without a word"), 500)
    return ToolFailure(
        f"the service broke the answer off: {message}",
        kind=rule.kind,
        code=rule.code,
        happened=rule.happened,
    )


_WORDS = {
    "authentication_error": 401,
    "billing_error": 402,
    "context_length_exceeded": 400,
    "insufficient_quota": 402,
    "invalid_api_key": 401,
    "invalid_prompt": 400,
    "invalid_request_error": 400,
    "not_found_error": 404,
    "overloaded_error": 503,
    "permission_error": 403,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "request_too_large": 413,
    "timeout_error": 504,
}
"""What services call their errors, by the HTTP status they stand for."""


class Names:
    """The names of tools as services accept them (letters, digits, `_`, `-`, at most 64), and back."""

    def __init__(self, tools: Iterable[Mapping[str, Any]] | None = None) -> None:
        self._ours: dict[str, str] = {}
        self._theirs: dict[str, str] = {}
        for tool in sorted(tools or (), key=lambda tool: _plain(tool["name"]) != tool["name"]):
            self._learn(tool["name"])

    def _learn(self, name: str) -> None:
        plain, number = _plain(name), 2
        while plain in self._ours:
            plain, number = f"{_plain(name)[:60]}_{number}", number + 1
        self._ours[plain], self._theirs[name] = name, plain

    def out(self, name: str) -> str:
        """The name as the service is told it."""
        return self._theirs.get(name) or _plain(name)

    def back(self, name: str) -> str:
        """The tool that the service means; a name that it made up stays as it is."""
        return self._ours.get(name, name)


def _plain(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "_"


class Telling:
    """One answer as it arrives. `who` are the names of the tools offered; `whole` says that it arrives at once."""

    def __init__(self, names: Names, *, whole: bool = False) -> None:
        self.names = names
        self.finish = "stop" if whole else ""
        self.usage: Mapping[str, float] | None = None
        self._begun = self._spoken = False
        self._refusal = ""
        self._keys: dict[object, int] = {}
        self._ids: list[str] = []

    def begin(self) -> None:
        """Something of the answer itself is there."""
        self._begun = True

    def text(self, said: object) -> str:
        """What was said, as text: null is nothing, parts are joined. Raises for anything else."""
        if isinstance(said, list):
            said = "".join(map(self._part, said))
        if said is not None and not isinstance(said, str):
            raise broken(f"its content is {with_article(type(said).__name__)} where text should be")
        self._spoken = self._spoken or bool(said)
        return said or ""

    def _part(self, part: object) -> str:
        said = part.get("text") if isinstance(part, Mapping) else part
        if isinstance(part, Mapping) and part.get("refusal"):
            self.refuse(part["refusal"])
        return said if isinstance(said, str) else ""

    def refuse(self, why: object) -> None:
        """The model declines, in these words."""
        self._refusal += why if isinstance(why, str) else ""

    def call(
        self, key: object, id_: object = None, name: object = None, text: object = None
    ) -> ToolCallChunk:
        """A part of the call with this key; another id under the same key begins another call."""
        given = id_ if isinstance(id_, str) else ""
        index = self._keys.get(key)
        if index is None or (given and self._ids[index] and given != self._ids[index]):
            index = self._keys[key] = len(self._ids)
            self._ids.append("")
        new = given if given != self._ids[index] else ""
        self._ids[index] = self._ids[index] or given
        named = self.names.back(name) if isinstance(name, str) else ""
        written = text if isinstance(text, str) else "" if text is None else json.dumps(text)
        return ToolCallChunk(index, new, named, written)

    def end(self) -> AIMessageChunk:
        """What the answer cost and why it ended. Raises `ToolFailure` where it is none."""
        if self._refusal or self.finish == "refused":
            why = self._refusal or "its filter stopped the answer"
            raise ToolFailure(f"the model refuses to answer: {shorten(why, 500)}", code="refused")
        if not self._begun:
            raise broken("it holds no choice, so nothing was said")
        if not self.finish:
            raise cut_off()
        self._check_calls()
        if not self._spoken and not self._ids and self.finish != "length":
            raise broken("it holds neither text nor a call")
        return AIMessageChunk(usage=self.usage, finish_reason=self._finished())

    def _check_calls(self) -> None:
        given = [id_ for id_ in self._ids if id_]
        twice = next((id_ for place, id_ in enumerate(given) if id_ in given[:place]), None)
        if twice is not None:
            raise broken(
                f"two calls have the id {shorten(repr(twice), 60)}, so their results could not be told apart"
            )
        if self.finish == "tool_calls" and not self._ids:
            raise broken("it says that tools are to be called and names none")
        if self.finish == "length" and self._ids:
            message = "the answer was cut off in the midst of its calls; allow the model more tokens, or ask for less"
            raise ToolFailure(message, code="answer_too_long")

    def _finished(self) -> str:
        return "tool_calls" if self._ids and self.finish == "stop" else self.finish


def calls_in(message: AIMessage) -> list[tuple[str, str, dict[str, Json]]]:
    """Id, name and arguments of every call made, for telling a service again; a call in no form is given as text."""
    calls = [(call.id, call.name, dict(call.args)) for call in message.tool_calls]
    return calls + [_unreadable(call) for call in message.invalid_calls]


def _unreadable(call: InvalidToolCall) -> tuple[str, str, dict[str, Json]]:
    return call.id, call.name or "unnamed", {"unreadable": call.text}


def counts(document: object, names: Mapping[str, str]) -> dict[str, float] | None:
    """The counts in a document of usage under our names; what is no count is left out."""
    if not isinstance(document, Mapping):
        return None
    found = {ours: document.get(theirs) for theirs, ours in names.items()}
    return {name: n for name, n in found.items() if type(n) is int and n >= 0} or None


def whole_answer(response: Any) -> Mapping[str, Json]:
    """The object in a whole HTTP response. Raises `ToolFailure` where there is none."""
    try:
        said = json.loads(response.text)
    except ValueError as error:
        raise broken(f"it is no JSON ({error})") from None
    if not isinstance(said, dict):
        raise broken(f"it is {with_article(type(said).__name__)}, not an object")
    return said


def needs(package: str, extra: str) -> BadInput:
    """What to tell someone whose Python lacks the package of a service."""
    return BadInput(f"this model needs the package {package!r}: pip install 'foreplan[{extra}]'")


def allowed(create: Any, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The body, if the SDK's method takes all of it. Raises `BadInput` for an option that it does not know."""
    import inspect

    known = inspect.signature(create).parameters
    unknown = next((name for name in body if name not in known), None)
    if unknown is not None:
        raise BadInput(
            f"the package of the service knows no option {unknown!r}{did_you_mean(unknown, known)}; "
            "what only the service knows goes into extra_body={…}"
        )
    return body


def key_for(key: str | Secret | None, url: str | None, home: str) -> str | None:
    """The key to send: None lets the SDK look in the environment, whose key goes to nobody but `home`."""
    if key is not None:
        return key.reveal() if isinstance(key, Secret) else key
    if url is None:
        return None
    host = _host(url)
    return None if host == home or host.endswith(f".{home}") else "none"


def is_here(url: str | None) -> bool:
    """Whether a service is on this machine, where no proxy of the environment leads to."""
    host = _host(url or "")
    return host in ("localhost", "::1") or host.startswith("127.")


def _host(url: str) -> str:
    from urllib.parse import urlsplit

    return urlsplit(url).hostname or ""


@cache
def trusted() -> Any:
    """Whom TLS trusts, read once for all clients: it takes a twentieth of a second."""
    import httpx2

    return httpx2.create_ssl_context()
