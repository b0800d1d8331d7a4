"""What a check says: findings with stable codes, and the one table of those codes.

    document   syntax, duplicate_key, ... unknown_property      it cannot be read as a plan
    structure  duplicate_id, cycle, ... unordered_effects       the steps do not fit each other
    tools      unknown_tool, missing_argument, permission ...   the steps do not fit the tools
    references bad_expression, unknown_step, wrong_type ...     the data do not fit
    answers    bad_answer cut_off                               what a model said is no document at all

The docs page of codes is printed from `CODES`, so a code without a row there cannot be raised.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from ..policies.errors import BadInput
from ..policies.text import safe_text, shorten

__all__ = [
    "CODES",
    "CheckFailed",
    "CodeDoc",
    "Finding",
    "PlanUnreadable",
    "Report",
    "Severity",
    "pointer_to",
    "quoted",
    "split_pointer",
]

Severity = Literal["error", "warning", "info"]
"""An error keeps a plan from running; a warning is shown before approval; an info only explains."""


class CodeDoc(NamedTuple):
    """What one code means, for the docs and for `--json` readers."""

    severity: Severity
    meaning: str
    remedy: str


CODES: dict[str, CodeDoc] = {
    # document
    "syntax": CodeDoc("error", "The text is neither JSON nor YAML.", "Mend the text at the place shown."),
    "yaml_feature": CodeDoc(
        "error",
        "The YAML uses an anchor, alias, tag, merge key or second document.",
        "Write the value out in full; a plan is plain JSON in YAML's clothes.",
    ),
    "duplicate_key": CodeDoc("error", "An object says one key twice.", "Keep one of the two."),
    "bad_number": CodeDoc(
        "error",
        "A number is NaN, infinite, or too long to be read exactly.",
        "Write a finite number, or text.",
    ),
    "bad_text": CodeDoc(
        "error", "A text holds half a surrogate pair, or the file is not UTF-8.", "Save the file as UTF-8."
    ),
    "not_json": CodeDoc(
        "error",
        "A value handed in from Python is not plain JSON.",
        "Use None, bool, int, float, str, list, dict.",
    ),
    "too_large": CodeDoc("error", "The document or the plan is larger than the cap.", "Split the job."),
    "too_deep": CodeDoc("error", "Values are nested deeper than the cap.", "Nest less."),
    "unknown_property": CodeDoc(
        "error", "The plan document has no such property.", "Use the name suggested, or remove it."
    ),
    "missing_property": CodeDoc("error", "The document lacks a required property.", "Add it."),
    "wrong_property": CodeDoc(
        "error", "A property of the document has another type.", "Write the type named."
    ),
    # structure
    "no_steps": CodeDoc(
        "warning",
        "The plan has no step: it does nothing.",
        "Add a step, or answer that it cannot be planned.",
    ),
    "bad_id": CodeDoc(
        "error", "A name is not of the form [a-z][a-z0-9_]*.", "Use lower-case letters, digits, underscores."
    ),
    "reserved_id": CodeDoc(
        "error",
        "A name is a keyword, a function, or a name the language uses itself.",
        "Choose another name.",
    ),
    "duplicate_id": CodeDoc(
        "error", "Two steps have the same id.", "Rename one; ids are unique in the plan."
    ),
    "tool_or_value": CodeDoc(
        "error",
        "A step has none of `tool`, `value` and `steps`, or more than one.",
        "A step calls a tool, computes a value, or is a group of steps.",
    ),
    "args_without_tool": CodeDoc(
        "error",
        "A step that calls no tool has `args`.",
        "Write the arguments into the expression, or into the steps.",
    ),
    "empty_group": CodeDoc("warning", "A group has no step inside.", "Put steps into it, or drop it."),
    "groups_too_deep": CodeDoc(
        "error", "Groups stand inside groups deeper than three.", "Move the innermost steps one group out."
    ),
    "output_without_steps": CodeDoc(
        "error",
        "A step that is no group says `output`.",
        "Leave it out; the result of a step is what it gives.",
    ),
    "group_without_output": CodeDoc(
        "error",
        "The result of a group is used, and the group has no `output`.",
        "Say in `output` what outside may see.",
    ),
    "no_call": CodeDoc(
        "error",
        "A step that calls no tool says `until`, `next`, `every`, `max` or `undo`.",
        "Say it at the step that makes the call.",
    ),
    "without_until": CodeDoc(
        "error",
        "`next`, `every` or `max` stand where nothing is repeated.",
        "Add `until`, or leave them out.",
    ),
    "bad_max": CodeDoc(
        "error",
        "A step that repeats has no bound, or a bound that is none.",
        "Say in `max` how often it calls at most; with `each` the list is the bound.",
    ),
    "bad_every": CodeDoc("error", "`every` is no time to wait.", "Give seconds, 0 or more."),
    "repeats_effect": CodeDoc(
        "error",
        "An effect that cannot be repeated is repeated with the same arguments.",
        "Let `next` change an argument by `result`, or name the item of `each` in the arguments.",
    ),
    "until_never_changes": CodeDoc(
        "warning",
        "`until` looks at nothing that changes from call to call.",
        "Ask for something in `result`.",
    ),
    "undo_of_read": CodeDoc(
        "warning", "A step that only reads says `undo`.", "Leave it out: there is nothing to take back."
    ),
    "without_undo": CodeDoc(
        "info",
        "A step acts, its tool says what takes that back, and the step does not; something may fail after it.",
        "Say in `undo` how it is taken back, if it should be.",
    ),
    "as_without_each": CodeDoc("error", "`as` names the item of an `each` that is not there.", "Add `each`."),
    "as_shadows": CodeDoc("error", "`as` gives the item the name of a step.", "Choose another name."),
    "unknown_step": CodeDoc("error", "No step has this name.", "Use the name suggested, or add the step."),
    "inside_group": CodeDoc(
        "error",
        "A step inside a group is named from outside.",
        "Outside sees only the group's `output`; add it there.",
    ),
    "after_elsewhere": CodeDoc(
        "error",
        "`after` names a step that stands in another group, or outside of this one.",
        "Wait for steps of the same group; let the group wait for what is outside.",
    ),
    "self_reference": CodeDoc("error", "A step waits for itself.", "Refer to the step that makes the value."),
    "cycle": CodeDoc("error", "Steps wait for each other in a ring.", "Break the ring at one reference."),
    "unused_result": CodeDoc(
        "warning",
        "A step that only reads or computes gives a result nobody uses.",
        "Use it, or drop the step.",
    ),
    "may_be_skipped": CodeDoc(
        "warning",
        "A value is taken from a step that may be skipped; this step is skipped with it.",
        "Ask `x is None` first, or give both steps the same `when`.",
    ),
    "unordered_effects": CodeDoc(
        "warning",
        "Two calls with effects on the same tool may run in either order.",
        "Say `after` where the order matters.",
    ),
    # batches
    "per_unsaid": CodeDoc(
        "error",
        "In a batch: a step that is the same for every row has an effect, and does not say how often.",
        "Say `per: batch` (once for all rows) or `per: row`.",
    ),
    "per_row": CodeDoc(
        "error", "In a batch: a step is to run once for all rows, and depends on the row.", "Leave `per` out."
    ),
    "per_inside": CodeDoc(
        "error",
        "In a batch: a step inside a group says `per`.",
        "Say it at the group, which runs as a whole.",
    ),
    # tools
    "unknown_tool": CodeDoc("error", "No tool has this name.", "Use one of the tools that are offered."),
    "unknown_argument": CodeDoc("error", "The tool takes no such argument.", "Use the name suggested."),
    "json_as_text": CodeDoc(
        "warning",
        "An argument that is an object or a list was written as JSON inside a text; the run reads it once.",
        "Write it as JSON.",
    ),
    "missing_argument": CodeDoc("error", "A required argument is not given.", "Give it."),
    "wrong_argument": CodeDoc(
        "error", "A literal argument does not satisfy the tool's schema.", "Give a value that does."
    ),
    "secret_argument": CodeDoc(
        "error", "The engine fills this argument with a secret; no plan may give it.", "Leave it out."
    ),
    "bad_result_schema": CodeDoc(
        "error",
        "The arguments that say what the result of a call is do not say it.",
        "Give a JSON Schema, or a list to choose from.",
    ),
    "permission": CodeDoc(
        "error", "The principal lacks a permission that the tool needs.", "Run as someone who holds it."
    ),
    "level_too_high": CodeDoc(
        "error", "The tool is of a level that the policy does not allow.", "Find another way."
    ),
    "approval_needed": CodeDoc(
        "info", "Someone must approve this plan before it runs.", "Review and approve it."
    ),
    "over_budget": CodeDoc(
        "error", "The plan needs more calls, or more of one tool, than the budget holds.", "Plan fewer calls."
    ),
    "may_exceed_budget": CodeDoc(
        "warning", "The plan may need more calls than the budget holds.", "Bound `each`, or raise the budget."
    ),
    # references
    "bad_expression": CodeDoc(
        "error",
        "An expression is not in the language.",
        "Mend it at the place shown; see the language reference.",
    ),
    "bad_template": CodeDoc(
        "error",
        "`$` stands beside other keys, or holds no text.",
        "Write {$: expression} or {$literal: ...}.",
    ),
    "unknown_input": CodeDoc(
        "error", "The plan declares no such input.", "Use the name suggested, or declare it."
    ),
    "unknown_field": CodeDoc("error", "The value has no such field.", "Use the name suggested."),
    "always_default": CodeDoc(
        "warning", "`.get()` asks for a field that is not declared.", "Use a declared field, or leave it out."
    ),
    "may_be_null": CodeDoc(
        "warning", "A value that may be null is used as if it were not.", "Ask `x is not None` first."
    ),
    "never_equal": CodeDoc(
        "warning", "A comparison always comes out the same.", "Compare values that can be equal."
    ),
    "looks_like_reference": CodeDoc(
        "warning",
        "A text looks like a reference of another language; it is passed on as it stands.",
        "Write {$: expression}, or leave it where the text is meant.",
    ),
    "made_up": CodeDoc(
        "warning",
        "An effect gets an address, an id or an amount that occurs neither in the goal nor in the inputs.",
        "Take it from a result, or say it in the goal or the inputs.",
    ),
    "quoted_command": CodeDoc(
        "warning",
        "An effect gets an address, an id or an amount that occurs only in a text that the goal quotes.",
        "Look whether the goal itself asks for the call; what is quoted is data.",
    ),
    "condition_ignored": CodeDoc(
        "warning",
        'The goal says "if", and no effect of the plan depends on anything.',
        "Give the step a `when`, or `each` over what was chosen.",
    ),
    "unknown_type": CodeDoc(
        "info",
        "A tool does not describe what it gives, so what reads it is not checked.",
        "Declare an output schema.",
    ),
    "item_outside_each": CodeDoc(
        "error",
        "The item or its index is named where there is none.",
        "Use it in `args`, `value` or `when`, or inside the group.",
    ),
    "result_elsewhere": CodeDoc(
        "error", "`result` stands where a step has none yet.", "Use it in `until`, `next` and `undo`."
    ),
    "wrong_type": CodeDoc(
        "error", "A value can never be of the type that is needed.", "Refer to the value that is meant."
    ),
    "always_fails": CodeDoc(
        "error", "A value that depends on nothing unknown cannot be computed.", "Mend the expression."
    ),
    "heavy_value": CodeDoc(
        "warning",
        "Constant values of the plan are larger than a check computes.",
        "Compute less, or give it to a tool.",
    ),
    "not_a_list": CodeDoc(
        "error", "`each` stands over something that is never a list.", "Refer to the list."
    ),
    "not_boolean": CodeDoc(
        "error", "`when` or `until` is something that is never a boolean.", "Write a comparison."
    ),
    "bad_inputs": CodeDoc(
        "error",
        "`inputs` is not a JSON Schema of an object, or is refused.",
        "Write {type: object, properties: ...}.",
    ),
    "bad_default": CodeDoc(
        "error", "A default does not satisfy its own schema.", "Give a default that does."
    ),
    # patches
    "same_patch": CodeDoc("error", "A patch was proposed before, to the letter.", "Propose another way."),
    "refused": CodeDoc("error", "The on_replan hook refused a patch.", "Propose another way."),
    "rejected": CodeDoc("error", "A person refused a patch.", "Propose another way, or answer cannot_plan."),
    "bad_patch": CodeDoc(
        "error", "A patch drops, replaces or reuses what it may not.", "Name unsettled steps and fresh ids."
    ),
    "row_literal": CodeDoc(
        "error",
        "A patch for many rows of a batch holds a value of one of them.",
        "Take it from `inputs` or a result, by an expression.",
    ),
    # answers of a model
    "bad_answer": CodeDoc(
        "error",
        "The model's answer is not the one JSON object that was asked for.",
        "Send that object and nothing else.",
    ),
    "cut_off": CodeDoc(
        "error", "The model's answer ends before it is complete.", "Allow a longer answer, or plan less."
    ),
}


class Finding(NamedTuple):
    """One thing a check says. `pointer` is a JSON Pointer (RFC 6901) into the document; lines and columns count from 1."""

    code: str
    severity: Severity
    pointer: str
    message: str
    suggestion: str = ""
    line: int | None = None
    column: int | None = None
    excerpt: str = ""
    """The line of the source with a caret under the place, where the source is at hand."""
    offset: int | None = None
    """Where the pointer leads to an expression: the place in its text, in characters from 0."""
    corrected: str = ""
    """The line of the source as it should be, where the suggestion fits into it and the source is at hand."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, without the fields that say nothing."""
        return {k: v for k, v in self._asdict().items() if v not in ("", None) or k in ("pointer", "message")}

    def __str__(self) -> str:
        place = f"{self.line}:{self.column}" if self.line and self.column else self.pointer or "the plan"
        end = f" ({self.suggestion})" if self.suggestion else ""
        text = f"{place}: {self.severity}: {self.message}{end} [{self.code}]"
        return safe_text(f"{text}\n{self.excerpt}" if self.excerpt else text)


