"""The failure table of `failures.md`, written from the tables in `foreplan.policies.causes`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from foreplan.policies.causes import (
    CARRIERS,
    CODES,
    ERRNO_NAMES,
    OPEN,
    REMEDIES,
    SPECIAL,
    SQLITE,
    STATUSES,
    TYPES,
    UNBEGUN,
    Rule,
)
from foreplan.policies.failures import Kind

__all__ = ["failure_table", "remedy_table", "unbegun_table"]

_PUBLIC = {
    "builtins.": "",
    "json.decoder.": "json.",
    "asyncio.exceptions.": "asyncio.",
    "concurrent.futures._base.": "concurrent.futures.",
    "requests.exceptions.": "requests.",
    "urllib3.exceptions.": "urllib3.",
    "aiohttp.client_exceptions.": "aiohttp.",
    "aiohttp.http_exceptions.": "aiohttp.http_exceptions.",
    "jsonschema.exceptions.": "jsonschema.",
    "pydantic_core._pydantic_core.": "pydantic.",
    "yaml.error.": "yaml.",
    "_csv.": "csv.",
    "_lzma.": "lzma.",
}
"""Where a class is defined -> where people import it from."""

_SPECIAL = {
    "unknown host": "`socket.gaierror` (EAI_NONAME)",
    "DNS down": "`socket.gaierror`",
    "TLS handshake": "`ssl.SSLError` (in the handshake)",
    "TLS": "`ssl.SSLError`",
    "killed": "`subprocess.CalledProcessError` (by a signal)",
    "mail later": "SMTP 4xx",
    "mail refused": "SMTP 5xx",
    "bad URL": "`urllib.error.URLError` (without a cause)",
}


def remedy_table() -> str:
    """Each kind with what follows from it."""
    rows = [f"| `{kind.value}` | {remedy} |" for kind, remedy in REMEDIES.items()]
    return "\n".join(["| kind | what foreplan does |", "|---|---|", *rows])


def unbegun_table() -> str:
    """The codes of calls that the engine ended before they began."""
    rows = [f"| `{code}` | `{kind.value}` | {why} |" for code, (kind, why) in UNBEGUN.items()]
    return "\n".join(["| code | kind | why the call was not begun |", "|---|---|---|", *rows])


def failure_table() -> str:
    """Per kind: code, meaning, whether it happened, causes.

    One star: kind and code come from the cause, if that tells more. Two: `happened` too.
    """
    causes: dict[Rule, list[str]] = defaultdict(list)
    for rule, cause in _causes():
        causes[rule].append(cause)
    return "\n\n".join(_section(kind, causes) for kind in Kind)


def _causes() -> Iterator[tuple[Rule, str]]:
    yield from ((rule, f"HTTP {status}") for status, rule in STATUSES.items())
    yield from ((rule, f"errno {', '.join(names.split())}") for names, rule in ERRNO_NAMES.items())
    yield from ((rule, f"SQLite {name}") for name, rule in SQLITE.values())
    yield from ((rule, _SPECIAL[name]) for name, rule in SPECIAL.items())
    yield from ((rule, f"`{_public(name)}`") for name, rule in TYPES.items())
    yield from ((rule, f"`{_public(name)}`{_stars(name)}") for name, rule in CARRIERS.items())


def _stars(name: str) -> str:
    return r"\*\*" if name in OPEN else r"\*"


def _public(name: str) -> str:
    prefix = next((p for p in _PUBLIC if name.startswith(p)), "")
    return _PUBLIC.get(prefix, "") + name.removeprefix(prefix)


def _section(kind: Kind, causes: dict[Rule, list[str]]) -> str:
    order = list(CODES)
    rules = sorted(
        (r for r in causes if r.kind is kind),
        key=lambda r: (order.index(r.code), r.happened, not r.retryable),
    )
    head = [f"### `{kind.value}`", "", "| code | meaning | happened | causes |", "|---|---|---|---|"]
    return "\n".join([*head, *(_row(rule, causes[rule]) for rule in rules)])


def _row(rule: Rule, causes: list[str]) -> str:
    never = "" if rule.retryable else " (not retried)"
    return f"| `{rule.code}` | {CODES[rule.code]}{never} | {rule.happened.value} | {', '.join(dict.fromkeys(causes))} |"
