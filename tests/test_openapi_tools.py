"""Operations of an OpenAPI document as tools: loaded as the operator says, called by the document, answered in data."""

from __future__ import annotations

import base64
import copy
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

if importlib.util.find_spec("httpx2") is None or importlib.util.find_spec("openapi_core") is None:
    pytest.skip("the packages httpx2 and openapi-core are not installed", allow_module_level=True)

from support.openapi_server import Service, validating
from support.petstore import STORE, document
from support.web import Seen, reply, serving

from foreplan import (
    Effect,
    Egress,
    Engine,
    Kind,
    MappingSecrets,
    Plan,
    Policies,
    Retry,
    ToolContext,
    ToolFailure,
    openapi_tools,
)
from foreplan.executor.openapi_import import ImportedTools
from foreplan.policies.errors import BadInput
from foreplan.policies.failures import Failure, Happened

pytestmark = pytest.mark.anyio

ONE_LOOP = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""Where the loop makes no difference."""
LOOPBACK = Egress(allow=["127.0.0.1"])
TOKEN = "the-secret-of-tests"


def loaded(source: Any = STORE, **options: Any) -> ImportedTools:
    return openapi_tools(source, **{"egress": LOOPBACK, **options})


def one(
    operation: dict[str, Any], *, method: str = "get", path: str = "/x", version: str = "3.0.3", **rest: Any
) -> dict[str, Any]:
    """A document of one operation."""
    whole = {"operationId": "x", "responses": {"200": {"description": "fine"}}, **operation}
    return document(version=version, paths={path: {method: whole}}, **rest)


def found(tools: ImportedTools) -> list[tuple[str, str, bool]]:
    return [(finding.tool, finding.code, finding.loaded) for finding in tools.findings]


async def call(tools: ImportedTools, name: str, *, key: str = "", **args: Any) -> Any:
    return await tools[name].invoke(args, ToolContext(idempotency_key=key))


async def failing(tools: ImportedTools, name: str, **args: Any) -> ToolFailure:
    with pytest.raises(ToolFailure) as raised:
        await call(tools, name, **args)
    return raised.value


def plan_of(*steps: dict[str, Any]) -> Plan:
    return Plan.model_validate({"steps": list(steps)})


# --- Loading.


def test_methods_say_what_a_tool_may_do_unless_the_operator_does() -> None:
    """GET reads, PUT and DELETE write, POST acts; `effects` by operationId or by method and path."""
    tools = loaded(effects={"form": "reads", "DELETE /orders/{id}": "acts"}, permissions=("shop:use",))
    assert {tool.name: tool.effect.value for tool in tools} == {
        "thing": "reads",
        "list_orders": "reads",
        "order": "acts",
        "keep": "writes",
        "drop": "acts",
        "form": "reads",
        "file": "acts",
    }
    assert {tool.permissions for tool in tools} == {("shop:use",)}
    assert (tools["order"].title, tools["order"].host) == ("Place an order", "store.test")
    assert found(tools) == [("list orders", "renamed", True), ("list orders", "deprecated", True)]
    assert tools["list_orders"].description.startswith("Deprecated.")
    assert tools["list_orders"].tags == ("deprecated",)


def test_a_document_makes_a_tool_stricter_and_never_laxer() -> None:
    """It is a stranger's: what it says against the operator counts, what it says for itself does not."""
    tightened = loaded(one({"x-foreplan-effect": "acts"}), effects={"x": "reads"})
    assert (tightened["x"].effect, found(tightened)) == (Effect.ACTS, [("x", "tightened", True)])
    assert loaded(one({"x-foreplan-effect": "reads"}, method="post"))["x"].effect == Effect.ACTS


