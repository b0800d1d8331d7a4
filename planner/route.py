"""Which way to go for a goal, and with which tools: decided by rules, and by a model only where rules are unsure.

    answer   nothing is to be done: a greeting, no tool that may be called, a question no tool has a word of
    react    one reading call, whose result is the answer: a loop with a model is quicker than a plan
    plan     several steps, conditions, "each", effects, amounts; and whatever is unclear, for a plan is seen before it runs

    up to 19 tools   all are shown
    20 to 100        whole families (`crm.`, else the first tag): those with a tool that fits; what has no family stays
    more             the tools that fit best, then others of their families

Tools that the goal names, those that `always` names, people and extraction (`ask`, `extract`), and whatever undoes a
chosen tool are shown in any case. What is shown is in the order of names, so that the prompt of every goal with the
same tools begins alike. The rules read English; another language is unclear, and so a plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, get_args

from ..policies.permissions import Level, Principal
from ..registry.registry import Registry
from ..registry.search import Search
from ..registry.tools import Tool
from ..registry.words import mentions, terms_of_name, terms_of_prose, terms_of_question
from .answers import AnswerUnreadable, read_value
from .models.chat import ChatModel, ask_model
from .models.messages import AIMessage, HumanMessage, Message, SystemMessage

__all__ = ["MANY", "Route", "Way", "choose_tools", "route"]

Way = Literal["answer", "react", "plan"]

FEW = 20
"""Fewer tools than this are all shown: choosing would lose more than it saves."""
MANY = 100
"""Up to so many whole families are shown or left out; beyond, single tools are chosen."""


class Route(NamedTuple):
    """The way to go, the tools to go it with, and why, in a sentence."""

    kind: Way
    tools: Registry
    why: str


# ------------------------------------------------------------------------------------------------------ which tools


def choose_tools(
    goal: str,
    registry: Registry,
    principal: Principal | None = None,
    *,
    most: int | None = 40,
    always: Iterable[str] = (),
    filled: bool = False,
    max_level: Level | None = None,
    search: Search | None = None,
) -> Registry:
    """The tools to be shown for a goal, in the order of names: of a principal, those that it may call.

    At most `most` (None: all), besides those that are shown in any case; often fewer, unless it is to be `filled`, for
    words may miss what is meant. `search` is another way than by words.
    """
    permitted = registry.only(permitted=principal, max_level=max_level)
    if most is None or len(permitted) < FEW:
        return _in_order(permitted, permitted.names)
    fitting = [
        tool.name
        for tool in registry.search(
            goal, max(len(registry), 1), principal=principal, max_level=max_level, search=search
        )
    ]
    chosen = dict.fromkeys(_in_any_case(goal, permitted, always))
    for name in (*_candidates(permitted, fitting), *(sorted(permitted.names) if filled else ())):
        if len(chosen) >= most:
            break
        chosen[name] = None
    return _in_order(permitted, [*chosen, *_undoing(permitted, chosen)])


def _in_order(tools: Registry, names: Iterable[str]) -> Registry:
    return Registry(*(tools[name] for name in sorted(set(names))))


def _in_any_case(goal: str, permitted: Registry, always: Iterable[str]) -> Iterator[str]:
    yield from (name for name in always if name in permitted)
    yield from mentions(goal, permitted.names)
    yield from (tool.name for tool in permitted if _is_built_in(tool))


def _is_built_in(tool: Tool) -> bool:
    return tool.answered_by == "person" or tool.origin.startswith("extract_with(")


def _undoing(permitted: Registry, chosen: Iterable[str]) -> list[str]:
    return [permitted[name].undo for name in chosen if permitted[name].undo in permitted]


def _candidates(permitted: Registry, fitting: list[str]) -> Iterator[str]:
    """What fits, the best first, then others of the same families. Up to `MANY`, what has no family; where nothing fits, all."""
    yield from fitting
    members = _members(permitted)
    for family in dict.fromkeys(_family(permitted[name]) for name in fitting):
        yield from members[family] if family else ()
    if not fitting:
        yield from sorted(permitted.names)
    elif len(permitted) <= MANY:
        yield from members.get("", ())


def _members(tools: Registry) -> dict[str, list[str]]:
    """The names of each family, sorted; of those without one under an empty name."""
    members: dict[str, list[str]] = {}
    for name in sorted(tools.names):
        members.setdefault(_family(tools[name]), []).append(name)
    return members


def _family(tool: Tool) -> str:
    return tool.name.rpartition(".")[0] or (tool.tags[0] if tool.tags else "")


# -------------------------------------------------------------------------------------------------------- which way

_GREETING = re.compile(
    r"\W*(?:hi|hello|hey|good (?:morning|afternoon|evening)|thanks?(?: you)?|bye|goodbye|ok(?:ay)?)\b[\w ,]{0,20}\W*",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"\s*(?:what|who|whose|when|where|why|which|how|explain)\b", re.IGNORECASE)
_SIGNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "it has a condition",
        re.compile(r"\b(?:if|unless|otherwise|whenever|in case|provided that|depending on)\b", re.IGNORECASE),
    ),
    (
        "it speaks of each of several",
        re.compile(r"\b(?:each|every|all|both|per|respectively)\b", re.IGNORECASE),
    ),
    (
        "it has several steps",
        re.compile(
            r"\b(?:then|afterwards|finally|next,|and (?:also )?[a-z]+ (?:it|them|the|a|an|me|us)\b)|;|\n\s*(?:\d+[.)]|[-*]) ",
            re.IGNORECASE,
        ),
    ),
    (
        "it speaks of an amount",
        re.compile(
            r"[$€£¥]\s?\d|\b\d[\d.,]*\s?(?:%|percent\b|usd\b|eur\b|gbp\b|dollars?\b|euros?\b|pounds?\b)|"
            r"\b(?:more|less|fewer|at least|at most|over|under|above|below|larger|smaller) (?:than )?\d",
            re.IGNORECASE,
        ),
    ),
)
_CLEAR = 1.3
"""So many times the score of the next one makes a reading tool the obvious one."""
_ENOUGH = 0.25
"""The share of a goal's terms that a tool must say to be the one that is meant."""


