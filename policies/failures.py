"""A step's failure is a value with one of five kinds; `code` refines, `happened` says whether the effect may stand.

kind        never retried   retried if repeatable   retried if happened is "no"
bad_args    x
permission  x
timeout                     x                       x
network                     x                       x
business    x
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

__all__ = ["Failure", "Happened", "Kind", "ToolFailure"]


class Kind(StrEnum):
    """What went wrong, coarsely enough that a remedy follows from it."""

    BAD_ARGS = "bad_args"
    PERMISSION = "permission"
    TIMEOUT = "timeout"
    NETWORK = "network"
    BUSINESS = "business"


class Happened(StrEnum):
    """Whether the call's effect has taken place in the world."""

    NO = "no"
    MAYBE = "maybe"
    YES = "yes"


class Failure(NamedTuple):
    """One failure, as plain data. `message` is never empty; `untrusted` marks text that a tool wrote.

    `retry_after` is in seconds. `details` is plain JSON.
    """

    kind: Kind
    code: str
    message: str
    happened: Happened = Happened.NO
    hint: str = ""
    exception: str = ""
    status: int | None = None
    retry_after: float | None = None
    host: str = ""
    details: Mapping[str, Any] | None = None
    untrusted: bool = False
    retryable: bool = True
    """False where repeating cannot help although the kind would allow it (TLS, NXDOMAIN)."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, without the fields that say nothing."""
        document: dict[str, Any] = {"kind": self.kind.value, "code": self.code, "message": self.message}
        document["happened"] = self.happened.value
        for name, default in Failure._field_defaults.items():
            value = getattr(self, name)
            if name != "happened" and value != default:
                document[name] = value
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Failure:
        """The inverse of `to_json`."""
        rest = {k: v for k, v in document.items() if k not in ("kind", "happened")}
        return cls(kind=Kind(document["kind"]), happened=Happened(document["happened"]), **rest)


class ToolFailure(Exception):
    """What a tool raises to say no on purpose: a domain error with structured details.

    `raise ToolFailure("the account is closed", code="account_closed", details={"account": "A7"})`
    """

    def __init__(
        self,
        message: str,
        *,
        kind: Kind | str = Kind.BUSINESS,
        code: str = "refused",
        happened: Happened | str = Happened.NO,
        hint: str = "",
        retry_after: float | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = Kind(kind)
        self.code = code
        self.happened = Happened(happened)
        self.hint = hint
        self.retry_after = retry_after
        self.details = details