def test_what_one_side_sets_is_not_asked_of_the_other() -> None:
    """`readOnly` is not sent, `writeOnly` need not come back, `nullable` may be null, a bound may be open."""
    takes, gives = loaded()["order"].input, loaded()["order"].output
    order: dict[str, Any] = {"pet": "Ada", "note": None, "secret": "s", "amount": 0.01}
    assert takes.accepts({"body": order})
    assert gives is not None
    assert gives.accepts({"id": 1, "pet": "Ada", "note": None})
    refused: list[dict[str, Any]] = [{"id": 1}, {"pet": None}, {"amount": 0}, {"other": 1}]
    assert [takes.accepts({"body": {**order, **each}}) for each in refused] == [False] * 4
    assert not gives.accepts({"pet": "Ada"})


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_alternatives_may_overlap_where_a_discriminator_chooses(version: str) -> None:
    """`oneOf` with a discriminator holds where one of them does; without, exactly one must."""
    kinds = {
        "Cat": {"type": "object", "properties": {"kind": {"type": "string"}, "age": {"type": "integer"}}},
        "Dog": {"type": "object", "properties": {"kind": {"type": "string"}, "size": {"type": "integer"}}},
    }
    either: dict[str, Any] = {"oneOf": [{"$ref": f"#/components/schemas/{kind}"} for kind in kinds]}
    for schema, fits in (({**either, "discriminator": {"propertyName": "kind"}}, True), (either, False)):
        body = {"required": True, "content": {"application/json": {"schema": schema}}}
        paths = one({"requestBody": body}, method="post", version=version, components={"schemas": kinds})
        assert loaded(paths)["x"].input.accepts({"body": {"kind": "Cat"}}) is fits


def test_a_schema_may_name_itself_as_long_as_there_is_a_step_between() -> None:
    """Trees load; what holds itself without end is refused, with the operation alone."""
    tree = {
        "type": "object",
        "properties": {"below": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}},
    }
    schemas = {"Tree": tree, "Loop": {"allOf": [{"$ref": "#/components/schemas/Loop"}]}}

    def taking(name: str) -> dict[str, Any]:
        content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
        return {"post": {"operationId": name, "requestBody": {"content": content}, "responses": {}}}

    tools = loaded(
        document(paths={"/t": taking("Tree"), "/l": taking("Loop")}, components={"schemas": schemas})
    )
    assert tools["Tree"].input.accepts({"body": {"below": [{"below": []}]}})
    assert found(tools) == [("Loop", "invalid_schema", False)]


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        ({"parameters": [{"$ref": "other.yaml#/p"}]}, "remote_ref"),
        ({"parameters": [{"$ref": "http://evil.test/p"}]}, "remote_ref"),
        ({"parameters": [{"$ref": "#/components/parameters/none"}]}, "invalid_ref"),
        ({"parameters": [{"$ref": "#/paths/~1x/get/parameters/0"}]}, "cyclic_ref"),
        ({"parameters": [{"name": "q", "in": "query", "schema": {"$ref": "x.json"}}]}, "remote_ref"),
        ({"parameters": [{"name": "q", "in": "query", "schema": 7}]}, "invalid_schema"),
        ({"parameters": [{"name": "q", "in": "body", "schema": {}}]}, "invalid_document"),
        ({"parameters": [{"name": "q", "in": "query"}]}, "invalid_document"),
        (
            {"parameters": [{"name": "q", "in": "query", "style": "matrix", "schema": {}}]},
            "unsupported_style",
        ),
        ({"parameters": [{"name": "id", "in": "path", "required": True, "schema": {}}]}, "invalid_document"),
        (
            {"parameters": [{"name": "Host", "in": "header", "required": True, "schema": {}}]},
            "unsupported_parameter",
        ),
        ({"parameters": [{"name": "q", "in": "query", "schema": {"pattern": "^(a+)+$"}}]}, "invalid_schema"),
        ({"requestBody": {"required": True, "content": {"application/x-thrift": {}}}}, "unsupported_body"),
        (
            {
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"type": "file"}}},
                }
            },
            "invalid_schema",
        ),
        ({"servers": [{"url": "https://evil.test"}]}, "other_server"),
    ],
)
def test_what_cannot_be_imported_is_refused_with_a_reason_and_the_rest_loads(
    operation: dict[str, Any], code: str
) -> None:
    """One finding, of one operation."""
    whole = one(operation)
    whole["paths"]["/fine"] = {"get": {"operationId": "fine", "responses": {}}}
    tools = loaded(whole)
    assert (found(tools), tools.names) == ([("x", code, False)], ("fine",))


@pytest.mark.parametrize("method", ["options", "trace"])
def test_methods_that_ask_about_a_server_are_not_tools(method: str) -> None:
    """TRACE would give back what was sent, secrets included."""
    assert found(loaded(one({}, method=method))) == [("x", "unsupported_method", False)]


def test_an_answer_that_cannot_be_described_is_no_reason_to_leave_a_tool_out() -> None:
    """It is loaded without a schema of its result, and that is told."""
    content = {"application/json": {"schema": {"$ref": "https://evil.test/x"}}}
    tools = loaded(one({"responses": {"200": {"description": "fine", "content": content}}}))
    assert (tools["x"].output, found(tools)) == (None, [("x", "no_output_schema", True)])


