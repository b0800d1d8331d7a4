"""Secrets that do not show themselves, the scrubber that finds them, and the vaults they come from."""

from __future__ import annotations

import base64
import copy
import json
import logging
import pickle
import traceback
from collections.abc import Iterator
from typing import Any

import keyring
import keyring.backend
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from support.traces import SECRET, encodings, found_in

from foreplan import Registry, Tool, ToolContext, tool
from foreplan.policies.errors import BadInput, SecretMissing, SecretRefused, ToolRefused
from foreplan.policies.secrets import Scrubber, Secret
from foreplan.registry.values import Unserialisable, to_plain
from foreplan.registry.vaults import Chained, EnvironmentSecrets, KeyringSecrets, MappingSecrets


def scrubber(*secrets: str) -> Scrubber:
    """One that knows these, as T0, T1 and so on."""
    made = Scrubber()
    for n, secret in enumerate(secrets):
        made.add(Secret(secret, f"T{n}"))
    return made


# ---- the type


class Settings(BaseModel):
    """A model with a secret in it."""

    token: Secret


SHOWN = [
    repr,
    str,
    "{}".format,
    "{!r:>40}".format,
    lambda s: "%s %r".__mod__((s, s)),
    lambda s: f"{s}",
    lambda s: str([s, {"a": s}]),
    lambda s: repr(Settings(token=s)),
    lambda s: str(Settings(token=s).model_dump()),
    lambda s: Settings(token=s).model_dump_json(),
    lambda s: "".join(traceback.format_exception(ValueError(s))),
]


@pytest.mark.parametrize("show", SHOWN)
def test_a_secret_does_not_show_itself(show: Any) -> None:
    """No text is made of it but by `reveal()`, alone or inside other things."""
    assert found_in(show(Secret(SECRET, "TOKEN"))) == []
    assert "***" in show(Secret(SECRET, "TOKEN"))
    assert Secret(SECRET).reveal() == SECRET


@pytest.mark.parametrize(
    "write",
    [
        json.dumps,
        pickle.dumps,
        lambda s: pickle.dumps(s, protocol=0),
        lambda s: pickle.dumps({"a": [s]}),
        bytes,
        list,
        vars,
        lambda s: copy.copy(s).__reduce_ex__(4),
        lambda s: s + "x",
    ],
)
def test_a_secret_is_not_written(write: Any) -> None:
    """JSON and pickle raise, and the error does not hold it."""
    with pytest.raises(TypeError) as refused:
        write(Secret(SECRET))
    assert found_in(str(refused.value)) == []


def test_a_secret_is_no_result() -> None:
    """`to_plain` refuses it with a sentence, deep inside too."""
    with pytest.raises(Unserialisable, match="/a/0 is a Secret, which is never written down; return what it"):
        to_plain({"a": [Secret(SECRET)]})


def test_secrets_are_compared_by_what_they_hold() -> None:
    """Two of one text are equal whatever their names, and a copy is the same one; a text is never equal to one."""
    one, two = Secret(SECRET, "A"), Secret(SECRET, "B")
    assert one == two
    assert hash(one) == hash(two)
    assert one != Secret(SECRET + "x")
    assert one != SECRET
    assert copy.deepcopy(one) is copy.copy(one) is one
    with pytest.raises(AttributeError, match="does not change"):
        one.name = "C"


@pytest.mark.parametrize(
    "value", ["", "seven77", "  seven77  ", b"a long enough one", None, "half \ud800 a sign"]
)
def test_what_cannot_be_told_apart_is_no_secret(value: Any) -> None:
    """Fewer than 8 characters, or no text: refused with a sentence without the value."""
    with pytest.raises(SecretRefused, match="a secret") as refused:
        Secret(value)
    assert not value or str(value) not in str(refused.value)


# ---- the scrubber


@pytest.mark.parametrize("way", encodings(SECRET))
def test_a_secret_is_found_however_it_is_written(way: str) -> None:
    """What stands around it stays; in base64 the signs that hold its last bits go with it."""
    written = encodings(SECRET)[way]
    assert scrubber(SECRET).scrub_text(f"before {written} after") == "before [secret T0] after"


