"""Documents of somebody who means harm: each is read or refused within bounds of time and memory."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from support.petstore import document

from foreplan import openapi_tools
from foreplan.executor.openapi_import import ImportedTools
from foreplan.policies.errors import BadInput

SECONDS = 20.0
"""Of processor time; most take a tenth of one. So far above it that a busy machine does not matter."""


def schemas(**named: Any) -> dict[str, Any]:
    """A document of one operation that takes the schema `A`."""
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}
    operation = {"operationId": "x", "requestBody": {"content": content}, "responses": {}}
    return document(paths={"/x": {"post": operation}}, components={"schemas": named})


def chain(length: int) -> dict[str, Any]:
    links = {f"S{n}": {"$ref": f"#/components/schemas/S{n + 1}"} for n in range(length)}
    return {"A": {"$ref": "#/components/schemas/S0"}, **links, f"S{length}": {"type": "string"}}


def doubling(levels: int) -> dict[str, Any]:
    """Each schema names the next one twice: 2^n parts."""

    def twice(n: int) -> dict[str, Any]:
        return {"allOf": [{"$ref": f"#/components/schemas/S{n + 1}"}] * 2}

    return {"A": twice(-1), **{f"S{n}": twice(n) for n in range(levels)}, f"S{levels}": {"type": "string"}}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def alias_bomb() -> bytes:
    lines = [f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 9)}]" for n in range(1, 12)]
    return "\n".join(["openapi: 3.0.3", "b0: &b0 [1]", *lines]).encode()


def large() -> bytes:
    """10 MB: 20,000 operations."""
    text = "x" * 350
    operation = {"description": text, "responses": {"200": {"description": "fine"}}}
    return json.dumps(document(paths={f"/{n}": {"get": operation} for n in range(20_000)})).encode()


PATTERNS = ["^(a+)+$", "(x*)*y", "^(a|a)*$", "(.*a){30}", "^(([a-z])+.)+[A-Z]([a-z])+$"]


@pytest.mark.parametrize(
    ("source", "code"),
    [
        (lambda: schemas(**chain(3_000)), "invalid_schema"),
        (lambda: schemas(**doubling(40)), "invalid_schema"),
        (lambda: schemas(A={"$ref": "#/components/schemas/A"}), "invalid_schema"),
        (lambda: schemas(A={"$ref": "#"}), "invalid_ref"),
        (lambda: schemas(A=nested(50)), "too_large"),
        (lambda: schemas(A={"properties": {f"p{n}": {} for n in range(30_000)}}), "too_large"),
        (lambda: schemas(A={"enum": ["x" * 1000] * 2000}), "invalid_schema"),
        *[(lambda p=p: schemas(A={"type": "string", "pattern": p}), "invalid_schema") for p in PATTERNS],
    ],
)
def test_a_hostile_schema_is_refused_with_its_operation(source: Callable[[], Any], code: str) -> None:
    """Chains, doubling, circles, depth, width, catastrophic patterns."""
    tools = bounded(source())
    assert [(finding.tool, finding.code, finding.loaded) for finding in tools.findings] == [
        ("x", code, False)
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (alias_bomb(), "holds more than"),
        (b"[" * 100_000, "nested deeper"),
        (b'{"openapi": "3.0.3", "openapi": "3.1.0"}', "stands twice"),
        (b"openapi: &a [*a]", "is not allowed"),
        (b"openapi: !!python/object:os.system x", "tag"),
        (b" " * (33 * 1024 * 1024), "larger than"),
        (b'{"openapi": "3.0.3", "paths": []}', "paths"),
        (b'{"openapi": "3.0.3", "x": NaN}', "not a JSON number"),
    ],
)
def test_a_hostile_text_is_refused_before_anything_is_built_of_it(text: bytes, said: str) -> None:
    """Aliases that multiply, depth, keys that stand twice, tags, size."""
    with pytest.raises(BadInput, match=said):
        bounded(text)


def test_what_is_large_and_harmless_is_read() -> None:
    """10 MB of operations, of which three are wanted."""
    assert bounded(large(), only=["GET /7", "GET /77", "GET /777"]).names == ("GET_7", "GET_77", "GET_777")


def test_nothing_in_a_description_reaches_a_screen_as_it_is() -> None:
    """Control characters and changes of direction are made visible, and nothing is longer than it may be."""
    hostile = "\x1b[2J\u202e" + "y" * 100_000
    parameter = {"name": "q", "in": "query", "schema": {"type": "string"}, "description": hostile}
    whole = {
        "operationId": "x",
        "summary": hostile,
        "description": hostile,
        "parameters": [parameter],
        "responses": {},
    }
    tool = bounded(document(paths={"/x": {"get": whole}}))["x"]
    shown = json.dumps([tool.description, tool.title, tool.input.document], ensure_ascii=False)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert len(shown) < 10_000


def bounded(source: Any, **options: Any) -> ImportedTools:
    """Read a document within a few seconds and 500 MB."""
    begun = time.process_time()
    tracemalloc.start()
    try:
        return openapi_tools(source, **options)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 500_000_000
        assert time.process_time() - begun < SECONDS