@pytest.mark.parametrize(("status", "fits"), [("200", None), ("204", [None])])
def test_an_answer_of_which_nothing_is_said_may_be_anything(status: str, fits: list[None] | None) -> None:
    """Only 204 promises that nothing comes; services answer 200 and 201 with something all the same."""
    output = loaded(one({"responses": {status: {"description": "fine"}}}))["x"].output
    answers: list[Any] = [None, {}, "x"]
    assert (None if output is None else list(filter(output.accepts, answers))) == fits


def test_names_are_made_safe_and_each_is_another() -> None:
    """By operationId, by method and path where there is none; what is long or taken gets a digest."""
    paths = {
        "/a/{b}": {"get": {"responses": {}, "parameters": [{"name": "b", "in": "path", "schema": {}}]}},
        "/c": {
            "get": {"operationId": "same/one", "responses": {}},
            "put": {"operationId": "same one", "responses": {}},
        },
        "/d": {
            "get": {"operationId": "twice", "responses": {}},
            "put": {"operationId": "twice", "responses": {}},
        },
        "/e": {"get": {"operationId": "long" * 30, "responses": {}}},
        "/f": {"get": {"operationId": "日本", "responses": {}}},
    }
    tools = loaded(document(paths=paths), prefix="s.")
    names = ["s.GET_a_b", "s.same_one", "s.same_one_", "s.GET_d", "s.PUT_d", "s.longlong", "s._"]
    assert [name.startswith(start) for name, start in zip(tools.names, names, strict=True)] == [True] * 7
    assert max(map(len, tools.names)) <= 64
    assert len(set(tools.names)) == 7


def test_arguments_of_one_name_are_told_apart_by_their_place() -> None:
    """A parameter may stand in path, query and body at once."""
    schema = {"type": "string"}
    parameters = [{"name": "body", "in": place, "schema": schema} for place in ("query", "header")]
    body = {"content": {"application/json": {"schema": {"type": "object"}}}}
    tool = loaded(one({"parameters": parameters, "requestBody": body}, method="post"))["x"]
    assert list(tool.input.document["properties"]) == ["body", "body_header", "body_body"]


def test_only_what_is_wanted_is_loaded() -> None:
    """By operationId or method and path, with `*`; a name that fits nothing is refused, as is any other slip."""
    assert loaded(only=["order", "GET /things/*"]).names == ("thing", "order")
    slips: list[tuple[dict[str, Any], str]] = [
        ({"only": ["ordr"]}, "did you mean 'order'"),
        ({"effects": {"ordr": "reads"}}, "did you mean 'order'"),
        ({"effects": {"order": "read"}}, "there are reads, writes, acts"),
        ({"options": {"order": {"timout": 5}}}, "did you mean 'timeout'"),
        ({"secret_refs": {"key": "K"}}, "no security scheme 'key'"),
        ({"base_url": "store.test"}, "must be a URL"),
        ({"base_url": "https://ada:pw@store.test"}, "without user name"),
        ({"server_variables": {"x": "y"}}, "no server has the variable 'x'"),
        ({"headers": {"A": "b\r\nC: d"}}, "cannot be sent"),
        ({"idempotency_header": "a b"}, "no name of a header"),
    ]
    for options, said in slips:
        with pytest.raises(BadInput, match=said):
            loaded(**options)


def test_what_is_no_document_is_refused_in_a_sentence() -> None:
    """Swagger 2, other versions, other things, no server at all."""
    for source, said in [
        ({"swagger": "2.0"}, "this is Swagger '2.0'"),
        ({"openapi": "4.0.0"}, r"OpenAPI 4\.0\.0 is not read"),
        ({}, "no OpenAPI document"),
        (b"[1]", "is an object, not a list"),
        (b"a: [", "cannot be read"),
        ("nowhere.yaml", "there is no file"),
        ({**one({}), "servers": []}, "names no server"),
    ]:
        with pytest.raises(BadInput, match=said):
            loaded(source)


def test_a_document_is_read_from_json_and_yaml_alike(tmp_path: Path) -> None:
    """YAML may repeat a value by an anchor; the same document has the same pins."""
    file = tmp_path / "store.json"
    file.write_text(json.dumps(STORE))
    anchored = b"""
openapi: 3.0.3
info: {title: Store, version: no}
servers: [{url: https://store.test}]
paths:
  /a: {get: {operationId: a, parameters: &p [{name: q, in: query, schema: {type: string}}], responses: {}}}
  /b: {get: {operationId: b, parameters: *p, responses: {}}}
"""
    assert loaded(file).pins == loaded(STORE).pins == loaded(str(file)).pins
    tools = loaded(anchored)
    assert tools["a"].input.document == tools["b"].input.document