@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("after", range(4))
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode, base64.encodebytes])
def test_a_secret_is_found_inside_longer_base64(before: int, after: int, encode: Any) -> None:
    """Wherever it begins; also where lines are folded within it."""
    written = encode(b"u" * before + SECRET.encode() + b"v" * after).decode()
    folded = encode(b"u" * (before + 40) + SECRET.encode() * 3).decode()
    scrub = scrubber(SECRET).scrub_text
    assert "[secret T0]" in scrub(written)
    assert found_in(scrub(written)) == found_in(scrub(folded).replace("\n", "")) == []


def test_values_are_scrubbed_all_the_way_down() -> None:
    """Keys too, of which two may become one; what holds none is the same object."""
    clean = {"a": ["b", {"c": 1, "d": None, "e": 1.5}]}
    scrub = scrubber(SECRET).scrub
    assert scrub(clean) is clean
    assert scrub({SECRET: 1, SECRET.encode().hex(): [SECRET], "a": clean}) == {
        "[secret T0]": 1,
        "[secret T0] 2": ["[secret T0]"],
        "a": clean,
    }


def test_a_secret_of_digits_is_found_as_a_number() -> None:
    """In numbers, that is; others stay numbers."""
    value = {"pin": 31415926535, "n": 3, "all": [31415926535.0, True]}
    assert scrubber("31415926535").scrub(value) == {
        "pin": "[secret T0]",
        "n": 3,
        "all": ["[secret T0].0", True],
    }


def test_a_text_that_was_cut_off_within_a_secret_keeps_none_of_it() -> None:
    """Messages are cut to a length, and what is left of a secret is nearly all of it."""
    scrub = scrubber(SECRET).scrub_text
    assert scrub(f"401 for '{SECRET[:20]}…' at") == "401 for '[secret T0]…' at"
    assert scrub("an ordinary end…") == "an ordinary end…"


def test_a_secret_is_found_in_small_letters() -> None:
    """As hosts and names of headers are written."""
    assert (
        scrubber("Ab12Cd34Ef").scrub_text("no answer from ab12cd34ef.example")
        == "no answer from [secret T0].example"
    )


def test_the_lines_of_a_long_secret_are_found_alone() -> None:
    """A key in PEM that is printed indented, or with other line ends."""
    lines = [base64.b64encode(bytes(range(n, n + 36))).decode() for n in range(3)]
    key = "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----\n"])
    scrub = scrubber(key).scrub_text
    assert scrub("\r\n".join(f"  {line}" for line in lines)) == "\r\n".join(["  [secret T0]"] * 3)
    assert scrub("-----BEGIN PRIVATE KEY-----") == "-----BEGIN PRIVATE KEY-----"
    assert scrub(f"is {key.strip()}") == "is [secret T0]"


def test_the_longest_secret_is_named_where_one_holds_another() -> None:
    """And what an exchanged one was before stays known."""
    scrub = scrubber("hunter22", "hunter22-and-more")
    assert scrub.scrub_text("hunter22-and-more") == "[secret T1]"
    scrub.add(Secret("another-one", "T0"))
    assert scrub.scrub_text("hunter22 another-one") == "[secret T0] [secret T0]"
    assert scrub.names_in(["x", {"hunter22": "hunter22-and-more"}]) == ["T1", "T0"]


@pytest.mark.parametrize("secret", ["[secret T", "[secret]", "***]***]", "ret T0][secret"])
def test_a_secret_like_what_stands_for_it_is_found_too(secret: str) -> None:
    """Then less is said in its place."""
    assert secret not in scrubber(secret).scrub_text(f"a {secret} b {secret}{secret}")


TEXTS = st.text(st.characters(codec="utf-8"), max_size=60)
SECRETS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=8, max_size=40).filter(
    lambda text: len(text.strip()) >= 8
)


@given(SECRETS, st.data(), TEXTS, TEXTS)
def test_no_encoding_of_a_secret_is_left(secret: str, data: Any, before: str, after: str) -> None:
    """For random secrets, encodings and surroundings; scrubbed again, nothing changes."""
    way = data.draw(st.sampled_from(sorted(encodings(secret))))
    known = scrubber(secret)
    clean = known.scrub_text(before + encodings(secret.strip())[way] + after)
    assert found_in(clean, secret.strip()) == []
    assert known.scrub_text(clean) == clean
    value = known.scrub({before + secret: [after, secret.encode().hex() + before]})
    assert found_in(json.dumps(value, ensure_ascii=False), secret.strip()) == []


