"""Tools: what a function becomes, what is refused at registration, and how arguments reach it."""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, TypedDict
from uuid import UUID

import pytest
from pydantic import AfterValidator, BaseModel, Field

from foreplan import Effect, Tool, ToolContext, tool
from foreplan.policies.classification import classify
from foreplan.policies.errors import ToolRefused
from foreplan.registry.signatures import ArgumentsRefused
from foreplan.registry.values import to_plain

if TYPE_CHECKING:
    from nowhere import Unknown  # type: ignore[import-not-found]

CONTEXT = ToolContext(run_id="r1", path=("refund", 3), attempt=2, idempotency_key="k")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    sku: str
    count: int = 1


@dataclass
class Place:
    street: str
    at: datetime


def even(value: int) -> int:
    if value % 2:
        raise ValueError("must be even")
    return value


# ---- from a function -------------------------------------------------------------------------------------------------


@tool(
    effect="reads",
    timeout=10,
    permissions=["ledger:read"],
    version="2",
    title="Ledger",
    examples=[{"path": "a.csv"}],
)
def read_ledger(path: str, limit: float = 50, tags: list[str] | None = None) -> list[Item]:
    """Read the payments above a limit,
    one per line.

    More that nobody needs to plan with.

    Args:
        path: CSV file with payer,
            amount and day
        limit (float): only above this

    Returns:
        The payments.
    """
    return [Item(sku=path)]


def test_a_function_becomes_its_contract() -> None:
    """Name, first paragraph, parameters with their words and defaults, result, options: all in the contract."""
    assert {k: v for k, v in read_ledger.contract().items() if k not in ("input", "output", "source")} == {
        "name": "read_ledger",
        "description": "Read the payments above a limit, one per line.",
        "effect": "reads",
        "permissions": ["ledger:read"],
        "version": "2",
        "timeout": 10.0,
        "requires_approval": False,
        "soft_failure": None,
    }
    assert read_ledger.input.document == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "CSV file with payer, amount and day"},
            "limit": {"type": "number", "default": 50, "description": "only above this"},
            "tags": {
                "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                "default": None,
            },
        },
        "required": ["path"],
        "additionalProperties": False,
    }
    assert read_ledger.output is not None
    assert read_ledger.output.document["items"] == {"$ref": "#/$defs/Item"}
    assert json.loads(json.dumps(read_ledger.contract())) == read_ledger.contract()


def test_a_tool_is_still_the_function() -> None:
    """It is called, read and documented like the function it was made of."""
    assert read_ledger("x") == [Item(sku="x")]
    assert read_ledger.__doc__ is not None
    assert list(inspect.signature(read_ledger).parameters) == ["path", "limit", "tags"]
    assert repr(read_ledger) == "<Tool read_ledger>"


def test_the_defaults_are_the_safe_ones() -> None:
    """Nothing said: it acts, needs nothing, has the policy's timeout."""

    @tool
    def act(x: int) -> None:
        pass

    assert (act.effect, act.timeout_unset, act.permissions, act.output) == (Effect.ACTS, True, (), None)
    assert act.contract()["timeout"] == "policy"
    assert tool(timeout=None)(act.function).contract()["timeout"] is None


def google(path: str, limit: int) -> None:
    """Do it.

    Args:
        path (str): where it
            is
        limit: how many: at most

    Raises:
        OSError: never
    """


def numpy(path: str, limit: int) -> None:
    """
    Do it.

    Parameters
    ----------
    path : str
        where it
        is
    limit : int, optional
        how many: at most

    Returns
    -------
    None
        nothing
    """


def sphinx(path: str, limit: int) -> None:
    """Do it.

    :param str path: where it
        is
    :param limit: how many: at most
    :type limit: int
    :returns: nothing
    """


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_docstrings_of_three_styles_describe_parameters(function: Callable[..., Any]) -> None:
    """Google, NumPy and Sphinx say the same."""
    made = tool(function)
    properties = made.input.document["properties"]
    assert made.description == "Do it."
    assert [properties[name]["description"] for name in ("path", "limit")] == [
        "where it is",
        "how many: at most",
    ]


