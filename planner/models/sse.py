"""Server-sent events that carry JSON: lines in, objects out.

The SDKs' own readers leave generators open on trio, so the lines are read here.
https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any

from ...policies.failures import ToolFailure
from ...policies.text import with_article
from .chunks import AIMessageChunk
from .telling import broken

__all__ = ["heard_parts"]

_AFTER = 32
"""So many parts are read after a failure: services end there, and a stream that is read to its end closes well."""


async def heard_parts(
    lines: AsyncIterator[str], hear: Callable[[Mapping[str, Any]], AIMessageChunk]
) -> AsyncGenerator[AIMessageChunk, None]:
    """What `hear` makes of the object in each event. Raises `ToolFailure` for what is no object, and what `hear` raises."""
    data: list[str] = []
    failure: ToolFailure | None = None
    after = 0
    async for line in lines:
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        if line or not data:
            continue
        text, data = "\n".join(data), []
        if failure is not None and (after := after + 1) > _AFTER:
            break
        if failure is None and text != "[DONE]":
            try:
                chunk = hear(_object(text))
            except ToolFailure as error:
                failure = error
            else:
                yield chunk
    if failure is not None:
        raise failure


def _object(text: str) -> Mapping[str, Any]:
    try:
        said = json.loads(text)
    except ValueError as error:
        raise broken(f"a part of its stream is no JSON ({error})") from None
    if not isinstance(said, dict):
        raise broken(f"a part of its stream is {with_article(type(said).__name__)}, not an object")
    return said
