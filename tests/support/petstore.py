"""A document with one of everything that an operation can have; written for tests."""

from __future__ import annotations

from typing import Any

__all__ = ["PARAMETERS", "STORE", "document"]


def document(*, version: str = "3.0.3", paths: dict[str, Any] | None = None, **rest: Any) -> dict[str, Any]:
    """An OpenAPI document around some paths."""
    info = {"title": "Store", "version": "1"}
    return {
        "openapi": version,
        "info": info,
        "servers": [{"url": "https://store.test"}],
        "paths": paths or {},
        **rest,
    }


def _query(name: str, schema: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, **rest}


_TEXTS = {"type": "array", "items": {"type": "string"}}
_NUMBERS = {"type": "array", "items": {"type": "integer"}}
_PAIR = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}

PARAMETERS = [
    {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}},
    _query("tags", _TEXTS),
    _query("csv", _NUMBERS, explode=False),
    _query("pipes", _NUMBERS, style="pipeDelimited", explode=False),
    _query("deep", _PAIR, style="deepObject", explode=True),
    _query("on", {"type": "boolean"}),
    {"name": "X-Count", "in": "header", "schema": {"type": "integer"}},
    {"name": "X-List", "in": "header", "schema": _TEXTS},
    {"name": "session", "in": "cookie", "schema": {"type": "string"}},
    {"name": "filter", "in": "query", "content": {"application/json": {"schema": _PAIR}}},
]
"""Parameters in every place, in the styles that the validator of the tests reads."""

_ORDER = {
    "type": "object",
    "required": ["id", "pet", "secret"],
    "properties": {
        "id": {"type": "integer", "readOnly": True},
        "pet": {"type": "string", "minLength": 1},
        "note": {"type": "string", "nullable": True},
        "secret": {"type": "string", "writeOnly": True},
        "amount": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
    },
}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _gives(schema: dict[str, Any]) -> dict[str, Any]:
    return {"200": {"description": "fine", "content": _json(schema)}}


_FORM = {
    "type": "object",
    "required": ["n"],
    "properties": {"n": {"type": "integer"}, "names": _TEXTS, "text": {"type": "string"}},
}
_SPREAD = {"names": {"style": "form", "explode": True}}
_FILE = {
    "type": "object",
    "required": ["data"],
    "properties": {"data": {"type": "string", "format": "binary"}, "text": {"type": "string"}, "more": _PAIR},
}

STORE = document(
    paths={
        "/things/{id}": {"get": {"operationId": "thing", "parameters": PARAMETERS, "responses": _gives({})}},
        "/orders": {
            "post": {
                "operationId": "order",
                "summary": "Place an order",
                "requestBody": {"required": True, "content": _json({"$ref": "#/components/schemas/Order"})},
                "responses": _gives({"$ref": "#/components/schemas/Order"}),
            },
            "get": {"operationId": "list orders", "deprecated": True, "responses": _gives(_TEXTS)},
        },
        "/orders/{id}": {
            "parameters": [PARAMETERS[0]],
            "put": {"responses": {"204": {"description": "done"}}, "operationId": "keep"},
            "delete": {"responses": {"204": {"description": "done"}}, "operationId": "drop"},
        },
        "/forms": {
            "post": {
                "operationId": "form",
                "requestBody": {
                    "content": {"application/x-www-form-urlencoded": {"schema": _FORM, "encoding": _SPREAD}}
                },
                "responses": _gives({}),
            }
        },
        "/files": {
            "post": {
                "operationId": "file",
                "requestBody": {"content": {"multipart/form-data": {"schema": _FILE}}},
                "responses": _gives({}),
            }
        },
    },
    components={"schemas": {"Order": _ORDER}},
)