def test_a_field_beats_the_docstring() -> None:
    """`Annotated` descriptions, constraints and unusual names are in the schema."""

    @tool
    def find(
        json: Annotated[str, Field(description="own words", min_length=2)],
        _private: Literal["a", "b"] = "a",
        model_config: Optional[int] = None,  # noqa: UP045 - the older spelling
        colour: Colour = Colour.RED,
    ) -> None:
        """Find.

        :param json: other words
        """

    properties = find.input.document["properties"]
    assert properties["json"] == {"type": "string", "description": "own words", "minLength": 2}
    assert properties["_private"] == {"enum": ["a", "b"], "type": "string", "default": "a"}
    assert list(properties) == ["json", "_private", "model_config", "colour"]
    assert properties["colour"]["default"] == "red"
    assert find.bind({"json": "xx", "_private": "b", "model_config": 3, "colour": "blue"}, CONTEXT) == (
        (),
        {"json": "xx", "_private": "b", "model_config": 3, "colour": Colour.BLUE},
    )


def test_nested_types_are_closed() -> None:
    """A property the model does not know is refused before pydantic would drop it."""

    @tool
    def ship(items: list[Item], to: Place) -> None: ...

    args: dict[str, Any] = {
        "items": [{"sku": "a", "size": 3}],
        "to": {"street": "s", "at": "2024-01-01T00:00:00Z", "x": 1},
    }
    assert [p.pointer for p in ship.input.problems(args)] == ["/items/0/size", "/to/x"]


# ---- the injected context -------------------------------------------------------------------------------------------------


def test_the_context_is_injected_and_hidden() -> None:
    """Found by its annotation, also in `X | None` and under postponed annotations; nobody can pass it."""

    @tool
    def with_context(x: int, ctx: ToolContext) -> str:
        return f"{ctx.step} {ctx.attempt} {x}"

    @tool
    def with_optional(x: str, context: ToolContext | None = None) -> str:
        return "none" if context is None else context.idempotency_key

    assert list(with_context.input.document["properties"]) == ["x"]
    assert with_context.invoke({"x": 1}, CONTEXT) == "refund[3] 2 1"
    assert with_optional.invoke({"x": ""}, CONTEXT) == "k"
    assert not with_optional.input.accepts({"x": "", "context": {"attempt": 9}})
    assert with_optional("y") == "none"


def test_a_context_says_where_it_is() -> None:
    """The path as text; a note without a listener is lost."""
    assert [ToolContext(path=p).step for p in ((), ("a",), ("g", 0, "a", 12))] == ["", "a", "g[0].a[12]"]
    ToolContext().note("hello")


# ---- binding -------------------------------------------------------------------------------------------------------------


def test_plain_arguments_go_in_as_they_are_but_never_shared() -> None:
    """Containers are copied at every depth: what the engine keeps cannot be changed by a tool."""

    @tool
    def spoil(rows: list[dict[str, Any]], options: dict[str, list[str]]) -> None:
        rows[0]["deep"].append("spoilt")
        options["a"].append("spoilt")

    args: dict[str, Any] = {"rows": [{"deep": [1]}], "options": {"a": ["x"]}}
    spoil.invoke(args, CONTEXT)
    assert args == {"rows": [{"deep": [1]}], "options": {"a": ["x"]}}


def test_typed_arguments_are_made_by_pydantic() -> None:
    """Strings become dates, enums, decimals, models; 1.0 is a whole number; what was left out stays the default."""
    seen: dict[str, Any] = {}

    @tool
    def take(
        when: datetime,
        day: date,
        at: time,
        amount: Decimal,
        colour: Colour,
        items: list[Item],
        place: Place,
        path: Path,
        id: UUID,
        data: bytes,
        numbers: set[int],
        pair: tuple[int, str] = (1, "a"),
        years: dict[int, str] | None = None,
    ) -> None:
        seen.update(locals())

    args: dict[str, Any] = {
        "when": "2024-01-01T10:00:00Z",
        "day": "2024-01-01",
        "at": "10:00",
        "amount": "12.30",
        "colour": "blue",
        "items": [{"sku": "a", "count": 2.0}],
        "place": {"street": "s", "at": "2024-01-01T10:00:00+00:00"},
        "path": "a/b",
        "id": "123e4567-e89b-12d3-a456-426614174000",
        "data": "/wA=",
        "numbers": [1, 2.0],
        "years": {"2024": "x"},
    }
    assert take.input.problems(args) == []
    take.invoke(args, CONTEXT)
    moment = datetime(2024, 1, 1, 10, tzinfo=UTC)
    assert {k: v for k, v in seen.items() if k != "seen"} == {
        "when": moment,
        "day": date(2024, 1, 1),
        "at": time(10),
        "amount": Decimal("12.30"),
        "colour": Colour.BLUE,
        "items": [Item(sku="a", count=2)],
        "place": Place("s", moment),
        "path": Path("a/b"),
        "id": UUID(args["id"]),
        "data": b"\xff\x00",
        "numbers": {1, 2},
        "pair": (1, "a"),
        "years": {2024: "x"},
    }