@given(st.text("abcdef …%\\\n+/=\"'0123456789"))
def test_a_text_without_secrets_is_unchanged(text: str) -> None:
    """The very same object, whatever escapes it holds."""
    assert scrubber("GHJKLMNP-QRSTUVW", "XYZXYZXYZ").scrub_text(text) is text


LARGE = 1_000_000
HOSTILE = [
    "sk-Ab/9+",
    "…",
    "sk-A…",
    "%5c",
    "\\\n%",
    "\\\\",
    "\n",
    "c2st",
    "%25",
    'sk-Ab/9+c?d&e"f ',
    SECRET[:-1],
    "a",
]


@pytest.mark.parametrize("part", HOSTILE)
def test_large_texts_cost_their_size(part: str) -> None:
    """Twice the text costs about twice the work, whatever is written there: no text of 1 MB takes longer than the test."""
    text = part * (LARGE // len(part))
    assert found_in(scrubber(SECRET).scrub_text(f"{text} {SECRET}")) == []


def test_a_scrubber_that_knows_nothing_gives_back_what_it_got() -> None:
    """And says so."""
    value = {"a": [SECRET]}
    assert Scrubber().scrub(value) is value
    assert Scrubber().scrub_text(SECRET) is SECRET
    assert (bool(Scrubber()), bool(scrubber(SECRET))) == (False, True)
    assert found_in(repr(scrubber(SECRET))) == []


# ---- tools


@tool(effect="reads", secret_refs={"token": "CRM_TOKEN", "key": "CRM_KEY"})
def call(path: str, token: Secret, context: ToolContext, key: str = "unset") -> list[str]:
    """Calls the service.

    Args:
        path: What is asked for
        token: Never seen by a planner
    """
    return [path, token.reveal(), key]


DECLARED: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "token": {"type": "string"}},
    "required": ["path", "token"],
}


def test_a_parameter_that_gets_a_secret_is_in_no_schema() -> None:
    """The contract says which secret, never a value; what it takes is what is left."""
    assert call.input.document["properties"] == {
        "path": {"description": "What is asked for", "type": "string"}
    }
    assert call.input.document["required"] == ["path"]
    assert call.contract()["secret_refs"] == {"token": "CRM_TOKEN", "key": "CRM_KEY"}
    assert "Never seen" not in json.dumps(call.contract())
    assert Tool.from_contract(call.contract()).contract() == call.contract()


def test_a_parameter_annotated_secret_gets_the_secret_and_a_text_the_text() -> None:
    """Both from the engine; called as a function, the tool takes what it is given."""
    secrets = {"token": Secret(SECRET), "key": Secret("another-secret")}
    assert call.invoke({"path": "a"}, ToolContext(), secrets) == ["a", SECRET, "another-secret"]
    assert call("b", Secret(SECRET), ToolContext()) == ["b", SECRET, "unset"]


def test_a_declared_tool_finds_its_secrets_among_its_arguments() -> None:
    """The property is taken out of the schema and put into the arguments at the call."""
    refs = {"token": "CRM_TOKEN"}
    made = Tool.declare("d", input_schema=DECLARED, call=lambda args: args, secret_refs=refs)
    assert made.input.document == {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    }
    args = {"path": "a"}
    assert made.invoke(args, ToolContext(), {"token": Secret(SECRET)}) == {"path": "a", "token": SECRET}
    assert args == {"path": "a"}
    assert made.renamed("other").secret_refs == refs


def _no_ref(path: str, token: Secret) -> None: ...
def _number(path: str, token: int) -> None: ...
def _list(tokens: list[Secret]) -> None: ...
def _gives() -> Secret: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: tool(_no_ref),
            r"parameter 'token' of tool '_no_ref' is a Secret, and nothing says which; write @tool\(",
        ),
        (
            lambda: tool(secret_refs={"tokn": "A", "token": "B"})(_no_ref),
            "no parameter 'tokn' .* mean 'token'",
        ),
        (
            lambda: tool(secret_refs={"token": "A"})(_number),
            "'token' of tool '_number' gets a secret; write token: Secret",
        ),
        (lambda: tool(_list), "a Secret has no JSON form"),
        (lambda: tool(_gives), "returns a Secret, which JSON cannot say"),
        (
            lambda: Tool.declare("d", input_schema=DECLARED, secret_refs={"tokn": "A"}),
            "no parameter 'tokn' .* 'token'",
        ),
        (lambda: tool(secret_refs={"token": ""})(_no_ref), "must name a secret for 'token' as text"),
    ],
)
def test_a_tool_that_does_not_say_where_a_secret_goes_is_refused(make: Any, said: str) -> None:
    """When it is made, with the next move."""
    with pytest.raises(ToolRefused, match=said):
        make()


