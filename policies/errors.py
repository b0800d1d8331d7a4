"""A caller's mistakes, as exceptions; a step's failure is a value (see `failures.py`).

ForeplanError
├── BadInput            something handed in cannot be used: a document, an option, a module, inputs
│   ├── PlanUnreadable  a plan document that is no plan (`.findings`)
│   ├── CheckFailed     a plan with errors (`.report`)
│   ├── RowsRefused     rows of a strict batch that cannot run (`.findings`)
│   ├── ToolRefused     a tool that cannot be registered
│   ├── SchemaRefused   a JSON Schema that is invalid or hostile
│   ├── SecretRefused   a text that is no good as a secret
│   ├── UnknownTool     a name no tool has (`.name`, `.nearest`)
│   └── UnknownRun      an id no run has
├── NotApproved         an approval is missing or binds something else (`.differences`)
├── CannotPlan          the planner says the goal cannot be reached with these tools (`.reason`)
├── SecretMissing       nobody has a secret of this name
└── JournalError        nothing more can be recorded, so nothing more is started
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .text import with_article

__all__ = [
    "BadInput",
    "CannotPlan",
    "ForeplanError",
    "JournalError",
    "NotApproved",
    "SchemaRefused",
    "SecretMissing",
    "SecretRefused",
    "ToolRefused",
    "UnknownRun",
    "UnknownTool",
    "expect",
]


class ForeplanError(Exception):
    """Root of every exception foreplan raises on purpose; `str()` is a sentence with the next move."""


class BadInput(ForeplanError):
    """Something handed in cannot be used (exit code 2 at the command line)."""


def expect(kind: type[Any], value: object, what: str, hint: str = "") -> None:
    """Raises `BadInput` where `value`, which is called `what`, is of another type; `hint` says what to do instead."""
    if not isinstance(value, kind):
        said = f"{what} must be {with_article(kind.__name__)}, not {type(value).__name__}"
        raise BadInput(f"{said}; {hint}" if hint else said)


class ToolRefused(BadInput):
    """A tool cannot be registered: its name, a parameter, a schema or an option is wrong."""


class SchemaRefused(BadInput):
    """A JSON Schema is invalid or hostile: remote `$ref`, endless recursion, catastrophic pattern."""

    def __init__(self, message: str, *, pointer: str = "") -> None:
        super().__init__(message)
        self.pointer = pointer


class SecretRefused(BadInput):
    """A text is no good as a secret: too short to be told apart from other text. Never says the text."""


class UnknownTool(BadInput):
    """No tool has this name; `nearest` holds permitted names that look alike."""

    def __init__(self, name: str, nearest: Sequence[str] = ()) -> None:
        guess = f"; did you mean {' or '.join(repr(n) for n in nearest)}?" if nearest else ""
        super().__init__(f"no tool is called {name!r}{guess}")
        self.name = name
        self.nearest = tuple(nearest)


class UnknownRun(BadInput):
    """No run in this journal has this id."""


class NotApproved(ForeplanError):
    """The run may not start: an approval is missing, spent, expired, or binds something else (exit code 3).

    `plan` is the one that was made for it, where `plan_and_run` made one: to be reviewed, approved and run.
    """

    def __init__(self, message: str, *, differences: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.differences = tuple(differences)
        self.plan: Any = None


class CannotPlan(ForeplanError):
    """The planner says that the goal cannot be reached with the tools it was shown."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the planner cannot plan this: {reason}")
        self.reason = reason


class SecretMissing(ForeplanError, LookupError):
    """Raised by what resolves secrets where it has none of this name (`.ref`); says where it looked, never a value."""

    def __init__(self, ref: str, looked: str = "") -> None:
        super().__init__(f"there is no secret {ref!r}{f'; {looked}' if looked else ''}")
        self.ref = ref


class JournalError(ForeplanError):
    """The journal cannot record: nothing new is started, nothing acknowledged is lost."""