def test_a_whole_number_written_as_a_float_reaches_int_as_int() -> None:
    """JSON Schema says that 1.0 is an integer; `range` does not."""

    @tool
    def count(n: int, optional: int | None = None, real: float = 0.5, either: int | float = 1) -> None: ...

    _, given = count.bind({"n": 2.0, "optional": 3.0, "real": 2.0, "either": 2.0}, CONTEXT)
    assert [repr(given[k]) for k in given] == ["2", "3", "2.0", "2.0"]


def test_what_the_types_refuse_is_bad_args() -> None:
    """A validator of the tool's own says no before the tool runs: never retried, nothing happened."""

    @tool
    def pick(n: Annotated[int, AfterValidator(even)]) -> int:
        return n

    assert pick.invoke({"n": 4}, CONTEXT) == 4
    with pytest.raises(ArgumentsRefused, match=r"n: .*must be even") as caught:
        pick.bind({"n": 3}, CONTEXT)
    failure = classify(caught.value)
    assert (failure.kind, failure.code, failure.happened) == ("bad_args", "conversion", "no")


def test_results_fit_the_schema_of_their_annotation() -> None:
    """What the annotation promises and what `to_plain` writes agree, naive times and big decimals included."""

    @dataclass
    class Odd:
        when: datetime
        at: time
        total: Decimal
        data: bytes
        colours: set[Colour]
        pair: tuple[int, str]

    def give() -> dict[int, Odd]: ...  # type: ignore[empty-body]

    give.__annotations__ = {"return": dict[int, Odd]}
    Odd.__annotations__ = {
        "when": datetime, "at": time, "total": Decimal, "data": bytes, "colours": set[Colour], "pair": tuple[int, str],
    }  # fmt: skip
    made = tool(give)
    value = {1: Odd(datetime(2024, 1, 1), time(1), Decimal("1E+30"), b"\xff", {Colour.RED}, (1, "a"))}
    assert made.output is not None
    assert made.output.problems(to_plain(value)) == []


# ---- functions of all sorts ---------------------------------------------------------------------------------------------


class Service:
    """A service."""

    def find(self, word: str) -> str:
        """Find it."""
        return word

    async def __call__(self, word: str) -> str:
        """Ask it."""
        return word

    @staticmethod
    def fixed(word: str) -> str:
        return word

    @classmethod
    def made(cls, word: str) -> str:
        return word


def keyed(word: str, key: str, n: int = 1) -> str:
    """Use a key."""
    return word + key


async def later(word: str) -> str:
    return word


def test_methods_partials_and_objects_can_be_tools() -> None:
    """What a partial has settled is no argument, and does not show."""
    service = Service()
    find, ask = tool(service.find), tool(name="ask")(service)
    part = tool(functools.partial(keyed, key="secret"))
    assert (find.name, find.description, find.is_async) == ("find", "Find it.", False)
    assert (ask.name, ask.description, ask.is_async) == ("ask", "Ask it.", True)
    assert (part.name, list(part.input.document["properties"])) == ("keyed", ["word", "n"])
    assert "secret" not in json.dumps(part.contract())
    assert part.invoke({"word": "a"}, CONTEXT) == "asecret"
    assert tool(service.fixed).invoke({"word": "a"}, CONTEXT) == "a"
    assert tool(Service.made).invoke({"word": "a"}, CONTEXT) == "a"
    assert [tool(f).is_async for f in (later, functools.partial(later))] == [True, True]


