"""How an exception is read: rules, groups, waits, hosts, words; whatever it is made of."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreplan.policies.causes import (
    CARRIERS,
    ERRNOS,
    OPEN,
    REMEDIES,
    SPECIAL,
    SQLITE,
    STATUSES,
    TYPES,
    VAGUE,
    by_status,
)
from foreplan.policies.classification import CODES, Rule, classify, failure_from_status, name_of
from foreplan.policies.errors import BadInput
from foreplan.policies.failures import Failure, Happened, Kind, ToolFailure
from foreplan.policies.policies import Policies

NOON = 1_800_000_000
DATE = "Fri, 15 Jan 2027 08:00:00 GMT"
"""Noon, as a header says it."""


class Declined(Exception):
    """A tool's own error."""


class CardDeclined(Declined):
    """A more special one."""


class ApiError(Exception):
    """How an HTTP library reports a response."""

    def __init__(self, status: Any, headers: Any = None) -> None:
        super().__init__("no")
        self.status_code = status
        self.headers = headers


# --- rules of the user


def test_a_rule_of_the_user_comes_first() -> None:
    """One line classifies an exception of one's own, and it holds for what derives from it."""
    policies = Policies(failures={Declined: Rule("business", "declined", "no")})  # type: ignore[dict-item]
    failure = classify(CardDeclined("no money"), rules=policies.failures)
    assert (failure.kind, failure.code, failure.happened) == (Kind.BUSINESS, "declined", Happened.NO)
    assert (failure.message, failure.exception, failure.untrusted) == ("no money", "CardDeclined", True)


def test_the_most_special_rule_decides() -> None:
    """The order in which rules are given does not matter."""
    rules = {
        name_of(Declined): Rule("business", "declined"),
        name_of(CardDeclined): Rule("network", "bank_down"),
    }
    assert classify(CardDeclined(), rules=rules).code == "bank_down"


def test_a_rule_overrides_the_tables_and_keeps_the_facts() -> None:
    """Status and Retry-After stay readable when a rule names another kind."""
    rules = {name_of(ApiError): Rule("business", "quota", "no", retryable=False)}
    failure = classify(ApiError(429, {"Retry-After": "9"}), rules=rules)
    assert (failure.code, failure.status, failure.retry_after, failure.retryable) == (
        "quota",
        429,
        9.0,
        False,
    )


@pytest.mark.parametrize(
    "given",
    [
        Rule("network", "x", "maybe"),
        ("network", "x", "maybe"),
        {"kind": "network", "code": "x", "happened": "maybe"},
    ],
)
def test_rules_are_enums_however_they_are_written(given: Any) -> None:
    """Text becomes a kind; the policies round-trip through JSON."""
    policies = Policies(failures={"bank.Down": given})
    assert policies.failures["bank.Down"] == Rule(Kind.NETWORK, "x", Happened.MAYBE)
    assert isinstance(policies.failures["bank.Down"].kind, Kind)
    assert Policies.model_validate_json(policies.model_dump_json()) == policies


def test_a_misspelt_kind_is_an_error() -> None:
    """A rule is checked when it is made, not when something fails."""
    with pytest.raises(ValueError, match="netwrok"):
        Rule("netwrok", "x")
    with pytest.raises(BadInput, match=r"'netwrok'; it must be .* 'network'"):
        Policies(failures={"bank.Down": ("netwrok", "x")})  # type: ignore[dict-item]


# --- what a tool says itself


def test_a_tool_failure_is_taken_as_it_says() -> None:
    """Nothing is added to what a tool said on purpose."""
    said = ToolFailure(
        "closed",
        kind="permission",
        code="account_closed",
        happened="yes",
        hint="ask",
        retry_after=2,
        details={"a": 1},
    )
    assert classify(said) == Failure(
        Kind.PERMISSION,
        "account_closed",
        "closed",
        Happened.YES,
        "ask",
        "ToolFailure",
        None,
        2,
        "",
        {"a": 1},
        True,
    )