def test_what_was_pinned_is_what_is_loaded() -> None:
    """A schema, a path, a server that is another: left out, and told."""
    pins = loaded().pins
    assert loaded(pinned=pins).names == loaded().names
    other = copy.deepcopy(STORE)
    other["components"]["schemas"]["Order"]["properties"]["pet"]["minLength"] = 2
    changed = loaded(other, pinned={key: pin for key, pin in pins.items() if key != "thing"})
    assert [each for each in found(changed) if not each[2]] == [
        ("thing", "not_pinned", False),
        ("order", "contract_changed", False),
    ]
    assert loaded(base_url="https://other.test", pinned=pins).names == ()


def test_servers_have_variables_and_their_order() -> None:
    """Base URL, then the operation's, the path's and the document's own; a variable has its default or what is said."""
    server = {
        "url": "https://{place}.store.test/{v}",
        "variables": {"place": {"default": "eu", "enum": ["eu", "us"]}, "v": {"default": "v1"}},
    }
    whole = one({}, servers=[server])
    assert "eu.store.test" in loaded(whole)["x"].host
    assert loaded(whole, server_variables={"place": "us"})["x"].host == "us.store.test"
    assert loaded(whole, base_url="https://mine.test:8443/api")["x"].host == "mine.test:8443"
    with pytest.raises(BadInput, match="did you mean 'eu'"):
        loaded(whole, server_variables={"place": "eux"})
    elsewhere = one({"servers": [{"url": "https://files.test"}]})
    assert loaded(elsewhere, servers=["https://files.test"])["x"].host == "files.test"


# --- Calls, judged by somebody else's validator.


@pytest.fixture(scope="module")
def store() -> Iterator[Service]:
    """The store, behind a validator."""
    with validating(STORE) as service:
        yield service


ARGS: dict[str, Any] = {
    "id": "a b;ü",
    "tags": ["x,y", "z&w=1", "é"],
    "csv": [1, 2],
    "pipes": [3, 4],
    "deep": {"a": "q&[]", "b": 3},
    "on": True,
    "X-Count": 7,
    "X-List": ["p", "q"],
    "session": "s",
    "filter": {"a": "{'\"}", "b": 1},
}


async def test_parameters_arrive_as_they_were_given(store: Service) -> None:
    """In every place and style, with characters that mean something there."""
    await call(loaded(base_url=store.url), "thing", **ARGS)
    told = store.judged[-1]
    assert told["errors"] == []
    read = told["parameters"]
    assert read["query"] == {key: ARGS[key] for key in ("tags", "csv", "pipes", "deep", "on", "filter")}
    assert (read["path"], read["cookie"]) == ({"id": ARGS["id"]}, {"session": "s"})
    assert read["header"] == {"X-Count": 7, "X-List": ["p", "q"]}


@pytest.mark.parametrize(
    ("name", "body", "read"),
    [
        ("order", {"pet": "Ä", "secret": "s"}, {"pet": "Ä", "secret": "s"}),
        (
            "form",
            {"n": 3, "names": ["a&b", "c"], "text": "x y+z"},
            {"n": 3, "names": ["a&b", "c"], "text": "x y+z"},
        ),
        (
            "file",
            {"data": base64.b64encode(b"\0\xff\r\n--x").decode(), "text": "tü", "more": {"b": 1}},
            {"data": "\0\xff\r\n--x", "text": "tü", "more": {"b": 1}},
        ),
    ],
)
async def test_bodies_arrive_as_they_were_given(store: Service, name: str, body: Any, read: Any) -> None:
    """JSON, urlencoded, multipart with bytes in it."""
    await call(loaded(base_url=store.url), name, body=body)
    assert (store.judged[-1]["errors"], store.judged[-1]["body"]) == ([], read)


async def test_what_the_service_refuses_is_a_failure_with_its_own_words(store: Service) -> None:
    """problem+json becomes details; 422 is `bad_args`. Called past the check, which would have seen it."""
    failure = await failing(loaded(base_url=store.url), "order", body={"pet": ""})
    assert (failure.kind, failure.code, failure.happened) == (Kind.BAD_ARGS, "unprocessable", Happened.NO)
    assert failure.details is not None
    assert failure.details["status"] == 422
    assert failure.details["problem"]["title"] == "not by the document"