@pytest.mark.anyio
async def test_async_tools_are_awaited() -> None:
    """`invoke` gives what must be awaited, exactly where `is_async`."""
    assert await tool(later).invoke({"word": "x"}, CONTEXT) == "x"
    assert await tool(name="ask")(Service()).invoke({"word": "x"}, CONTEXT) == "x"


def test_a_decorated_function_keeps_its_contract() -> None:
    """`functools.wraps` is seen through."""

    @tool
    @functools.wraps(keyed)
    def wrapped(*args: Any, **kwargs: Any) -> str:
        return keyed(*args, **kwargs) + "!"

    assert wrapped.name == "keyed"
    assert wrapped.invoke({"word": "a", "key": "b"}, CONTEXT) == "ab!"


# ---- refused at registration ----------------------------------------------------------------------------------------------


def no_annotation(x) -> None: ...  # type: ignore[no-untyped-def]
def stars(*xs: int) -> None: ...
def double_stars(**xs: int) -> None: ...
def positional(x: int, /) -> None: ...
def generates(x: int) -> Iterator[int]:
    yield x


async def generates_later(x: int) -> AsyncIterator[int]:
    yield x


def none_by_default(x: int = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013
def out_of_bounds(x: Annotated[int, Field(ge=3)] = 1) -> None: ...
def unsayable(x: object = object()) -> None: ...
def not_json(f: Callable[[int], int]) -> None: ...
def opaque(x: memoryview) -> None: ...
def opaque_result(x: int) -> memoryview: ...  # type: ignore[empty-body]
def unknown(x: Unknown) -> None: ...
def evil(x: Annotated[str, Field(pattern="^(a+)+$")]) -> None: ...
def two_contexts(a: ToolContext, b: ToolContext) -> None: ...
def field_default(x: int = Field(default=3)) -> None: ...
def good(x: int) -> None: ...


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: tool(no_annotation), "parameter 'x' of tool 'no_annotation' has no annotation; write what it takes"),
    (lambda: tool(Service.find), "bound method"),
    (lambda: tool(stars), "takes \\*xs"),
    (lambda: tool(double_stars), "takes \\*\\*xs"),
    (lambda: tool(positional), "positional-only"),
    (lambda: tool(generates), "is a generator"),
    (lambda: tool(generates_later), "is a generator"),
    (lambda: tool(none_by_default), "default of parameter 'x' .* must be a whole number, not null; write x: … | None"),
    (lambda: tool(out_of_bounds), "must be at least 3, not 1"),
    (lambda: tool(unsayable), "parameter 'x'"),
    (lambda: tool(not_json), "schema"),
    (lambda: tool(opaque), "parameter 'x' .* is a memoryview, which JSON cannot say"),
    (lambda: tool(opaque_result), "returns a memoryview, which JSON cannot say"),
    (lambda: tool(unknown), "annotated with 'Unknown'"),
    (lambda: tool(evil), "exponential"),
    (lambda: tool(two_contexts), "two parameters of type ToolContext"),
    (lambda: tool(field_default), "Annotated"),
    (lambda: tool(lambda x: x), "a lambda has no name"),
    (lambda: tool(Service), "is a class"),
    (lambda: tool(3), "not of an int"),  # type: ignore[call-overload]
    (lambda: tool(tool(good)), "a tool already"),
    (lambda: tool(name="no spaces")(good), "cannot name a tool"),
    (lambda: tool(name="a" * 65)(good), "at most 64"),
    (lambda: tool(name="1st")(good), "cannot name a tool"),
    (lambda: tool(name="a\n")(good), "cannot name a tool"),
    (lambda: tool(name="ä")(good), "cannot name a tool"),
    (lambda: tool(name="")(good), "cannot name a tool"),
    (lambda: tool(effect="read")(good), "there are reads, writes, acts; did you mean 'reads'"),
    (lambda: tool(timeout=0)(good), "above 0"),
    (lambda: tool(timeout=-1)(good), "above 0"),
    (lambda: tool(timeout=float("nan"))(good), "above 0"),
    (lambda: tool(timeout=float("inf"))(good), "above 0"),
    (lambda: tool(timeout=True)(good), "above 0"),
    (lambda: tool(timeout="5")(good), "above 0"),  # type: ignore[call-overload]
    (lambda: tool(permissions=["crm:*"])(good), "without wildcards"),
    (lambda: tool(permissions=[""])(good), "cannot need"),
    (lambda: tool(permissions=3)(good), "must be texts"),  # type: ignore[call-overload]
    (lambda: tool(version=2)(good), "version .* must be text"),  # type: ignore[call-overload]
    (lambda: tool(examples={"x": 1})(good), "list of arguments"),  # type: ignore[dict-item]
    (lambda: tool(examples=[{"x": "a"}])(good), "example 1 .* /x must be a whole number"),
    (lambda: tool(examples=[{"x": 1}, {"y": 1}])(good), "example 2"),
    (lambda: tool(examples=[{"x": object()}])(good), "is no JSON"),
    (lambda: tool(soft_failure="result.")(good), "is no expression"),
    (lambda: tool(soft_failure="reslut == 1")(good), "knows only 'result', not 'reslut'"),
    (lambda: tool(soft_failure=3)(good), "as text"),  # type: ignore[call-overload]
    (lambda: tool(requires_approval="always")(good), "True, False, 'each'"),
    (lambda: tool(requires_approval="args.x >")(good), "is no expression"),
    (lambda: tool(requires_approval=3)(good), "True, False, 'each'"),  # type: ignore[call-overload]
    (lambda: tool(level="hihg")(good), "did you mean 'high'"),
    (lambda: tool(tags=[""])(good), "must be words"),
    (lambda: tool(cost=-1)(good), "a number from 0"),
    (lambda: tool(host="https://a.example/x")(good), "without scheme or path"),
    (lambda: tool(secret_refs=["token"])(good), "which parameter gets which secret"),  # type: ignore[call-overload]
    (lambda: tool(simulate=3)(good), "must be a function"),  # type: ignore[call-overload]
    (lambda: tool(undo="a b")(good), "cannot name a tool"),
    (lambda: tool(efect="reads"), "no option 'efect'; did you mean 'effect'"),  # type: ignore[call-overload]
    (lambda: Tool.declare("t", input_schema={"type": "array"}), "must be of type object"),
    (lambda: Tool.declare("t", input_schema={"$ref": "http://x/y"}), "input schema .* leads out"),
    (lambda: Tool.declare("t", input_schema={}, output_schema={"type": "x"}), "output schema .* no type"),
    (lambda: Tool.declare("t", input_schema={}, efect="reads"), "did you mean 'effect'"),
    (lambda: Tool.declare("t\x1b[31m", input_schema={}), "cannot name a tool"),
    (lambda: Tool.declare("t", 3, input_schema={}), "description .* must be text"),  # type: ignore[arg-type]
    (lambda: tool(good).renamed("a b"), "cannot name a tool"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "words"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_a_tool_is_refused_with_a_sentence(make: Callable[[], Any], words: str) -> None:
    """Everything that can be checked is checked at registration, and the sentence says what to do."""
    with pytest.raises(ToolRefused, match=words):
        make()


def test_names_that_services_use_are_fine() -> None:
    """Dots, dashes, underscores, 64 characters."""
    assert [tool(name=n)(good).name for n in ("crm.find-it", "_a", "A9", "a" * 64)]


# ---- declared tools ----------------------------------------------------------------------------------------------------------

ASK = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}