def test_what_a_tool_says_can_be_stored() -> None:
    """A wait that is no number of seconds is none; the words stay, queries of addresses too."""
    assert classify(ToolFailure("no", retry_after=float("nan"))).retry_after is None
    assert classify(ToolFailure("no", retry_after=-1)).retry_after is None
    assert classify(ToolFailure("see http://h/?id=5 \ud800")).message == "see http://h/?id=5 \\ud800"
    assert classify(ToolFailure("")).message == "ToolFailure"


def test_what_no_rule_names_is_a_bug_in_the_tool() -> None:
    """Nobody knows what a bug left behind; where it is, is told."""
    failure = classify(_raised(lambda: [][1]))
    assert (failure.kind, failure.code, failure.happened) == (Kind.BUSINESS, "tool_error", Happened.MAYBE)
    assert failure.details is not None
    assert failure.details["at"].startswith("test_classification.py:")


def _raised(do: Callable[[], object]) -> BaseException:
    try:
        do()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


# --- statuses


def test_every_status_has_a_rule() -> None:
    """A status that no table knows is read by its class: bad arguments from 400, a failing service from 500."""
    for status in range(300, 600):
        failure, rule = classify(ApiError(status)), by_status(status)
        assert (failure.kind, failure.code, failure.happened, failure.status) == (*rule[:3], status)
        assert failure_from_status(status).message.startswith(f"HTTP {status}")
    assert [by_status(n).code for n in (304, 418, 599)] == ["redirected", "bad_request", "server_error"]


def test_a_status_of_a_response_is_a_failure_too() -> None:
    """For tools that read the status themselves: our own words, unless others are given."""
    assert failure_from_status(429, headers={"Retry-After": "3"}, host="h") == Failure(
        Kind.NETWORK, "rate_limited", "HTTP 429 Too Many Requests", status=429, retry_after=3.0, host="h"
    )
    assert failure_from_status(404, message="no such payer").message == "no such payer"


@pytest.mark.parametrize("status", [200, 0, -1, 700, True, "500", None, 500.0])
def test_what_is_no_error_status_says_nothing(status: Any) -> None:
    """A success, or a field that only looks like a status, leaves the exception what it is."""
    assert classify(ApiError(status)).code == "tool_error"


def test_a_code_is_a_status_only_on_what_looks_like_an_http_error() -> None:
    """`sys.exit(404)` and a domain error number 404 are no HTTP responses."""
    numbered = Declined()
    numbered.code = 404  # type: ignore[attr-defined]
    assert classify(numbered).status is None
    assert classify(SystemExit(404)).code == "tool_exit"
    numbered.headers = {}  # type: ignore[attr-defined]
    assert classify(numbered).status == 404


def test_an_error_response_that_is_falsy_is_read_all_the_same() -> None:
    """R2 of the field: `requests.Response` is false for 4xx, and so 403 was once retried like a broken connection."""

    class Response:
        status_code = 403

        def __bool__(self) -> bool:
            return False

    error = Declined()
    error.response = Response()  # type: ignore[attr-defined]
    assert classify(error).kind is Kind.PERMISSION


def test_a_response_may_be_a_dict() -> None:
    """botocore puts the status into the metadata of a dict."""
    error = Declined()
    error.response = {"ResponseMetadata": {"HTTPStatusCode": 429, "HTTPHeaders": {"retry-after": "4"}}}  # type: ignore[attr-defined]
    failure = classify(error)
    assert (failure.code, failure.retry_after) == ("rate_limited", 4.0)


# --- Retry-After