async def test_a_plan_calls_it_like_any_tool(store: Service) -> None:
    """Checked before it runs, journaled, with retries by kind."""
    tools = loaded(base_url=store.url, prefix="s.", outputs=False, egress=LOOPBACK)
    step = {
        "id": "got",
        "each": {"$": "['a', 'b']"},
        "tool": "s.thing",
        "args": {"id": {"$": "item"}, "on": False},
    }
    async with tools:
        run = await Engine(tools).run(plan_of(step))
    assert run["got"] == [{}, {}]
    assert [each["target"] for each in store.judged[-2:]] in (
        ["/things/a?on=false", "/things/b?on=false"],
        ["/things/b?on=false", "/things/a?on=false"],
    )


# --- On the wire.


def the_rest(operation: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return one(operation, path="/x/{id}", **rest)


@ONE_LOOP
@pytest.mark.parametrize(
    ("style", "explode", "value", "path"),
    [
        ("simple", False, "a/b?c#d%", "a%2Fb%3Fc%23d%25"),
        ("simple", False, [1, 2], "1,2"),
        ("simple", False, {"r": 1, "g": "x,y"}, "r,1,g,x%2Cy"),
        ("simple", True, {"r": 1, "g": 2}, "r=1,g=2"),
        ("label", False, [1, 2], ".1,2"),
        ("label", True, [1, 2], ".1.2"),
        ("label", True, {"r": 1}, ".r=1"),
        ("matrix", False, 5, ";id=5"),
        ("matrix", False, [1, 2], ";id=1,2"),
        ("matrix", True, [1, 2], ";id=1;id=2"),
        ("matrix", True, {"r": 1, "g": 2}, ";r=1;g=2"),
        ("simple", False, "..x", "..x"),
    ],
)
async def test_a_path_is_written_in_its_style(style: str, explode: bool, value: Any, path: str) -> None:
    """RFC 6570, as OpenAPI takes it over; what would be another path is encoded."""
    parameter = {
        "name": "id",
        "in": "path",
        "required": True,
        "style": style,
        "explode": explode,
        "schema": {},
    }
    async with serving(lambda seen: reply("ok", content_type="text/plain")) as web:
        await call(loaded(the_rest({"parameters": [parameter]}), base_url=f"{web.url}/v1"), "x", id=value)
        assert web.seen[0].target == f"/v1/x/{path}"


@ONE_LOOP
@pytest.mark.parametrize("style", ["simple", "label"])
@pytest.mark.parametrize(
    "value",
    [
        "../admin",
        "a/../../b",
        "..\\admin",
        "%2e%2e/admin",
        "%252e%252e%252fadmin",
        "./x",
        "..;/x",
        "a/..",
        ["..", "/../b"],
    ],
)
async def test_no_value_steps_out_of_its_place_in_a_path(style: str, value: Any) -> None:
    """Also where a server, or a proxy before it, decodes the path before it looks where that leads; nothing is sent."""
    parameter = {"name": "id", "in": "path", "required": True, "style": style, "schema": {}}
    async with serving(lambda seen: reply("ok", content_type="text/plain")) as web:
        tools = loaded(the_rest({"parameters": [parameter]}), base_url=f"{web.url}/v1")
        if style == "label" and not str(value).startswith("./"):
            value = f"x/{value}" if isinstance(value, str) else ["x", *value]
        with pytest.raises(ToolFailure, match="another path") as raised:
            await call(tools, "x", id=value)
        assert (raised.value.kind, web.seen) == (Kind.BAD_ARGS, [])


@ONE_LOOP
@pytest.mark.parametrize("place", ["path", "query", "cookie"])
async def test_half_a_surrogate_pair_is_a_bad_argument(place: str) -> None:
    """And no bug of the tool; nothing is sent."""
    parameters = [
        {"name": "id", "in": "path", "required": True, "schema": {}},
        {"name": "q", "in": "query" if place == "path" else place, "schema": {}},
    ]
    async with serving(lambda seen: reply("ok", content_type="text/plain")) as web:
        tools = loaded(the_rest({"parameters": parameters}), base_url=f"{web.url}/v1")
        with pytest.raises(ToolFailure, match="surrogate") as raised:
            await call(tools, "x", **({"id": "\ud800"} if place == "path" else {"id": "a", "q": "\ud800"}))
        assert (raised.value.kind, web.seen) == (Kind.BAD_ARGS, [])


@ONE_LOOP
async def test_a_header_may_hold_a_letter_of_latin_1() -> None:
    """As HTTP writes it; what no header can hold is a bad argument."""
    parameters = [
        {"name": "id", "in": "path", "required": True, "schema": {}},
        {"name": "X-Name", "in": "header", "schema": {}},
    ]
    async with serving(lambda seen: reply("ok", content_type="text/plain")) as web:
        tools = loaded(the_rest({"parameters": parameters}), base_url=f"{web.url}/v1")
        await call(tools, "x", id="a", **{"X-Name": "Zo\xe9"})
        assert web.seen[0].headers["x-name"] == "Zo\xe9"


@ONE_LOOP
@pytest.mark.parametrize(
    ("style", "explode", "value", "query"),
    [
        ("form", True, {"r": 1, "g": "a&b"}, "r=1&g=a%26b"),
        ("form", False, {"r": 1, "g": 2}, "q=r,1,g,2"),
        ("form", False, ["a,b", "c"], "q=a%2Cb,c"),
        ("form", True, [], ""),
        ("spaceDelimited", False, ["a b", "c"], "q=a%20b%20c"),
        ("pipeDelimited", True, [1, 2], "q=1&q=2"),
        (
            "deepObject",
            True,
            {"a": {"b": [1, {"c": True}]}},
            "q%5Ba%5D%5Bb%5D%5B0%5D=1&q%5Ba%5D%5Bb%5D%5B1%5D%5Bc%5D=true",
        ),
        ("form", True, None, "q="),
        ("form", True, 0.1, "q=0.1"),
    ],
)
async def test_a_query_is_written_in_its_style(style: str, explode: bool, value: Any, query: str) -> None:
    """And after what the document's own path says."""
    parameter = {"name": "q", "in": "query", "style": style, "explode": explode, "schema": {}}
    whole = one({"parameters": [parameter]}, path="/x?beta=true")
    async with serving(lambda seen: reply("ok", content_type="text/plain")) as web:
        await call(loaded(whole, base_url=web.url), "x", q=value)
        assert web.seen[0].target == "/x?beta=true" + (f"&{query}" if query else "")


@ONE_LOOP
@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("path", ".."),
        ("path", "."),
        ("path", ""),
        ("header", "a\r\nX-Evil: 1"),
        ("header", "\u2028"),
        ("query", [[1]]),
    ],
)
async def test_an_argument_does_not_become_another_part_of_the_request(place: str, value: Any) -> None:
    """No step up, no line more: `bad_args`, and nothing is sent."""
    parameter = {"name": "id", "in": place, "required": True, "schema": {}}
    whole = one({"parameters": [parameter]}, path="/x/{id}" if place == "path" else "/x")
    failure = await failing(loaded(whole), "x", id=value)
    assert (failure.kind, failure.happened) == (Kind.BAD_ARGS, Happened.NO)