def test_a_tool_can_be_declared_by_its_schemas() -> None:
    """`call` gets a copy of the arguments as one dict, and the context if it has room for it."""
    seen: list[Any] = []
    one = Tool.declare("one", input_schema=ASK, call=lambda args: seen.append(args))
    two = Tool.declare(
        "two",
        "Two.",
        input_schema=ASK,
        output_schema=ASK,
        call=lambda args, ctx: seen.append(ctx),
        effect="reads",
    )
    args = {"q": "x"}
    one.invoke(args, CONTEXT)
    two.invoke(args, CONTEXT)
    assert seen == [{"q": "x"}, CONTEXT]
    assert seen[0] is not args
    assert two.output is not None
    assert not one.input.accepts({"q": "x", "other": 1})


@pytest.mark.anyio
async def test_a_declared_tool_may_be_async() -> None:
    """Async functions, partials and callable objects are seen as such."""

    async def call(args: dict[str, Any]) -> Any:
        return args["q"]

    made = Tool.declare("t", input_schema=ASK, call=call)
    assert made.is_async
    assert await made.invoke({"q": "x"}, CONTEXT) == "x"


def test_a_tool_without_a_call_can_be_planned_with_and_not_called() -> None:
    """Calling it is a failure of kind business, not a crash."""
    made = Tool.declare("t", input_schema=ASK)
    with pytest.raises(Exception, match="known by its schema only") as caught:
        made.invoke({"q": "x"}, CONTEXT)
    assert classify(caught.value).code == "not_callable"