@pytest.mark.parametrize(
    ("headers", "now", "expected"),
    [
        ({"Retry-After": "120"}, None, 120.0),
        ({"retry-after": " 0.5 "}, None, 0.5),
        ({"RETRY-AFTER": 3}, None, 3.0),
        ({"Retry-After": 10**5000}, None, None),
        ({"Retry-After": "0"}, None, 0.0),
        ({"Retry-After": "Fri, 15 Jan 2027 08:00:07 GMT", "Date": DATE}, None, 7.0),
        (
            {"Retry-After": "Fri, 15 Jan 2027 08:00:07 GMT", "Date": DATE},
            NOON + 5000,
            7.0,
        ),  # its own clock counts
        ({"Retry-After": "Friday, 15-Jan-27 08:00:07 GMT", "Date": DATE}, None, 7.0),  # RFC 850
        ({"Retry-After": "Fri Jan 15 08:00:07 2027", "Date": DATE}, None, 7.0),  # asctime
        ({"Retry-After": "Fri, 15 Jan 2027 07:00:00 GMT", "Date": DATE}, None, 0.0),  # past
        ({"Retry-After": "Fri, 15 Jan 2027 08:00:07 GMT"}, NOON + 3.0, 4.0),
        ({"Retry-After": "Fri, 15 Jan 2027 08:00:07 GMT"}, None, None),
        ({"Retry-After": "-1"}, None, None),
        ({"Retry-After": "nan"}, None, None),
        ({"Retry-After": "1e999"}, None, None),
        ({"Retry-After": "soon"}, NOON, None),
        ({"Retry-After": "Fri, 99 Jan 99999 08:00:07 GMT", "Date": DATE}, None, None),
        ({"Retry-After": ""}, NOON, None),
        ({"Retry-After": b"7"}, None, None),
        ({}, NOON, None),
        (None, NOON, None),
        ("Retry-After: 7", NOON, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(headers: Any, now: float | None, expected: float | None) -> None:
    """Seconds as they are, a date by the clock of who sent it, nonsense not at all (RFC 9110, 10.2.3)."""
    assert classify(ApiError(503, headers), now=now).retry_after == expected
    assert failure_from_status(503, headers=headers, now=now).retry_after == expected


@given(st.text())
def test_no_retry_after_breaks_the_classification(text: str) -> None:
    """Whatever a service sends, the wait is none or a number that is not negative."""
    wait = failure_from_status(429, headers={"Retry-After": text, "Date": DATE}).retry_after
    assert wait is None or 0 <= wait < float("inf")


# --- groups and causes


def test_a_group_is_the_gravest_of_its_members() -> None:
    """What is never retried comes before what is; what any member may have done may have happened."""
    group = ExceptionGroup(
        "", [TimeoutError("late"), ExceptionGroup("", [PermissionError(13, "no")]), KeyError("x")]
    )
    failure = classify(group)
    assert (failure.kind, failure.code, failure.happened) == (
        Kind.PERMISSION,
        "access_denied",
        Happened.MAYBE,
    )
    assert failure.exception == "PermissionError"
    assert failure.message == "[Errno 13] no (with 2 more: TimeoutError, KeyError)"


def test_a_member_that_was_only_cancelled_does_not_count() -> None:
    """The cancelled siblings of the task that failed say nothing about the failure."""
    import asyncio

    group = BaseExceptionGroup("", [asyncio.CancelledError(), ConnectionRefusedError("refused")])
    assert classify(group) == classify(group.exceptions[1])
    assert classify(BaseExceptionGroup("", [asyncio.CancelledError()])).code == "tool_cancelled"


def test_the_longest_wait_of_a_group_counts() -> None:
    """Two limits were hit: both want to be kept."""
    group = ExceptionGroup("", [ApiError(429, {"Retry-After": "3"}), ApiError(429, {"Retry-After": "9"})])
    assert classify(group).retry_after == 9.0


def test_only_a_named_cause_is_followed() -> None:
    """`raise … from` says what the error is about; an error that another error ran into does not."""
    named, unnamed = Declined("no"), Declined("no")
    named.__cause__ = unnamed.__context__ = ApiError(404)
    assert (classify(named).code, classify(named).message, classify(named).exception) == (
        "not_found",
        "no",
        "Declined",
    )
    assert classify(unnamed).code == "tool_error"


def test_causes_in_a_circle_come_to_an_end() -> None:
    """Neither a circle, nor a chain without end, nor many arguments that are exceptions cost more than a moment."""
    first, second = Declined(), Declined()
    first.args, second.args = (second, second, first), (first, first)
    first.__cause__, second.__cause__ = second, first
    assert classify(first).code == "tool_error"
    chain: BaseException = ApiError(404)
    for _ in range(10_000):
        longer = Declined()
        longer.__cause__ = chain
        chain = longer
    assert classify(chain).code == "tool_error"


def test_groups_within_groups_come_to_an_end() -> None:
    """Nested deeper than Python's stack, wider than anyone reads."""
    group: Exception = TimeoutError("late")
    for _ in range(5_000):
        group = ExceptionGroup("", [group])
    assert classify(group).code == "timed_out"
    assert "199 more" not in classify(ExceptionGroup("", [TimeoutError()] * 200)).message


# --- words


class Silent(Exception):
    """An exception that fails when it is asked."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    @property
    def response(self) -> object:
        raise RuntimeError("no response")

    @property
    def status_code(self) -> int:
        raise KeyError("status")


@pytest.mark.parametrize(
    "error",
    [Declined(), Declined(""), Declined("  \n"), Silent(), TimeoutError(), ExceptionGroup("", [Declined()])],
)
def test_a_message_is_never_empty(error: BaseException) -> None:
    """Where the exception has no words, or fails to find them, its class speaks."""
    failure = classify(error)
    assert failure.message in ("Declined", "Silent", "TimeoutError")
    assert failure.exception == failure.message


@given(st.text(st.characters(), max_size=50))
def test_a_message_can_be_stored_anywhere(text: str) -> None:
    """Lone surrogates, which no codec takes, become visible; everything else stays or is cut at the ends."""
    failure = classify(Declined(text))
    failure.message.encode()
    assert Failure.from_json(json.loads(json.dumps(failure.to_json()))) == failure


def test_a_message_is_bounded() -> None:
    """A tool that puts a whole page into its error does not put it into the journal."""
    assert len(classify(Declined("x" * 10_000_000)).message) == 2000
    assert len(classify(Declined("a?" * 5_000_000)).message) <= 2000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "404 for url: https://me:secret@api.example.com/x?token=secret&b=1",
            "404 for url: https://api.example.com/x?…",
        ),
        (
            "Max retries exceeded with url: /x?key=secret (Caused by it)",
            "Max retries exceeded with url: /x?… (Caused by it)",
        ),
        ("for url 'http://h/?a=secret'", "for url 'http://h/?…'"),
        ("<HTTPConnection object at 0x7f00deadbeef>: refused", "<HTTPConnection object>: refused"),
        ("is it so? a=b", "is it so? a=b"),
        ("why? because", "why? because"),
        ("write to me@example.com", "write to me@example.com"),
    ],
)
def test_credentials_and_queries_of_addresses_are_dropped(text: str, expected: str) -> None:
    """HTTP libraries put the whole URL into their messages, and secrets are put into URLs."""
    assert classify(Declined(text)).message == expected


def test_a_command_line_is_not_repeated() -> None:
    """The program and its status are told; its arguments, which may hold a secret, are not."""
    error = subprocess.CalledProcessError(3, ["/usr/bin/curl", "--token", "secret"], stderr=b"no route\xff")
    failure = classify(error)
    assert failure.message == "curl ended with exit status 3"
    assert failure.details == {"exit_status": 3, "stderr": "no route\\xff"}
    assert (
        classify(subprocess.TimeoutExpired("curl --token secret", 1.5)).message
        == "curl did not end within 1.5 seconds"
    )


def test_a_value_that_does_not_fit_is_not_repeated() -> None:
    """Where and why a model refuses a value is told; the value is not."""

    class Login(pydantic.BaseModel):
        pin: int

    failure = classify(_raised(lambda: Login.model_validate({"pin": "secret"})))
    assert failure.message.startswith("pin: Input should be a valid integer")
    assert "secret" not in json.dumps(failure.to_json())
    assert failure.details is not None
    assert failure.details["problems"][0]["at"] == "pin"


# --- hosts


def _error(**attributes: Any) -> Exception:
    error = Declined("no")
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


class Place:
    """Anything with a URL or a host."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


@pytest.mark.parametrize(
    "error",
    [
        _error(request=Place(url=Place(host="API.example.com"))),
        _error(request=Place(url="https://me:secret@api.example.com:8443/x?y=z")),
        _error(request_info=Place(real_url=Place(host="api.example.com"))),
        _error(response=Place(url="https://api.example.com/")),
        _error(conn=Place(host="api.example.com")),
        _error(pool=Place(host="api.example.com")),
        _error(host="api.example.com"),
    ],
)
def test_the_host_is_read_where_libraries_put_it(error: Exception) -> None:
    """Lower case, no port, no credentials: what a gate per host is keyed by."""
    assert classify(error).host == "api.example.com"


@pytest.mark.parametrize(
    "error", [_error(host=7), _error(url="http://[::1"), _error(url=b"http://a/"), Declined()]
)
def test_no_host_is_an_empty_string(error: Exception) -> None:
    """What cannot be read is not guessed."""
    assert classify(error).host == ""


# --- the tables


def _rules() -> list[Rule]:
    tables = (TYPES, CARRIERS, STATUSES, ERRNOS, SPECIAL)
    return [rule for table in tables for rule in table.values()] + [rule for _, rule in SQLITE.values()]


def test_every_code_is_explained_and_every_explanation_used() -> None:
    """`CODES` is complete: a code without a meaning helps nobody, a meaning without a cause misleads."""
    assert {rule.code for rule in _rules()} | {"refused"} == set(CODES)
    assert all(meaning and "\n" not in meaning and not meaning.endswith(".") for meaning in CODES.values())


def test_every_kind_has_a_remedy_and_a_cause() -> None:
    """The five kinds, no more."""
    assert set(REMEDIES) == set(Kind) == {rule.kind for rule in _rules()}


def test_a_code_belongs_to_one_kind() -> None:
    """`code` refines `kind`: whoever reads the code alone is not misled."""
    kinds: dict[str, set[Kind]] = {}
    for rule in _rules():
        kinds.setdefault(rule.code, set()).add(rule.kind)
    assert {code: found for code, found in kinds.items() if len(found) > 1} == {}


def test_the_tables_do_not_contradict_each_other() -> None:
    """A type stands in one table, and what is open is a carrier."""
    assert not set(TYPES) & set(CARRIERS)
    assert set(CARRIERS) >= OPEN
    assert set(CODES) >= VAGUE


def test_wrong_arguments_and_missing_permission_leave_nothing_behind() -> None:
    """The design's promise for these two kinds: the effect has not taken place."""
    assert all(r.happened is Happened.NO for r in _rules() if r.kind in (Kind.BAD_ARGS, Kind.PERMISSION))


RECENT = {"anyio.ConnectionFailed"}
"""Rows that older supported versions of a library do not have."""


@pytest.mark.filterwarnings("ignore:.*Pydantic V1")
@pytest.mark.parametrize("name", sorted({**TYPES, **CARRIERS}))
def test_a_named_type_exists(name: str) -> None:
    """A misspelt row would never be found."""
    import importlib

    module, _, _ = name.rpartition(".")
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        if name in RECENT and not hasattr(found, parts[-1]):
            pytest.skip(f"this version of {parts[0]} does not have it yet")
        for part in parts[cut:]:
            found = getattr(found, part)
        assert issubclass(found, BaseException)
        return
    pytest.skip(f"{module} is not installed")


def test_no_library_is_imported_for_it() -> None:
    """Classifying costs nobody the import of a library that they do not use."""
    code = """
import sys
from foreplan.policies.classification import classify, failure_from_status
classify(KeyError("x")); classify(OSError(28, "full")); failure_from_status(429, headers={"Retry-After": DATE, "Date": DATE})
print(sorted({name.partition(".")[0] for name in sys.modules} & LIBRARIES))
"""
    libraries = {
        "httpx",
        "httpcore",
        "requests",
        "aiohttp",
        "urllib3",
        "anyio",
        "trio",
        "jsonschema",
        "yaml",
        "sqlite3",
        "pydantic_core",
        "asyncio",
        "subprocess",
    }
    code = f"LIBRARIES = {libraries!r}\nDATE = {DATE!r}\n{code}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