SCHEMES: dict[str, Any] = {
    "head": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "basic": {"type": "http", "scheme": "Basic"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "oauth": {"type": "oauth2", "flows": {}},
    "oidc": {"type": "openIdConnect", "openIdConnectUrl": "https://id.test"},
    "tls": {"type": "mutualTLS"},
}


@ONE_LOOP
@pytest.mark.parametrize(
    ("scheme", "secret", "sent"),
    [
        ("head", TOKEN, ("x-key", TOKEN)),
        ("query", f"{TOKEN}&", ("target", f"/x?key={TOKEN}%26")),
        ("cookie", TOKEN, ("cookie", f"sid={TOKEN}")),
        (
            "basic",
            f"ada:{TOKEN}",
            ("authorization", "Basic " + base64.b64encode(f"ada:{TOKEN}".encode()).decode()),
        ),
        ("bearer", TOKEN, ("authorization", f"Bearer {TOKEN}")),
        ("oauth", TOKEN, ("authorization", f"Bearer {TOKEN}")),
        ("oidc", TOKEN, ("authorization", f"Bearer {TOKEN}")),
    ],
)
async def test_secrets_are_given_below_the_recorded_arguments(
    scheme: str, secret: str, sent: tuple[str, str]
) -> None:
    """By the name of the security scheme; they are in no schema, and out of what comes back."""
    whole = one({"security": [{scheme: []}]}, components={"securitySchemes": SCHEMES})

    def echo(seen: Seen) -> bytes:
        return reply({**seen.headers, "target": seen.target})

    async with serving(echo) as web:
        tools = loaded(whole, base_url=web.url, secret_refs={scheme: "T"}, outputs=False)
        assert tools["x"].input.document["properties"] == {}
        engine = Engine(tools, secrets=MappingSecrets({"T": secret}))
        run = await engine.run(plan_of({"id": "a", "tool": "x"}))
        assert {**web.seen[0].headers, "target": web.seen[0].target}[sent[0]] == sent[1]
    assert run.state == "done"
    assert TOKEN not in json.dumps(run["a"])


def test_the_first_way_in_for_which_there_are_secrets_is_taken() -> None:
    """All that it asks for, or the next; none at all is told once per scheme, not once per operation."""
    security: list[Any] = [{"head": [], "query": []}, {"bearer": []}]
    whole = one({}, security=security, components={"securitySchemes": SCHEMES})
    assert dict(loaded(whole, secret_refs={"head": "A", "bearer": "B"})["x"].secret_refs) == {"bearer": "B"}
    both = loaded(whole, secret_refs={"head": "A", "query": "B", "bearer": "C"})
    assert dict(both["x"].secret_refs) == {"head": "A", "query": "B"}
    assert {code for _, code, _ in found(loaded(whole))} == {"no_secret"}
    assert found(loaded({**whole, "security": [{}, {"bearer": []}]})) == []
    refused = loaded({**whole, "security": [{"tls": []}]}, secret_refs={"tls": "A"})
    assert found(refused) == [("x", "unsupported_security", False)]


async def test_a_secret_does_not_go_to_a_host_that_only_the_document_names() -> None:
    """An operation elsewhere is not loaded until the operator says that host."""
    whole = one(
        {"servers": [{"url": "https://evil.test"}], "security": [{"bearer": []}]},
        components={"securitySchemes": SCHEMES},
    )
    assert found(loaded(whole, secret_refs={"bearer": "T"})) == [("x", "other_server", False)]
    private = loaded(one({}, servers=[{"url": "http://169.254.169.254"}]), egress=Egress())
    failure = await failing(private, "x")
    assert (failure.code, failure.happened) == ("egress_refused", Happened.NO)


def test_a_secret_does_not_go_where_everybody_can_read_it() -> None:
    """Over http only to a host that the operator has allowed by name; without a secret http is as good as https."""
    whole = one({}, security=[{"bearer": []}], components={"securitySchemes": SCHEMES})
    plain: dict[str, Any] = {"base_url": "http://10.0.0.7:8080", "secret_refs": {"bearer": "T"}}
    assert found(loaded(whole, **plain)) == [("x", "insecure_server", False)]
    assert found(loaded(whole, **plain, egress=Egress(allow=["10.0.0.0/8"]))) == []
    assert loaded(whole, base_url="http://store.test").names == ("x",)


async def test_the_key_of_a_call_goes_where_the_operator_says() -> None:
    """The same for each attempt, so that the service can tell a repetition."""

    def unsure(seen: Seen) -> bytes:
        return reply("", 503) if len(web.seen) == 1 else reply({})

    whole = one({}, method="put")
    async with serving(unsure) as web:
        tools = loaded(
            whole,
            base_url=web.url,
            idempotency_header="Idempotency-Key",
            headers={"X-Fixed": "1"},
            outputs=False,
        )
        policies = Policies(retry=Retry(attempts=2, base=0.001), approve="never")
        run = await Engine(tools, policies=policies).run(plan_of({"id": "a", "tool": "x"}))
        keys = [seen.headers["idempotency-key"] for seen in web.seen]
        assert run.state == "done"
        assert (len(keys), len(set(keys)), web.seen[0].headers["x-fixed"]) == (2, 1, "1")


# --- Answers.


@ONE_LOOP
@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (reply({"a": 1}), {"a": 1}),
        (reply('{"a": 1}', content_type="application/vnd.x+json; charset=utf-8"), {"a": 1}),
        (reply("", 204), None),
        (reply("grüße".encode("latin-1"), content_type="text/plain; charset=iso-8859-1"), "grüße"),
        (reply(b"x", content_type="text/plain; charset=idna"), "x"),
        (reply(b"\x89PNG", content_type="image/png"), {"mime": "image/png", "bytes": 4, "data": "iVBORw=="}),
        (reply(bytes(70_000), content_type="image/png"), {"mime": "image/png", "bytes": 70_000}),
        (reply(b"?"), {"mime": "", "bytes": 1, "data": "Pw=="}),
    ],
)
async def test_an_answer_is_plain_data(answer: bytes, result: Any) -> None:
    """JSON read, text as text, bytes as what they are, nothing as null."""
    async with serving(lambda seen: answer) as web:
        assert await call(loaded(one({}), base_url=web.url), "x") == result