class Report(NamedTuple):
    """Everything a check found, in the order of the plan, and the digest of the plan it was found in."""

    findings: tuple[Finding, ...]
    plan_digest: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing stands in the way: no error; warnings do not count."""
        return not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        return self._of("error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return self._of("warning")

    def _of(self, severity: Severity) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.severity == severity)

    def to_json(self) -> dict[str, Any]:
        findings = [f.to_json() for f in self.findings]
        return {"ok": self.ok, "plan_digest": self.plan_digest, "findings": findings}

    def __str__(self) -> str:
        if not self.findings:
            return "the plan checks: nothing to say"
        return "\n".join(str(f) for f in sorted(self.findings, key=_gravity))


class PlanUnreadable(BadInput, ValueError):
    """A document that is no plan: `findings` say where and why."""

    def __init__(self, findings: Iterable[Finding], title: str = "the plan cannot be read") -> None:
        self.findings = tuple(findings)
        super().__init__(_sentence(title, self.findings))


class CheckFailed(BadInput):
    """A plan with errors: `report` holds all of them."""

    def __init__(self, report: Report) -> None:
        self.report = report
        super().__init__(_sentence("the plan does not check", report.errors))


def pointer_to(*parts: str | int, within: str = "") -> str:
    """The JSON Pointer of these keys and indices, under the pointer `within`."""
    return within + "".join("/" + str(p).replace("~", "~0").replace("/", "~1") for p in parts)


def split_pointer(pointer: str) -> tuple[str, ...]:
    """The keys and indices of a JSON Pointer, as text."""
    return tuple(p.replace("~1", "/").replace("~0", "~") for p in pointer.split("/")[1:])


def quoted(name: object) -> str:
    """A name as it stands in a sentence: in quotes, safe, at most sixty characters."""
    return repr(shorten(name, 60))


def _gravity(finding: Finding) -> int:
    return ("error", "warning", "info").index(finding.severity)


def _sentence(what: str, findings: tuple[Finding, ...]) -> str:
    if not findings:
        return what
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return f"{what}: {findings[0]}{more}"