async def route(
    goal: str,
    registry: Registry,
    *,
    principal: Principal | None = None,
    model: ChatModel | None = None,
    most: int | None = 40,
    max_level: Level | None = None,
    search: Search | None = None,
) -> Route:
    """Whether a goal wants an answer, a loop or a plan, and the tools for it.

    A model is asked once, and only where the rules are unsure; no answer, or one that cannot be read, is a plan. There
    is no time limit here; `Engine.route` has one.
    """
    tools = choose_tools(goal, registry, principal, most=most, max_level=max_level, search=search)
    decided = _by_rules(goal, tools)
    if decided is None and model is not None:
        decided = await _by_model(goal, tools, model)
    kind, why = decided or ("plan", "the rules are unsure, and a plan is seen before it runs")
    return Route(kind, Registry() if kind == "answer" else tools, why)


def _by_rules(goal: str, tools: Registry) -> tuple[Way, str] | None:
    """The way and why; None where the rules are unsure."""
    if not tools:
        return "answer", "there is no tool that may be called"
    if not goal.strip() or _GREETING.fullmatch(goal):
        return "answer", "nothing is asked for"
    found = tools.search(goal, 2)
    if not found and _QUESTION.match(goal):
        return "answer", "no tool has to do with the question"
    for why, sign in _SIGNS:
        if sign.search(goal):
            return "plan", why
    if found and found[0].effect != "reads" and _fits(goal, found[0]) >= _ENOUGH:
        return "plan", f"{found[0].name!r} changes something"
    if found and _fits(goal, found[0]) >= _ENOUGH and _is_obvious(goal, tools):
        return "react", f"{found[0].name!r} reads what is asked for"
    return None


def _fits(goal: str, tool: Tool) -> float:
    """The share of the goal's terms that the tool says itself."""
    asked = set(terms_of_question(goal))
    said = {
        *terms_of_name(tool.name),
        *terms_of_prose(f"{tool.title} {tool.description} {' '.join(tool.tags)}"),
    }
    return len(asked & said) / len(asked) if asked else 0.0


def _is_obvious(goal: str, tools: Registry) -> bool:
    """Whether the tool that fits best is far ahead of the next, or named alone."""
    named = mentions(goal, tools.names)
    if named:
        return len(named) == 1
    best = tools.ranked(goal, 2)
    return len(best) == 1 or best[0].score >= _CLEAR * best[1].score


_ASK = """\
You decide how a goal is to be reached. Answer with one JSON object and nothing else: {"kind": KIND, "why": "..."}
"answer"  nothing has to be called: the goal can be answered from what everybody knows
"react"   one or two calls that only read, and the answer follows from what they give
"plan"    anything else: several calls, conditions, lists, and whatever changes something

The tools:"""


async def _by_model(goal: str, tools: Registry, model: ChatModel) -> tuple[Way, str]:
    listed = "\n".join(f"{tool.name} ({tool.effect}): {tool.description[:120]}" for tool in tools)
    messages: list[Message] = [SystemMessage(f"{_ASK}\n{listed}"), HumanMessage(f"Goal: {goal}")]
    kinds = {
        "type": "object",
        "properties": {"kind": {"enum": list(get_args(Way))}, "why": {"type": "string"}},
    }
    try:
        answer = await ask_model(model, messages, response_format={**kinds, "required": ["kind"]})
    except Exception as error:
        return "plan", f"the model gave no answer ({type(error).__name__})"
    kind = _kind_in(answer)
    if kind is None:
        return "plan", "the model's answer names no way"
    return kind, "the model says so"


def _kind_in(answer: AIMessage) -> Way | None:
    """The one way that an answer names, as JSON or in any words."""
    try:
        said = read_value(answer)
    except AnswerUnreadable:
        said = answer.content
    text = str(said.get("kind", "") if isinstance(said, dict) else said).lower()
    found: list[Way] = [way for way in get_args(Way) if re.search(rf"\b{way}\b", text)]
    return found[0] if len(found) == 1 else None