@ONE_LOOP
@pytest.mark.parametrize(
    ("answer", "kind", "code", "happened", "said"),
    [
        (reply({"message": "no such thing"}, 404), Kind.BUSINESS, "not_found", Happened.NO, "no such thing"),
        (
            reply({"error": {"message": "slow down"}}, 429, retry_after="7"),
            Kind.NETWORK,
            "rate_limited",
            Happened.NO,
            "slow down",
        ),
        (
            reply("<html>", 502, content_type="text/html"),
            Kind.NETWORK,
            "bad_gateway",
            Happened.MAYBE,
            "answered 502",
        ),
        (reply("nope", 403, content_type="text/plain"), Kind.PERMISSION, "forbidden", Happened.NO, "nope"),
        (reply("", 302, location="/elsewhere"), Kind.BUSINESS, "redirected", Happened.MAYBE, "answered 302"),
        (reply("{", content_type="application/json"), Kind.BUSINESS, "bad_response", Happened.YES, "no JSON"),
        (
            reply("[NaN]", content_type="application/json"),
            Kind.BUSINESS,
            "bad_response",
            Happened.YES,
            "no JSON",
        ),
        (
            reply("[" * 200_000, content_type="application/json"),
            Kind.BUSINESS,
            "bad_response",
            Happened.YES,
            "no JSON",
        ),
    ],
)
async def test_a_failure_is_one_of_the_five_kinds(
    answer: bytes, kind: Kind, code: str, happened: Happened, said: str
) -> None:
    """By status, never by text; what the service says comes along as data."""
    async with serving(lambda seen: answer) as web:
        failure = await failing(loaded(one({}, method="post"), base_url=web.url), "x")
    assert (failure.kind, failure.code, failure.happened) == (kind, code, happened)
    assert said in str(failure)
    assert failure.retry_after == (7.0 if code == "rate_limited" else None)