# ---- vaults


class InMemory(keyring.backend.KeyringBackend):
    """A keyring of the library's own kind that lives in this process."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.held: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.held.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.held[service, username] = password


@pytest.fixture
def ring() -> Iterator[InMemory]:
    """The keyring of this process, for one test."""
    before, ours = keyring.get_keyring(), InMemory()
    keyring.set_keyring(ours)
    yield ours
    keyring.set_keyring(before)


def test_secrets_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read when they are asked for; an empty variable is none."""
    monkeypatch.setenv("CRM_TOKEN", SECRET)
    monkeypatch.setenv("CRM_EMPTY", "")
    assert (
        EnvironmentSecrets("CRM_").resolve("TOKEN")
        == EnvironmentSecrets().resolve("CRM_TOKEN")
        == Secret(SECRET)
    )
    with pytest.raises(SecretMissing, match="no secret 'EMPTY'; set the environment variable CRM_EMPTY"):
        EnvironmentSecrets("CRM_").resolve("EMPTY")


def test_secrets_come_from_a_dict() -> None:
    """Checked when it is given, and not shown."""
    vault = MappingSecrets({"A": SECRET, "B": Secret(SECRET)})
    assert vault.resolve("A") == vault.resolve("B") == Secret(SECRET)
    assert found_in(repr(vault)) == []
    with pytest.raises(SecretMissing, match="no secret 'C'; it is not among"):
        vault.resolve("C")
    with pytest.raises(SecretRefused):
        MappingSecrets({"A": "short"})
    with pytest.raises(SecretMissing, match=r"'CRM_TOKN'.*; did you mean 'CRM_TOKEN'"):
        MappingSecrets({"CRM_TOKEN": SECRET}).resolve("CRM_TOKN")
    with pytest.raises(SecretMissing, match="set the environment variable PATHH; did you mean 'PATH'"):
        EnvironmentSecrets().resolve("PATHH")
    with pytest.raises(BadInput, match="must be a Mapping"):
        MappingSecrets(SECRET)  # type: ignore[arg-type]


def test_secrets_come_from_the_keyring(ring: InMemory) -> None:
    """By way of the library, which says where they are stored."""
    keyring.set_password("crm", "TOKEN", SECRET)
    vault = KeyringSecrets("crm")
    assert vault.resolve("TOKEN") == Secret(SECRET)
    with pytest.raises(SecretMissing, match="no secret 'KEY'; store it with: keyring set crm KEY"):
        vault.resolve("KEY")


class Later:
    """A vault that waits."""

    async def resolve(self, ref: str) -> str:
        if ref != "LATER":
            raise SecretMissing(ref)
        return SECRET


@pytest.mark.anyio
async def test_vaults_are_asked_in_their_order(ring: InMemory) -> None:
    """Sync and async ones; the first that has it gives it; one that fails is not passed over."""
    last = MappingSecrets({"LAST": SECRET})
    chain = Chained(MappingSecrets({"FIRST": SECRET}), Later(), Chained(), last)
    assert chain.resolve("FIRST") == Secret(SECRET)
    assert await chain.resolve("LATER") == SECRET  # type: ignore[misc]
    assert await chain.resolve("LAST") == Secret(SECRET)  # type: ignore[misc]
    with pytest.raises(SecretMissing, match="no secret 'NONE'; none of 4 vaults has it"):
        await chain.resolve("NONE")  # type: ignore[misc]
    assert (chain.blocking, Chained(last, KeyringSecrets("crm")).blocking) == (False, True)


def test_registries_of_such_tools_narrow_and_rename_as_others_do() -> None:
    """The names of the secrets go with the tool."""
    [renamed] = Registry(call).prefixed("crm.").only(effect="reads")
    assert (renamed.name, renamed.secret_refs["token"]) == ("crm.call", "CRM_TOKEN")
    assert renamed.invoke({"path": "a"}, ToolContext(), {"token": Secret(SECRET)})[1] == SECRET


def test_records_of_other_loggers_are_not_touched() -> None:
    """The filter stands at the logger "foreplan" alone."""
    assert logging.getLogger("elsewhere").filters == []
