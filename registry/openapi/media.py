"""Media types: which are JSON, text or forms, which of several is sent, and how bytes are written in arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...policies.text import shorten
from ..values import Json
from .links import Document

__all__ = ["is_json", "is_text", "mappings", "sendable", "told", "with_bytes"]

_FORMS = ("json", "urlencoded", "multipart", "text", "bytes")


def _bare(media: str) -> str:
    return media.partition(";")[0].strip().lower()


def is_json(media: str) -> bool:
    """Whether a media type is JSON, by itself or by its suffix."""
    bare = _bare(media)
    return bare in ("application/json", "text/json") or bare.endswith("+json")


def is_text(media: str) -> bool:
    """Whether a media type is text to read."""
    bare = _bare(media)
    known = (
        "application/xml",
        "application/x-ndjson",
        "application/jsonl",
        "application/yaml",
        "application/x-yaml",
    )
    return bare.startswith("text/") or bare.endswith(("+xml", "+yaml")) or bare in known


def _rank(media: str) -> int | None:
    """Which form a body of this media type has; None for one that is not sent."""
    bare = _bare(media)
    if is_json(bare) or bare in ("*/*", "application/*"):
        return 0
    if bare == "application/x-www-form-urlencoded":
        return 1
    if bare == "multipart/form-data":
        return 2
    if bare.startswith("text/"):
        return 3 if "*" not in bare else None
    if bare == "application/octet-stream" or bare.partition("/")[0] in ("image", "audio", "video"):
        return 4 if "*" not in bare else None
    return None


def sendable(medias: list[str]) -> tuple[str, str]:
    """Of several media types the one that is sent, and its form; empty where there is none."""
    ranked = sorted((rank, n) for n, media in enumerate(medias) if (rank := _rank(media)) is not None)
    return (medias[ranked[0][1]], _FORMS[ranked[0][0]]) if ranked else ("", "")


def told(found: Iterable[object]) -> str:
    """Media types, for a sentence."""
    return shorten(", ".join(map(str, found)), 80) or "without a media type"


def mappings(value: object) -> dict[str, Document]:
    """The objects in an object, by name."""
    named = value if isinstance(value, Mapping) else {}
    return {str(name): part for name, part in named.items() if isinstance(part, Mapping)}


def with_bytes(schema: Json, form: str, definitions: dict[str, Json]) -> tuple[Json, tuple[str, ...]]:
    """The schema of a body in which bytes are written in base64, and the fields that hold such."""
    if form == "bytes":
        return {"type": "string", "contentEncoding": "base64", "description": "bytes, in base64"}, ()
    if form == "text":
        return {"type": "string"}, ()
    if form != "multipart":
        return schema, ()
    whole = schema
    if isinstance(whole, Mapping) and "$ref" in whole:
        whole = definitions[str(whole["$ref"]).removeprefix("#/$defs/")]
    properties = whole.get("properties") if isinstance(whole, Mapping) else None
    if not isinstance(properties, Mapping):
        return schema, ()
    found = [name for name, part in properties.items() if _is_bytes(part) or _is_bytes(_items(part))]
    if not found:
        return schema, ()
    marked = {name: _marked(properties[name]) for name in found}
    return {**whole, "properties": {**properties, **marked}}, tuple(found)


def _items(part: Json) -> Json:
    return part.get("items") if isinstance(part, Mapping) else None


def _is_bytes(part: Json) -> bool:
    if not isinstance(part, Mapping) or part.get("type") != "string":
        return False
    return part.get("format") == "binary" or ("contentMediaType" in part and "contentEncoding" not in part)


def _marked(part: Json) -> Json:
    if isinstance(part.get("items"), Mapping):
        return {**part, "items": _marked(part["items"])}
    words = part.get("description", "")
    kept = {k: v for k, v in part.items() if k not in ("format", "contentMediaType")}
    return {**kept, "contentEncoding": "base64", "description": f"{words} (bytes, in base64)".strip()}
