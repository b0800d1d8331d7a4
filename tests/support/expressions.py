"""Random expressions and data for property tests: valid ones, near misses, and noise."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "b", "rows", "n")
KEYS = ("x", "y", "class", "items", "名")

SCOPE: dict[str, Any] = {
    "a": {"x": 1, "y": [1, 2, 3], "class": "k", "items": [{"x": 2.5}], "名": "n"},
    "b": "text with words",
    "rows": [{"x": 1, "y": "p"}, {"x": 2, "y": "q"}, {"x": 2, "y": "p"}],
    "n": None,
}

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["{{a}}", "${a.x}", "$a", "steps.a.output", '{"$": "a"}', "$1", "f'{a}'"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4) | st.just("$"), inner, max_size=4)
    ),
    max_leaves=12,
)

_ATOMS = st.one_of(
    st.sampled_from([*NAMES, "v", "True", "False", "None", "[]", "{}", "'2024-02-28'", "'10:00'"]),
    st.integers(0, 10**6).map(str),
    st.floats(0, 1e9, allow_nan=False).map(repr),
    st.text("abc é{}\\'\"n", max_size=5).map(repr),
)

_FORMS = (
    *[f"(<> {sign} <>)" for sign in ["+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "and", "or", "in"]],
    *[f"<> {sign} <>" for sign in ["+", "-", "*", "/", "%", "**", "==", "<", "and", "or", "not in"]],
    "-<>", "(not <>)", "(<> is None)", "(<> is not True)", "(<> if <> else <>)", "<> < <> == <>",
    "(<>).x", "(<>).items", "(<>).名", "(<>)[<>]", "(<>)[0]", "(<>)[-1].y", "(<>)[<>:<>]", "(<>)[::<>]",
    "[<>, <>]", "(<>, <>)", "(<>,)", "{'k': <>, **(<>)}", "{'k' + <>: <>}",
    "[<> for v in <> if <>]", "[[v, w, <>] for v, w in <> for u in <> if <>]", "[<> for (v, (w, u)) in <>]",
    "{str(<>): <> for v in <> if <>}", "{k: <> for k, v in (<>).items()}",
    *[f"{name}(<>)" for name in ["len", "sum", "min", "max", "sorted", "any", "all", "abs", "round", "str", "number", "zip", "enumerate", "range", "reversed"]],
    *[f"{name}(<>)" for name in ["unique", "flat", "first", "running"]],
    *[f"{name}(<>, key=lambda v: <>)" for name in ["sorted", "min", "max", "group", "unique", "index"]],
    "sum(<> for v in <>)", "any(<> for v in <> if <>)", "min(<>, default=<>)", "round(<>, <>)", "zip(<>, <>)", "number(<>, <>)",
    "shift(<>, days=<>, months=1)", "between(<>, <>, 'hours')", "format_time(<>, '%d %B %H')", "format_time(<>, <>)",
    "join(<>, <>, on='x')", "join(<>, <>, left_on=<>, right_on='x', how='outer')",
    "(<>).get(<>, <>)", "(<>).startswith(<>)", "(<>).join(<>)", "(<>).split(<>)", "(<>).strip(<>)", "(<>).replace(<>, <>)",
    *[f"(<>).{name}()" for name in ["keys", "values", "items", "lower", "upper", "strip", "split"]],
    "f'{<q>} and {<q>:>4}'", "f\'\'\'{<q>:.2f}\'\'\'", "'a' f'{<q>:,}' 'b'",
)  # fmt: skip
"""Expressions with holes; `<q>` is for one that Python 3.11 accepts inside an f-string."""


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """A text that is an expression of the language; most have a value for `SCOPE` or fail politely."""

    def fill(depth: int) -> str:
        if depth == 0:
            return draw(_ATOMS)
        form = draw(st.sampled_from(_FORMS))
        return re.sub("<q?>", lambda hole: quoted(depth - 1) if hole[0] == "<q>" else fill(depth - 1), form)

    def quoted(depth: int) -> str:
        text = fill(depth)
        return text if not set(text) & set("'\"\\{") else "n"

    return fill(draw(st.integers(0, 3)))


_PIECES = [
    *NAMES, *KEYS, "for", "in", "if", "else", "not", "and", "or", "is", "lambda", "x:", "key=", "None", "True", "len", "sum",
    "sorted", "group", "join", "index", "(", ")", "[", "]", "{", "}", ",", ":", ".", "+", "-", "*", "**", "/", "%", "==", "=",
    "<", ">", "!", "&&", "||", "===", "?", "$", "{{", "}}", "${", "'", '"', "'''", "f'", 'f"', "rf'", "\\", "\\x", "\\u12",
    "0", "1", "2.5", "1e9", "9**9", "'a'*9", "0x1", "1_0", "__class__", "__import__", "await", "yield", ":=", "...", "#",
    "@", ";", "\n", "\t", " ", "\0", "\ud800", "é", "𝒳", "{x}", "{x!r}", "{x:>9}", "range(9)", ".items()", ".get(", ".x", "[0]",
]  # fmt: skip

noise: st.SearchStrategy[str] = st.tuples(
    st.sampled_from(["", " "]), st.lists(st.sampled_from(_PIECES), max_size=25)
).map(lambda made: made[0].join(made[1]))
"""Texts made of the right pieces in the wrong order."""


class Typed:
    """Texts that Python itself evaluates to the same value: integers, texts, booleans and lists of the first two."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.names: dict[str, list[str]] = {"int": ["i", "j"], "str": ["s"], "ints": ["xs"], "strs": ["ts"]}
        self.fresh = 0

    def of(self, kind: str, depth: int) -> str:
        """A text of this type, at most so deep."""
        if depth <= 0:
            return self.leaf(kind)
        made: str = getattr(self, f"any_{kind}")(depth - 1)
        return made

    def leaf(self, kind: str) -> str:
        draw = self.draw
        match kind:
            case "int":
                return draw(st.sampled_from(self.names["int"]) | st.integers(-9, 99).map(lambda n: f"({n})"))
            case "str":
                return draw(st.sampled_from(self.names["str"]) | st.text("ab ,É", max_size=3).map(repr))
            case "bool":
                return draw(st.sampled_from(["True", "False"]))
            case _:
                return draw(st.sampled_from(self.names[kind]))

    def pick(self, *templates: str) -> str:
        return self.draw(st.sampled_from(templates))

    def fill(self, template: str, depth: int) -> str:
        """A template with `int`, `str`, `bool`, `ints`, `strs` in < > replaced by texts of that type."""
        return re.sub("<(ints?|strs?|bool)>", lambda hole: self.of(hole[1], depth), template)

    def any_int(self, depth: int) -> str:
        template = self.pick(
            "(<int> + <int>)", "(<int> - <int>)", "(<int> * <int>)", "(<int> // <int>)", "(<int> % <int>)", "(-<int>)",
            "<int> + <int> * <int>", "(<int> if <bool> else <int>)", "len(<strs>)", "len(<str>)", "sum(<ints>)", "abs(<int>)",
            "min(<ints>)", "max(<int>, <int>)", "<ints>[<int>]", "max(<ints>, key=lambda v: -v)", "round(<int>, -1)",
            "(<int> or <int>)", "(<int> and <int>)", "min(<ints>, default=<int>)", "(<int> ** 2)", "len(<ints>[<int>:<int>])",
        )  # fmt: skip
        return self.fill(template, depth)

    def any_bool(self, depth: int) -> str:
        template = self.pick(
            "(<int> < <int>)", "(<int> == <int>)", "(<str> <= <str>)", "(<str> != <str>)", "(<int> <= <int> < <int>)",
            "(not <bool>)", "(<bool> and <bool>)", "(<bool> or <bool>)", "(<int> in <ints>)", "(<str> in <str>)",
            "(<str> not in <strs>)", "any(<ints>)", "all(<strs>)", "<str>.startswith(<str>)", "(<ints> == <ints>)",
            "(<ints> < <ints>)", "(<int> == <str>)", "(<bool> is True)", "<str>.endswith(<str>)", "(not <ints>)",
        )  # fmt: skip
        return self.fill(template, depth)

    def any_str(self, depth: int) -> str:
        template = self.pick(
            "(<str> + <str>)", "(<str> * <int>)", "<str>.upper()", "<str>.lower()", "<str>.strip()", "<str>[<int>:<int>]",
            "<str>[::-1]", "str(<int>)", "<str>.join(<strs>)", "<str>.replace(<str>, <str>)", "(<str> if <bool> else <str>)",
            "f'''{<int>}-{<str>}'''", "f'''{<int>:>6}{<str>:<4}|'''", "f'''{<int>:,}{<int>:+d}{<int>:05d}'''",
            "f'''{<str>:^7.2}{<bool>}'''", "<strs>[<int>]", "<str>.strip(<str>)", "max(<strs>)", "f'''{<int>:.1%}'''",
        )  # fmt: skip
        made = self.fill(template, depth)
        # Python 3.11 knows no quotes and no backslash inside the fields of an f-string.
        return made if not made.startswith("f'''") or not set(made[4:-3]) & set("'\"\\") else "'f'"

    def any_ints(self, depth: int) -> str:
        if self.pick("loop", "plain") == "loop":
            return self.loop("<int>", "ints", depth)
        template = self.pick(
            "[<int>, <int>]", "sorted(<ints>)", "<ints>[<int>:<int>]", "(<ints> + <ints>)", "(<ints> * 2)", "[]",
            "sorted(<ints>, key=lambda v: v % 3, reverse=<bool>)", "list_of(range(<int>))", "list_of(reversed(<ints>))",
            "<ints>[::2]", "[len(w) for w in <strs>]", "[p + q for p, q in zip(<ints>, <ints>)]",
            "[n * e for n, e in enumerate(<ints>, <int>)]", "[e for row in [<ints>, <ints>] for e in row]",
        )  # fmt: skip
        return self.fill(template, depth)

    def any_strs(self, depth: int) -> str:
        if self.pick("loop", "plain") == "loop":
            return self.loop("<str>", "strs", depth)
        template = self.pick(
            "[<str>, <str>]", "sorted(<strs>)", "<strs>[<int>:]", "<str>.split()", "<str>.split(',')", "<str>.split(' ', 1)",
            "sorted(<strs>, key=lambda v: (len(v), v))", "[str(v) for v in <ints>]", "(<strs> + <strs>)",
        )  # fmt: skip
        return self.fill(template, depth)

    def loop(self, element: str, source: str, depth: int) -> str:
        kind = source[:-1]
        rows = self.of(source, depth)
        self.fresh += 1
        name = self.pick(f"v{self.fresh}", {"int": "i", "str": "s"}[kind])
        kept = self.names[kind]
        self.names[kind] = [*kept, name]
        made = f"[{self.fill(element, depth)} for {name} in {rows} if {self.of('bool', depth - 1)}]"
        self.names[kind] = kept
        return made


TYPED_SCOPE: dict[str, Any] = {"i": 7, "j": -3, "s": "a, b É", "xs": [3, 1, 2, 1], "ts": ["b", "a b", ""]}


@st.composite
def typed(draw: st.DrawFn) -> str:
    """A text that is an expression here and in Python, with the same value."""
    kind = draw(st.sampled_from(["int", "bool", "str", "ints", "strs"]))
    return Typed(draw).of(kind, draw(st.integers(1, 4)))
