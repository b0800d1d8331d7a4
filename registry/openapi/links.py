"""An OpenAPI document as data of a stranger, and where the references in it lead: to places in it, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote

from ...policies.errors import BadInput
from ...policies.text import shorten

__all__ = ["Document", "Links", "Unimportable", "said", "texts"]

Document: TypeAlias = Mapping[str, Any]

_LONGEST_CHAIN = 32
"""References that lead to references; the longest chain of the public documents that were read is two."""


class Unimportable(Exception):
    """Why an operation, or a part of it, cannot be used: a code and a sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Links:
    """One document. Raises `BadInput` where it is none of OpenAPI 3.0 or 3.1."""

    def __init__(self, document: object) -> None:
        if not isinstance(document, Mapping):
            raise BadInput(f"an OpenAPI document is an object, not {_kind(document)}")
        self.root: Document = document
        self.version = _version(document)

    def at(self, reference: object, where: str) -> Any:
        """What a `$ref` names. Raises `Unimportable` where that is outside of the document or nowhere."""
        found: Any = self.root
        for step in self.place(reference, where).split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            try:
                found = found[int(key)] if isinstance(found, list) else found[key]
            except (KeyError, IndexError, ValueError, TypeError):
                message = f"$ref {shorten(str(reference), 80)!r} of {where} names nothing in the document"
                raise Unimportable("invalid_ref", message) from None
        return found

    def place(self, reference: object, where: str) -> str:
        """The JSON Pointer in a `$ref`."""
        if not isinstance(reference, str):
            raise Unimportable("invalid_ref", f"$ref of {where} is no text")
        if not reference.startswith("#"):
            message = f"$ref {shorten(reference, 80)!r} of {where} leads out of the document, and nothing is fetched"
            raise Unimportable("remote_ref", message)
        place = unquote(reference[1:])
        if place and not place.startswith("/"):
            raise Unimportable(
                "invalid_ref", f"$ref {shorten(reference, 80)!r} of {where} is no JSON Pointer"
            )
        return place

    def followed(self, part: object, where: str) -> Document:
        """An object of the document, or the one that it refers to. Raises `Unimportable`."""
        for _ in range(_LONGEST_CHAIN):
            if not isinstance(part, Mapping):
                raise Unimportable("invalid_document", f"{where} must be an object, not {_kind(part)}")
            if "$ref" not in part:
                return part
            part = self.at(part["$ref"], where)
        raise Unimportable("cyclic_ref", f"the references of {where} lead on and on")

    def components(self, kind: str) -> Document:
        """The components of one kind, by name; none where there are none."""
        components = self.root.get("components")
        found = components.get(kind) if isinstance(components, Mapping) else None
        return found if isinstance(found, Mapping) else {}


def _version(document: Document) -> tuple[int, int]:
    said = document.get("openapi")
    for version in ((3, 0), (3, 1)):
        text = f"{version[0]}.{version[1]}"
        if isinstance(said, str) and (said == text or said.startswith(f"{text}.")):
            return version
    if "swagger" in document:
        older = shorten(repr(document["swagger"]), 20)
        raise BadInput(
            f"this is Swagger {older}; OpenAPI 3.0 and 3.1 are read, so convert it to one of these"
        )
    if said is None:
        raise BadInput("this is no OpenAPI document: it says no version in `openapi`")
    raise BadInput(f"OpenAPI {shorten(str(said), 20)} is not read; 3.0 and 3.1 are")


def _kind(value: object) -> str:
    if isinstance(value, Mapping | list):
        return "an object" if isinstance(value, Mapping) else "a list"
    return "null" if value is None else shorten(repr(value), 40)


def said(part: Document, key: str) -> str:
    """A text in an object; "" where there is none."""
    value = part.get(key)
    return value if isinstance(value, str) else ""


def texts(value: object) -> list[str]:
    """The texts in a list."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