def test_what_strangers_write_is_made_visible() -> None:
    """Descriptions with control characters are escaped, long ones cut; data in the schema is left alone."""
    made = Tool.declare(
        "t",
        "say \x1b[31mhi\u202e" + "x" * 10_000,
        input_schema={
            "type": "object",
            "description": "a\x9b",
            "properties": {"description": {"title": "b\u200b", "enum": ["c\u200b"], "type": "string"}},
        },
    )
    assert made.description.startswith("say \\x1b[31mhi\\u202e")
    assert len(made.description) <= 8192
    assert made.input.document["description"] == "a\\x9b"
    assert made.input.document["properties"]["description"]["title"] == "b\\u200b"
    assert made.input.accepts({"description": "c\u200b"})


# ---- contracts ------------------------------------------------------------------------------------------------------------------


def test_a_fingerprint_changes_with_anything_bound() -> None:
    """Threat 9: each part of the contract, and the code itself, changes it; nothing else does."""

    def first(x: int) -> int:
        return x

    def second(x: int) -> int:
        return x + 1

    def make(function: Callable[..., Any] = first, **options: Any) -> str:
        return tool(name="t", **options)(function).fingerprint

    changed: list[str] = [
        make(second),
        make(description="d"),
        make(effect="reads"),
        make(permissions="a"),
        make(version="1"),
        make(timeout=1),
        make(timeout=None),
        make(requires_approval=True),
        make(requires_approval="each"),
        make(soft_failure="result == 1"),
        tool(name="u")(first).fingerprint,
    ]
    assert make() == make() == make(examples=[{"x": 1}])
    assert len({make(), *changed}) == len(changed) + 1


def test_source_is_digested_where_it_can_be_read() -> None:
    """A function made from text has none; a method, a partial and an object have that of their code."""
    space: dict[str, Any] = {}
    exec("def f(x: int) -> int: return x", space)  # a function whose source nobody has
    assert tool(space["f"]).source_digest is None
    digests = [tool(f).source_digest for f in (keyed, functools.partial(keyed, key="k"))]
    assert digests[0] == digests[1]
    assert str(digests[0]).startswith("sha256:")
    assert tool(name="ask")(Service()).source_digest not in (None, digests[0])


def test_a_recorded_contract_is_a_tool_again() -> None:
    """For reading journals where the code is not: the same contract, the same fingerprint, and no call."""
    for made in (read_ledger, tool(timeout=None, soft_failure="result == 1", requires_approval="each")(good)):
        again = Tool.from_contract(json.loads(json.dumps(made.contract())))
        assert again.contract() == made.contract()
        assert again.fingerprint == made.fingerprint
        with pytest.raises(Exception, match="known by its schema only"):
            again.invoke({}, CONTEXT)


def test_soft_failures_are_expressions_over_the_result() -> None:
    """Parsed once, at registration."""
    made = tool(soft_failure="result.get('error')")(good)
    assert made.soft_failure is not None
    assert made.soft_failure.evaluate({"result": {"error": "no"}}) == "no"


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="from Python 3.12 on, pydantic takes typing.TypedDict"
)
def test_a_typed_dict_that_is_too_old_for_pydantic_is_refused_with_the_way_out() -> None:
    """The sentence names the module to take it from, for parameters and results."""

    class Old(TypedDict):
        a: int

    def gives() -> list[Old]:
        """Gives some."""
        return []

    def takes(x: Old) -> int:
        """Takes one."""
        return 1

    for function in (gives, takes):
        function.__annotations__ = {
            name: {"list[Old]": list[Old], "Old": Old, "int": int}.get(hint, hint)
            for name, hint in function.__annotations__.items()
        }
        with pytest.raises(ToolRefused, match="take TypedDict from typing_extensions"):
            tool(effect="reads")(function)