async def test_problem_json_reaches_the_planner_as_data() -> None:
    """RFC 9457 with its extensions; the message is its title and detail."""
    problem = {"type": "about:blank", "title": "Out of credit", "detail": "30 left, 50 needed", "balance": 30}
    answer = reply(json.dumps(problem), 403, content_type="application/problem+json")
    async with serving(lambda seen: answer) as web:
        tools = loaded(one({}), base_url=web.url)
        run = await Engine(tools, policies=Policies(retry=Retry(attempts=1))).run(
            plan_of({"id": "a", "tool": "x"})
        )
    failure: Failure
    [(_, failure)] = run.failures
    assert failure.details == {"status": 403, "problem": problem}
    assert failure.message.endswith("answered 403: Out of credit: 30 left, 50 needed")
    assert failure.untrusted


@ONE_LOOP
async def test_an_answer_that_is_not_as_declared_is_no_result() -> None:
    """Unless the operator says that the document is not to be believed there."""
    content = {"application/json": {"schema": {"type": "integer"}}}
    whole = one({"responses": {"200": {"description": "fine", "content": content}}})
    async with serving(lambda seen: reply(["no"])) as web:
        ended = []
        for outputs in (True, False):
            tools = loaded(whole, base_url=web.url, outputs=outputs)
            ended.append((await Engine(tools).run(plan_of({"id": "a", "tool": "x"}))).state)
    assert ended == ["failed", "done"]


@ONE_LOOP
async def test_a_service_keeps_nothing_at_the_caller() -> None:
    """A cookie that it sets is not sent back: calls do not depend on each other."""
    async with serving(lambda seen: reply({}, set_cookie="sid=1; Path=/")) as web:
        async with loaded(one({}), base_url=web.url) as tools:
            for _ in range(2):
                await call(tools, "x")
        assert [seen.headers.get("cookie") for seen in web.seen] == [None, None]


async def test_a_document_is_fetched_through_the_guard() -> None:
    """From a URL; its relative server is where it came from. A private address is refused like any other."""
    whole = {**one({}), "servers": [{"url": "/v2"}]}
    async with serving(lambda seen: reply(whole if seen.path == "/api.json" else {})) as web:
        tools = await anyio.to_thread.run_sync(lambda: loaded(f"{web.url}/api.json"))
        assert await call(tools, "x") == {}
        assert web.seen[-1].target == "/v2/x"
        with pytest.raises(ToolFailure, match="tools may call public addresses only"):
            await anyio.to_thread.run_sync(lambda: loaded(f"{web.url}/api.json", egress=Egress()))
