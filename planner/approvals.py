"""An approval binds exactly what was shown; a run refuses where anything bound differs, and says what.

    plan ........ digest of the canonical document
    tools ....... for each tool of the plan its contract, part by part: schemas, effect, permissions, version, source
    policies .... every rule and bound, the budget among them
    principal ... on whose behalf, with roles and permissions
    inputs ...... one digest, or a batch: a row limit and, if given, the digest of the source
    expiry, scope, and an id that one run or batch uses up

The file is JSON and holds its own digest, so that an edit made by accident is seen. Whoever can write the file can write
another one, unless it is signed and the engine says whose signatures count (`unproven`).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..policies.canonical import canonical, digest
from ..policies.effect import Effect
from ..policies.errors import BadInput
from ..policies.expressions import EvaluationError, Expression, compile_template, rename_in
from ..policies.permissions import ANYONE, Principal
from ..policies.policies import Policies
from ..policies.signing import Signer, Verifier
from ..policies.text import did_you_mean
from ..registry.registry import Registry
from ..registry.tools import Tool
from .documents import read_json
from .findings import PlanUnreadable, quoted
from .plan import Patch, Plan, Step, Undo

__all__ = [
    "Approval",
    "RowLimit",
    "Scope",
    "Signature",
    "approval_needed",
    "asks_at_call",
    "asks_at_undo",
    "asks_for",
    "asks_in_dialogue",
    "bind",
    "calls_of",
    "covers",
    "differences",
    "gated",
    "patch_needs_approval",
    "read_approval",
    "sign",
    "tools_of",
    "unproven",
    "why_needed",
]

Json: TypeAlias = Any

Scope = Literal["none", "reads", "envelope"]
"""Which re-plans an approval covers: none; those that add only reads and values; or also effects on tools of the
approved plan, with literal arguments it holds, in place of calls it holds."""

_SHORT = 120
"""A part of a contract up to this many bytes stands in the approval itself, so that a difference can be spelled out."""

_PARTS = {
    "input": "input schema",
    "output": "output schema",
    "permissions": "set of permissions",
    "source": "source code",
}


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class RowLimit(Record):
    """Approval of many rows at once: at most `rows` of them, from the source with this digest if one is named."""

    rows: int = Field(ge=1)
    source: str | None = None


class Contract(Record):
    """What was approved of one tool: its fingerprint, and its parts (short ones as they are, long ones as digests)."""

    fingerprint: str
    parts: dict[str, Any]


class Signature(Record):
    """Of everything else in the approval. `key` is the fingerprint of the key, `value` hex digits."""

    algorithm: str
    key: str
    value: str


class Approval(Record):
    """What someone approved. Times are epoch seconds; `inputs` is a digest, and unset where `batch` is set."""

    foreplan_approval: Literal[1] = 1
    id: str = Field(min_length=8)
    by: str = Field(min_length=1)
    approved_at: float
    expires_at: float | None = None
    scope: Scope = "none"
    fallback: bool = False
    """Whether a model may go on by itself where this plan does not get on."""
    plan: str
    tools: dict[str, Contract]
    policies: dict[str, Any]
    principal: dict[str, Any]
    inputs: str | None = None
    batch: RowLimit | None = None
    signature: Signature | None = None

    def to_json(self) -> dict[str, Any]:
        """The document, its own digest last."""
        document = self.model_dump(mode="json")
        if self.signature is None:
            del document["signature"]
        return {**document, "digest": digest(document)}

    def to_text(self) -> str:
        """The file: JSON that `read_approval` reads."""
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n"


def read_approval(document: str | bytes | Mapping[str, Any]) -> Approval:
    """The approval this file (or its parsed content) holds. Raises `BadInput` with a sentence."""
    try:
        content = read_json(document) if isinstance(document, str | bytes) else dict(document)
    except PlanUnreadable as error:
        raise BadInput(f"the approval cannot be read: {error.findings[0]}") from None
    if not isinstance(content, dict):
        raise BadInput("the approval cannot be read: it is no JSON object")
    stated = content.pop("digest", None)
    try:
        approval = Approval.model_validate(content)
    except ValidationError as error:
        raise BadInput(f"the approval cannot be read: {_trouble(dict(error.errors()[0]))}") from None
    if stated != digest(content):
        raise BadInput("the approval was changed after it was written: approve the plan again")
    return approval


def bind(
    plan: Plan,
    registry: Registry,
    policies: Policies | None = None,
    *,
    inputs: Mapping[str, Json] | None = None,
    batch: RowLimit | None = None,
    principal: Principal = ANYONE,
    by: str,
    now: float,
    scope: Scope = "none",
    fallback: bool = False,
    expires_at: float | None = None,
    id: str | None = None,
) -> Approval:
    """An approval of this plan with these inputs (or this batch) by this person; `now` is epoch seconds.

    `id` is drawn at random where none is given. Raises `UnknownTool` where the plan names one.
    """
    try:
        return Approval(
            id=id or secrets.token_hex(16),
            by=by,
            approved_at=now,
            expires_at=expires_at,
            scope=scope,
            fallback=fallback,
            plan=digest(plan.to_json()),
            tools={name: _contract(registry[name]) for name in tools_of(plan)},
            policies=(policies or Policies()).model_dump(mode="json"),
            principal=_whom(principal),
            inputs=None if batch else digest(dict(inputs or {})),
            batch=batch,
        )
    except ValidationError as error:
        raise BadInput(f"the approval cannot be given: {_trouble(dict(error.errors()[0]))}") from None


def differences(
    approval: Approval,
    plan: Plan,
    registry: Registry,
    policies: Policies | None = None,
    *,
    inputs: Mapping[str, Json] | None = None,
    rows: int | None = None,
    source: str | None = None,
    principal: Principal = ANYONE,
    now: float,
) -> list[str]:
    """What keeps this approval from covering this run, a sentence each; [] where it covers it.

    A batch gives `rows` (how many it will run) and, if it knows it, the digest of its `source`.
    """
    return [
        *_expiry(approval, now),
        *_plan(approval, plan),
        *_tools(approval, plan, registry),
        *_fields("the policy", approval.policies, (policies or Policies()).model_dump(mode="json")),
        *_fields("the principal", approval.principal, _whom(principal)),
        *_data(approval, inputs, rows, source),
    ]


def sign(approval: Approval, signer: Signer) -> Approval:
    """The approval with a signature of all that is in it."""
    if not callable(getattr(signer, "sign", None)):
        raise BadInput(f"a signer is one such as HmacSigner(key), not {type(signer).__name__}")
    value = signer.sign(_to_sign(approval)).hex()
    signature = Signature(algorithm=signer.algorithm, key=signer.fingerprint, value=value)
    return approval.model_copy(update={"signature": signature})


def unproven(approval: Approval, approvers: Iterable[Verifier], *, not_by: str | None = None) -> list[str]:
    """What keeps this approval from being that of one of these approvers, a sentence each; [] where it is.

    An approver with an `id` signs in that name only. `not_by`: who must not have approved.
    """
    known = list(approvers)
    found = list(_signature(approval, known)) if known else []
    if not_by is not None and approval.by == not_by:
        found.append(
            f"{quoted(approval.by)} approved it and the run acts for {quoted(not_by)}: somebody else must approve"
        )
    return found


def _signature(approval: Approval, approvers: list[Verifier]) -> Iterator[str]:
    signature = approval.signature
    if signature is None:
        yield "the approval is not signed"
        return
    mine = [a for a in approvers if (a.algorithm, a.fingerprint) == (signature.algorithm, signature.key)]
    if not mine:
        yield f"the approval is signed with a key that is not an approver's ({quoted(signature.key)})"
    elif not any(a.verify(_to_sign(approval), _bytes(signature.value)) for a in mine):
        yield "the signature is not one of this approval: it was changed after it was signed"
    elif not any(a.id in ("", approval.by) for a in mine):
        yield f"the approval says that {quoted(approval.by)} gave it, and {quoted(mine[0].id)} signed it"


def _to_sign(approval: Approval) -> bytes:
    return b"foreplan approval\n" + canonical(approval.model_dump(mode="json", exclude={"signature"}))


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def tools_of(plan: Plan) -> list[str]:
    """The names of the tools a plan calls, once each, in the order of the plan; those that undo something too."""
    return calls_of(plan.every_step)


def calls_of(steps: Iterable[Step]) -> list[str]:
    """The names of the tools that these steps call, once each."""
    return list(dict.fromkeys(name for step in steps for name in _calls_of(step)))


def _calls_of(step: Step) -> Iterator[str]:
    if step.tool is not None:
        yield step.tool
    if step.undo is not None:
        yield step.undo.tool


def why_needed(tools: Iterable[Tool], policies: Policies) -> list[str]:
    """Why a plan with these tools needs an approval before it runs, a phrase each; [] where it needs none."""
    used = list(tools)
    reasons = [f"{tool.name} asks for approval" for tool in used if tool.requires_approval is True]
    first = policies.approve_from
    if first is not None:
        high = [tool for tool in used if not first.above(tool.level)]
        reasons += [f"{tool.name} is of level {tool.level.value}" for tool in high]
    if policies.approve == "always":
        return ["the policy asks for one always", *reasons]
    if policies.approve == "acts":
        acting = [tool.name for tool in used if tool.effect is Effect.ACTS]
        return [*(f"{name} acts: it cannot be repeated or taken back" for name in acting), *reasons]
    return reasons


def approval_needed(tools: Iterable[Tool], policies: Policies) -> bool:
    """Whether a plan with these tools needs an approval before it runs."""
    return bool(why_needed(tools, policies))


def patch_needs_approval(patch: Patch, registry: Registry, policies: Policies) -> bool:
    """Whether what a patch adds needs an approval; whether one that exists covers it, `covers` says."""
    return approval_needed([registry[name] for name in calls_of(patch.every_step)], policies)


def asks_for(tool: Tool, args: Mapping[str, Json]) -> str:
    """Why a person is asked about a call with these very arguments, as the tool says; "" where nobody is.

    A rule over `args` fails closed: whatever it gives but false asks, and so does one that does not resolve.
    """
    need = tool.requires_approval
    if need == "each":
        return f"{tool.name!r} asks before each call"
    if not isinstance(need, Expression):
        return ""
    try:
        said = need.evaluate({"args": args})
    except EvaluationError as error:
        return f"{tool.name!r} asks when {need.text}, and here that cannot be said: {error}"
    return "" if said is False else f"{tool.name!r} asks when {need.text}"


def gated(tool: Tool, policies: Policies, args: Mapping[str, Json]) -> str:
    """Why a call of this tool in place of another one needs an approval of its own; "" where it needs none."""
    if tool.requires_approval is True:
        return f"{tool.name!r} asks for approval"
    first = policies.approve_from
    if first is not None and not first.above(tool.level):
        return f"{tool.name!r} is of level {tool.level.value}"
    return asks_for(tool, args)


def asks_at_undo(step: Step, tool: Tool, *, many: bool = False) -> bool:
    """The same of the call of this tool that takes a step back."""
    if tool.requires_approval is not True:
        return tool.requires_approval == "each"
    assert step.undo is not None
    return many or step.has("each") or not compile_template(step.undo.args).literal


def asks_at_call(step: Step, tool: Tool, *, many: bool = False) -> bool:
    """Whether a person is asked at the call, whatever was approved before and whatever its arguments are.

    The approval of a plan covers a tool with `requires_approval=True` only where every argument is a literal: until
    arguments are labelled, all of them count as protected. `many`: a group around the step runs for each of a list.
    """
    if tool.requires_approval == "each":
        return True
    if tool.requires_approval is not True:
        return False
    return many or step.has("each") or step.next is not None or not compile_template(step.args).literal


def asks_in_dialogue(tool: Tool, policies: Policies, args: Mapping[str, Json]) -> str:
    """Why a person is asked about a call that no approved plan holds; "" where nobody is."""
    why = gated(tool, policies, args)
    if why:
        return why
    if policies.approve == "always":
        return "the policy asks for an approval always"
    if policies.approve == "acts" and tool.effect is Effect.ACTS:
        return f"{tool.name!r} acts, and no approved plan holds this call"
    return ""


def covers(scope: str, patch: Patch, registry: Registry, plan: Plan) -> bool:
    """Whether an approval of `plan` with this scope covers what the patch adds.

    What a covered read or value gives may flow on into effects that were approved with their expressions.
    """
    effects = [
        step
        for step in patch.every_step
        if any(registry[name].effect is not Effect.READS for name in _calls_of(step))
    ]
    if scope == "reads":
        return not effects
    new_ids = {step.replaces: step.id for step in patch.add if step.replaces is not None}
    return scope == "envelope" and all(step in patch.add and _within(step, plan, new_ids) for step in effects)


def _within(step: Step, plan: Plan, new_ids: Mapping[str, str]) -> bool:
    """Whether an effect stands in the place of an approved one, and its arguments are those of one approved call.

    All of them together: the amount of one call beside the account of another was never seen by anyone.
    """
    old = plan.by_id.get(step.replaces or "")
    if old is None or old.tool != step.tool or old.has("each") != step.has("each"):
        return False
    bounds = (
        "each",
        "when",
        "until",
        "next",
    )  # how often, whether, and with which other arguments it is called
    if (
        not all(_same(rename_in(getattr(old, f), new_ids), getattr(step, f)) for f in bounds)
        or old.max != step.max
    ):
        return False
    if not _same_undo(old.undo, step.undo, new_ids):
        return False
    approved = (rename_in(other.args, new_ids) for other in plan.steps if other.tool == step.tool)
    return any(_same(args, step.args) for args in approved)


def _same_undo(old: Undo | None, new: Undo | None, new_ids: Mapping[str, str]) -> bool:
    if old is None or new is None:
        return old is new
    return old.tool == new.tool and _same(rename_in(old.args, new_ids), new.args)


def _same(a: Json, b: Json) -> bool:
    return canonical(a) == canonical(b)


def _whom(principal: Principal) -> dict[str, Json]:
    """The principal as an approval holds it: attributes may be personal, so only their digest."""
    document = principal.model_dump(mode="json")
    return {**document, "attributes": digest(document["attributes"]) if principal.attributes else None}


def _contract(tool: Tool) -> Contract:
    return Contract(fingerprint=tool.fingerprint, parts={k: _part(v) for k, v in tool.contract().items()})


def _part(value: Json) -> Json:
    data = canonical(value)
    return value if len(data) <= _SHORT else digest(value)


def _expiry(approval: Approval, now: float) -> Iterator[str]:
    if approval.expires_at is not None and now >= approval.expires_at:
        yield f"the approval expired {_ago(now - approval.expires_at)} ago"


def _ago(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds)} seconds"


def _plan(approval: Approval, plan: Plan) -> Iterator[str]:
    found = digest(plan.to_json())
    if found != approval.plan:
        yield f"the plan differs: {_brief(approval.plan)} was approved, this is {_brief(found)}"


def _tools(approval: Approval, plan: Plan, registry: Registry) -> Iterator[str]:
    for name in tools_of(plan):
        tool, approved = registry.get(name), approval.tools.get(name)
        if approved is None:
            yield f"the tool {quoted(name)} was not part of what was approved"
        elif tool is None:
            yield f"the tool {quoted(name)} does not exist any more"
        elif tool.fingerprint != approved.fingerprint:
            yield f"the tool {quoted(name)} changed: {_changes(approved.parts, _contract(tool).parts)}"


def _changes(old: Mapping[str, Json], new: Mapping[str, Json]) -> str:
    names = [n for n in {**old, **new} if not _same(old.get(n), new.get(n))]
    return (
        "; ".join(_change(_PARTS.get(n, n.replace("_", " ")), old.get(n), new.get(n)) for n in names)
        or "its contract"
    )


def _change(name: str, old: Json, new: Json) -> str:
    if any(isinstance(v, dict | list) or str(v).startswith("sha256:") for v in (old, new)):
        return f"{name} differs"
    return f"{name} was {_word(old)}, is {_word(new)}"


def _word(value: Json) -> str:
    match value:
        case None:
            return "none"
        case str():
            return quoted(value)
        case _:
            return canonical(value).decode()


def _fields(whose: str, old: Mapping[str, Json], new: Mapping[str, Json], prefix: str = "") -> Iterator[str]:
    for name in {**old, **new}:
        before, after = old.get(name), new.get(name)
        if isinstance(before, dict) and isinstance(after, dict) and not prefix:
            yield from _fields(whose, before, after, f"{name}.")
        elif not _same(before, after):
            yield f"{whose} changed: {prefix}{name} was {_shown(before)}, is {_shown(after)}"


def changed_rules(old: Policies, new: Policies) -> list[str]:
    """What differs between two sets of rules, a sentence each."""
    return list(_fields("the policy", old.model_dump(mode="json"), new.model_dump(mode="json")))


def _shown(value: Json) -> str:
    return (
        "none"
        if value is None
        else quoted(value)
        if isinstance(value, str)
        else quoted(canonical(value).decode())[1:-1]
    )


def _data(
    approval: Approval, inputs: Mapping[str, Json] | None, rows: int | None, source: str | None
) -> Iterator[str]:
    if approval.batch is None:
        if rows is not None:
            yield "the approval is for one run, this is a batch"
        elif approval.inputs != digest(dict(inputs or {})):
            yield "the inputs differ from those that were approved"
        return
    if rows is None:
        yield f"the approval is for a batch of up to {approval.batch.rows:,} rows, this is one run"
    elif rows > approval.batch.rows:
        yield f"the batch has {rows:,} rows, {approval.batch.rows:,} were approved"
    if approval.batch.source is not None and source != approval.batch.source:
        yield "the source of the rows differs from the one that was approved"


def _brief(name: str) -> str:
    return name.removeprefix("sha256:")[:12]


def _trouble(error: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"it has an unknown field {quoted(where)}{did_you_mean(where, Approval.model_fields)}"
    if error["type"] == "missing":
        return f"the field {quoted(where)} is missing"
    return f"the field {quoted(where)} is not of the right form"
