"""A file of tools at the command line: where a document is called, with which secrets, and where these are."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

if importlib.util.find_spec("httpx2") is None:
    pytest.skip("the package httpx2 is not installed", allow_module_level=True)

from support.services import service
from support.shell import Shell, write_case

SECRET = "k-93kd83hd02"
ARTICLE = {
    "operationId": "article",
    "security": [{"key": []}],
    "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}},
    "responses": {"200": {"description": "", "content": {"application/json": {}}}},
}
DOCUMENT = {
    "openapi": "3.1.0",
    "paths": {"/articles": {"post": ARTICLE}},
    "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
}
PLAN = """\
goal: Look an article up
steps: [{id: tea, tool: shop.article, args: {body: {name: tea}}}]
output: {$: tea}
"""
RUN = ("run", "tea.yaml", "--tools", "store/tools.yaml")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    write_case(tmp_path)
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "shop.json").write_text(json.dumps(DOCUMENT))
    (tmp_path / "store" / "mine.py").write_text((tmp_path / "shop.py").read_text())
    (tmp_path / "tea.yaml").write_text(PLAN)
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path, capsys)


def described(url: str, **more: object) -> None:
    """Write a file of tools: the document, called at a URL, and a module."""
    source = {
        "openapi": "shop.json",
        "prefix": "shop.",
        "effects": {"article": "reads"},
        "base_url": url,
        "secret_refs": {"key": "SHOP_KEY"},
        "egress": {"allow": ["127.0.0.1"]},
    }
    tools = [source, {"from": "mine.py:registry"}]
    Path("store/tools.yaml").write_text(json.dumps({"tools": tools, **more}))


def test_a_document_is_called_where_the_file_says_with_the_secret_of_the_environment(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service gets the secret; the result has it no more; tools of a module stand beside."""
    monkeypatch.setenv("SHOP_KEY", SECRET)

    with service({"sent": SECRET}) as shop:
        described(shop.url)
        said = shell.here(*RUN, "--json")
        listed = shell.here("tools", "--tools", "store/tools.yaml")
    [(path, headers, body)] = shop.asked
    assert (path, headers["x-key"], body) == ("/articles", SECRET, {"name": "tea"})
    assert (said.code, said.document["output"]) == (0, {"sent": "[secret SHOP_KEY]"})
    assert ("shop.article" in listed.out, "read_ledger" in listed.out) == (True, True)


def test_a_secret_stands_in_a_file_beside(shell: Shell) -> None:
    """By its name; the newline at the end is no part of it. Where the file is missing, the failure names secret and file."""
    with service({}) as shop:
        described(shop.url, secrets={"SHOP_KEY": {"file": "key.txt"}})
        lacking = shell.here(*RUN)
        Path("store/key.txt").write_text(f"{SECRET}\n")
        assert shell.here(*RUN).code == 0
    assert [headers["x-key"] for _, headers, _ in shop.asked] == [SECRET]
    words = " ".join((lacking.out + lacking.err).split())
    assert (lacking.code, "needs the secret 'SHOP_KEY'" in words, "key.txt' cannot be read" in words) == (
        1,
        True,
        True,
    )


def test_a_missing_secret_is_named_with_the_variable_to_set(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is called without it."""
    monkeypatch.delenv("SHOP_KEY", raising=False)
    described("http://127.0.0.1:9")
    said = shell.here(*RUN)
    assert (said.code, "set the environment variable SHOP_KEY" in said.out + said.err) == (1, True)


def test_a_secret_in_the_file_itself_is_refused_and_not_repeated(shell: Shell) -> None:
    """What stands in the place of a path may be the secret."""
    described("http://127.0.0.1:9", secrets={"SHOP_KEY": SECRET})
    said = shell.here("tools", "--tools", "store/tools.yaml")
    assert (said.code, SECRET in said.out + said.err, "{file: PATH}" in said.err) == (2, False, True)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"openapi": "shop.json", "base_ulr": "x"}, "'tools.0.base_ulr'; did you mean 'base_url'?"),
        ({"openapi": "shop.json", "from": "mine.py"}, "either `from` a module or from an `openapi` document"),
        ({"from": "mine.py", "prefix": "x."}, "'prefix' is said of an `openapi` document"),
        ({"openapi": "shp.json"}, "tools[0] of the file of tools: "),
        ({"openapi": "shop.json", "base_url": "http://127.0.0.1", "secret_refs": {"ky": "K"}}, "'key'"),
    ],
)
def test_what_is_wrong_in_the_file_is_told_with_the_next_move(
    shell: Shell, wrong: dict[str, object], why: str
) -> None:
    """A misspelt option with the nearest, at its line."""
    Path("store/tools.yaml").write_text(json.dumps({"tools": [wrong]}))
    said = shell.here("tools", "--tools", "store/tools.yaml")
    assert (said.code, why in said.err) == (2, True), said.err


def test_a_document_alone_that_lacks_something_tells_of_the_file(shell: Shell) -> None:
    """Where it is called, and that its operations have no secret."""
    said = shell.here("tools", "--tools", "store/shop.json")
    assert (said.code, "`tools: [{openapi: shop.json, base_url: …}]`" in said.err) == (2, True), said.err
    served = {**DOCUMENT, "servers": [{"url": "https://shop.example"}]}
    Path("store/shop.json").write_text(json.dumps(served))
    found = shell.here("tools", "--tools", "store/shop.json", "--json").document["findings"]
    assert ["secret_refs: {…}}]`" in finding["message"] for finding in found if not finding["tool"]] == [True]
