"""Whole constructs of other languages, rewritten: methods and arrow functions, filters behind `|`, jq and JSONPath, templates.

    a.rows.filter(r => r.n > 1).length      len([r for r in a.rows if r.n > 1])
    a.rows | map(attribute="id") | list     [x.id for x in a.rows]
    .a.rows[].id                            [x.id for x in a.rows]
    Hello {{a.name}}                        f'Hello {a.name}'

For suggestions only: text is rewritten from left to right, one construct at a time, with quoted text set aside. Whether
the outcome is an expression is for the parser to say; what is not known here stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .functions import FUNCTIONS, METHODS

__all__ = ["rewritten"]

_LONGEST = 2_000
"""Characters; longer texts are left alone."""
_ROUNDS = 24
"""So many constructs are rewritten in one text."""

_QUOTED = re.compile(r"(?<![A-Za-z0-9_])[fFrR]{0,2}(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')")
_ASIDE = re.compile(r"q__(\d+)__")
_TEMPLATE = re.compile(r"\{\{(.+?)\}\}|\$\{([^{}]+)\}")
_WHOLE = re.compile(r"\{\{((?:(?!\}\}).)+)\}\}|\$\{([^{}]+)\}|`[^`]*`", re.DOTALL)
_ARROW = re.compile(
    r"(?:\(\s*([A-Za-z_]\w*)\s*(?:,\s*([A-Za-z_]\w*)\s*)?\)|([A-Za-z_]\w*))\s*=>\s*(.+)", re.DOTALL
)
_LAMBDA = re.compile(r"lambda\s+([A-Za-z_]\w*)\s*:\s*(.+)", re.DOTALL)
_METHOD = re.compile(r"\.\s*([A-Za-z_]\w*)\s*(\()?")
_FILTER = re.compile(r"(?<!\|)\|(?!\|)\s*([A-Za-z_]\w*)\s*(\()?")
_CALL = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\s*\(")
_EACH = re.compile(r"\[\s*\*?\s*\]((?:\.[A-Za-z_]\w*)*)(?:\s*\|\s*((?:\.[A-Za-z_]\w*)+|select\())?")
_STEP = re.compile(r"\bsteps\[(['\"])(\w+)\1\]")
_STEP_RESULT = re.compile(
    r"\b(steps(?:\.\w+|\[['\"]\w+['\"]\]))(?:\.(?:outputs?|result)\b|\[['\"](?:outputs?|result)['\"]\])"
)
_OPERATORS = re.compile(
    r"(?:(?:[<>=!]=?=?|&&|\|\||[-+*/]|and|or|not|in|is|none|null|true|false|\d+(?:\.\d+)?|q__\d+__|[()])(?:\s|$))+",
    re.IGNORECASE,
)
_PATH = re.compile(r"[A-Za-z_][\w.\[\]]*")
_DOT = re.compile(r"(?<![\w\])'\"])\.(?=[A-Za-z_])")
_ATTRIBUTE = re.compile(r"(?:attribute\s*=\s*)?(q__\d+__)")

Build = Callable[[str, list[str]], str | None]


def rewritten(text: str) -> str:
    """The text with what is known of other languages rewritten; the very text where nothing is."""
    if len(text) > _LONGEST:
        return text
    text = _STEP.sub(r"steps.\2", _STEP_RESULT.sub(r"\1", text))
    filled = _filled(text)
    if filled:
        return filled
    aside: list[str] = []

    def put_aside(match: re.Match[str]) -> str:
        aside.append(match[0])
        return f"q__{len(aside) - 1}__"

    bare = _plain_start(_QUOTED.sub(put_aside, text))
    for _ in range(_ROUNDS):
        new = _one(bare)
        if new is None:
            break
        bare = new
    return _ASIDE.sub(lambda match: aside[int(match[1])] if int(match[1]) < len(aside) else match[0], bare)


def _filled(text: str) -> str:
    """A template with holes as an f-string; nothing where the text is none, or is one hole and no more."""
    inner = text.strip().replace("{{{", "{{").replace("}}}", "}}")
    if inner.startswith("`") and inner.endswith("`") and inner.count("`") == 2:
        inner = inner[1:-1]
        if not _TEMPLATE.search(inner):
            return inner if _PATH.fullmatch(inner) else repr(inner)
    elif not _TEMPLATE.search(inner) or _WHOLE.fullmatch(inner) or inner[:1] in "'\"(":
        return ""
    if _is_sum(inner):
        return _TEMPLATE.sub(lambda match: rewritten((match[1] or match[2]).strip()), inner)
    pieces, at = [], 0
    for match in _TEMPLATE.finditer(inner):
        pieces += [_fixed(inner[at : match.start()]), "{" + rewritten((match[1] or match[2]).strip()) + "}"]
        at = match.end()
    body = "".join(pieces) + _fixed(inner[at:])
    quote = '"' if "'" in body else "'"
    return "" if quote in body or "\n" in body else f"f{quote}{body}{quote}"


def _is_sum(text: str) -> bool:
    """Whether the holes of a template are joined by operators, with spaces around them: `{{a.n}} > 1`."""
    between = " ".join(_TEMPLATE.sub(" ", _QUOTED.sub("q__0__", text)).split())
    return (
        text[:2] in ("{{", "${")
        and _OPERATORS.fullmatch(between) is not None
        and "}} " in text.replace("} ", "}} ")
    )


def _fixed(text: str) -> str:
    return text.replace("\\", "\\\\").replace("{", "{{").replace("}", "}}")


def _plain_start(text: str) -> str:
    """Without the signs that other languages put before or around a whole expression."""
    text = text.strip().rstrip(";").strip()
    text = re.sub(r"^return\s+", "", text)
    text = re.sub(r"^[#@]\{?([^{}]*)\}?$", r"\1", text)
    text = re.sub(r"^\{\s*(?!q__)([A-Za-z_][\w.\[\]]*)\s*\}$", r"\1", text)
    text = re.sub(r"^\[\s*\.(?=[A-Za-z_])", "[", text)
    text = re.sub(r"\$\.(?=[A-Za-z_])", "", text)
    text = re.sub(r"->(?=[A-Za-z_])", ".", text)
    text = text.replace("?.[", "[")
    if text.startswith(".") and len(text) > 1 and (text[1].isalpha() or text[1] == "_"):
        text = text[1:]
    return re.sub(r"(?<![=!<>])=(?![=>])(?![^()]*\))", "==", text) if "(" not in text else text


def _one(text: str) -> str | None:
    """The text with one construct rewritten; None where there is none left."""
    for rewrite in (_each, _piped, _spread, _called, _chained, _asked, _otherwise):
        new = rewrite(text)
        if new is not None and new != text:
            return new
    return None


# ---- finding the parts ---------------------------------------------------------------------------------------------

_PAIRS = {")": "(", "]": "[", "}": "{"}


def _start(text: str, end: int) -> int:
    """Where the primary (`a.b[0](c)`) that ends here starts."""
    at = end
    while at > 0:
        sign = text[at - 1]
        if sign in _PAIRS:
            opened = _opening(text, at - 1)
            if opened < 0:
                return at
            at = opened
        elif sign.isalnum() or sign in "_." or (sign == "?" and text[at : at + 1] == "."):
            at -= 1
        else:
            break
    return at


def _opening(text: str, close: int) -> int:
    depth = 0
    for at in range(close, -1, -1):
        if text[at] in ")]}":
            depth += 1
        elif text[at] in "([{":
            depth -= 1
            if depth == 0:
                return at
    return -1


def _closing(text: str, opened: int) -> int:
    depth = 0
    for at in range(opened, len(text)):
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}":
            depth -= 1
            if depth == 0:
                return at
    return -1


def _arguments(text: str, opened: int) -> tuple[list[str], int] | None:
    """The arguments in the brackets that open here, and where they end."""
    close = _closing(text, opened)
    if close < 0:
        return None
    parts, depth, at = [], 0, opened + 1
    for place in range(opened + 1, close):
        depth += (text[place] in "([{") - (text[place] in ")]}")
        if text[place] == "," and depth == 0:
            parts.append(text[at:place].strip())
            at = place + 1
    last = text[at:close].strip()
    return ([*parts, last] if last or parts else []), close + 1


def _function(text: str) -> tuple[str, str] | None:
    """The parameter and the body of `x => …`, `(x, i) => …`, `lambda x: …` and of jq's `.field`."""
    match = _ARROW.fullmatch(text)
    if match and match[2]:
        return f"{match[2]}, {match[1]}", match[4]
    if match:
        return match[1] or match[3], match[4]
    match = _LAMBDA.fullmatch(text)
    if match:
        return match[1], match[2]
    return ("x", _DOT.sub("x.", text)) if _DOT.search(text) else None


def _over(name: str, items: str) -> tuple[str, str]:
    """`for … in …` with a second parameter as the number; the name alone where one parameter is."""
    if ", " in name:
        return name.split(", ")[1], f"for {name} in enumerate({items})"
    return name, f"for {name} in {items}"


# ---- one function for each kind of construct -----------------------------------------------------------------------


def _each(text: str) -> str | None:
    """`rows[].id`, `rows[*].id`, `rows[] | .id`, `rows[] | select(.n > 1)`: something of every element."""
    match = _EACH.search(text)
    if (
        match is None
        or match.start() == 0
        or not (text[match.start() - 1].isalnum() or text[match.start() - 1] in "_])")
    ):
        return None
    start = _start(text, match.start())
    items, path, then = text[start : match.start()], match[1], match[2] or ""
    if then.startswith("select"):
        found = _arguments(text, match.end() - 1)
        if found is None or len(found[0]) != 1:
            return None
        (test,), end = found
        return f"{text[:start]}[x{path} for x in {items} if {_DOT.sub('x.', test)}]{text[end:]}"
    before, end = text[:start], match.end()
    if before.rstrip().endswith("[") and text[end:].lstrip().startswith("]"):  # jq: [.rows[] | .id]
        before, end = before.rstrip()[:-1], end + text[end:].index("]") + 1
    return f"{before}[x{path}{then} for x in {items}]{text[end:]}"


def _piped(text: str) -> str | None:
    """`x | filter(…)` of Jinja and jq."""
    match = _FILTER.search(text)
    if match is None:
        return None
    args: list[str] = []
    end = match.end(1)
    if match[2]:
        found = _arguments(text, match.end() - 1)
        if found is None:
            return None
        args, end = found
    place = len(text[: match.start()].rstrip())
    start = _start(text, place)
    build = _FILTERS.get(match[1])
    new = build(text[start:place], args) if build and start < place else None
    return None if new is None else text[:start] + new + text[end:]


def _spread(text: str) -> str | None:
    """`[...a, 1]` and `{...a, x: 1}`."""
    match = re.search(r"([\[{])\s*\.\.\.\s*", text)
    found = _arguments(text, match.start()) if match else None
    if match is None or found is None:
        return None
    parts, end = found
    if match[1] == "{":
        keyed = [re.sub(r"^([A-Za-z_]\w*)\s*:", r"'\1':", part.replace("...", "**")) for part in parts]
        return f"{text[: match.start()]}{{{', '.join(keyed)}}}{text[end:]}"
    lists = [part[3:].strip() if part.startswith("...") else f"[{part}]" for part in parts]
    return f"{text[: match.start()]}{' + '.join(lists)}{text[end:]}"


def _called(text: str) -> str | None:
    """Functions of other languages: `list(…)`, `Number(…)`, `map(lambda x: …, list)`."""
    for match in _CALL.finditer(text):
        build = _CALLS.get(match[1])
        found = _arguments(text, match.end() - 1) if build else None
        if build is None or found is None:
            continue
        args, end = found
        new = build(args[0], args[1:]) if args else None
        if new is not None:
            return text[: match.start()] + new + text[end:]
    return None


def _chained(text: str) -> str | None:
    """Methods of other languages, the leftmost first: what it stands behind is an expression by then."""
    for match in _METHOD.finditer(text):
        name, start = match[1], _start(text, match.start())
        whole, end, args = text[start : match.start()], match.end(1), None
        if match[2]:
            found = _arguments(text, match.end() - 1)
            if found is None:
                continue
            args, end = found
        new = _method(whole, name, args)
        if new is not None:
            return text[:start] + new + text[end:]
    return None


def _method(whole: str, name: str, args: list[str] | None) -> str | None:
    if not whole:
        return None
    if args is None:
        return f"len({whole})" if name in ("length", "size") and whole[-1] in "])" else None
    if whole in ("Math", "Object", "JSON", "Array"):
        return _static(name, args)
    if name in _ASKS:
        return _ASKS[name](whole, args)
    if name in FUNCTIONS and name not in METHODS and not name.startswith("format"):
        return f"{name}({', '.join([whole, *args])})"
    return None


def _static(name: str, args: list[str]) -> str | None:
    if name in ("keys", "values", "entries") and len(args) == 1:
        return f"{args[0]}.{'items' if name == 'entries' else name}()"
    if name == "floor" and len(args) == 1:
        return f"{args[0]} // 1"
    if name == "stringify" and args:
        return f"str({args[0]})"
    return f"{name}({', '.join(args)})" if name in FUNCTIONS else None


def _asked(text: str) -> str | None:
    """Tests of Jinja and SQL: `x is defined`, `x is empty`, `x not null`."""
    for pattern, new in _TESTS:
        found = pattern.sub(new, text)
        if found != text:
            return found
    return None


_TESTS = (
    (re.compile(r"\bis\s+not\s+(?:defined|present|set)\b"), "is None"),
    (re.compile(r"\bis\s+(?:defined|present|set)\b"), "is not None"),
    (re.compile(r"\bis\s+undefined\b"), "is None"),
    (re.compile(r"\bis\s+not\s+empty\b"), "!= []"),
    (re.compile(r"\bis\s+empty\b"), "== []"),
    (re.compile(r"(?<!is )\bnot\s+null\b"), "is not None"),
)


def _otherwise(text: str) -> str | None:
    """`x ?? y`: x, or y where it is null."""
    left, sign, right = text.partition("??")
    left, right = left.rstrip(), right.lstrip()
    start = _start(left, len(left))
    value = left[start:]
    if not sign or not value or not right or "??" in right:
        return None
    last = re.fullmatch(r"(.+)\?\.([A-Za-z_]\w*)", value)
    new = f"{last[1]}.get('{last[2]}', {right})" if last else f"{value} if {value} is not None else {right}"
    return left[:start] + new


# ---- tables --------------------------------------------------------------------------------------------------------


def _mapped(items: str, args: list[str]) -> str | None:
    function = _function(args[0]) if args else None
    if function is None:
        return _plucked(items, args)
    name, over = _over(function[0], items)
    inner = f"[{name} for {name} in "  # what a filter before it became
    if ", " not in function[0] and items.startswith(inner):
        return f"[{function[1]}{items[len(name) + 1 :]}"
    return f"[{function[1]} {over}]"


def _plucked(items: str, args: list[str]) -> str | None:
    match = _ATTRIBUTE.fullmatch(args[0]) if len(args) == 1 else None
    return f"[x[{match[1]}] for x in {items}]" if match else None


def _filtered(items: str, args: list[str]) -> str | None:
    function = _function(args[0]) if len(args) == 1 else None
    if function is None:
        return None
    name, over = _over(function[0], items)
    return f"[{name} {over} if {function[1]}]"


def _found(form: str) -> Build:
    def build(items: str, args: list[str]) -> str | None:
        function = _function(args[0]) if len(args) == 1 else None
        return form.format(x=function[0], test=function[1], items=items) if function else None

    return build


def _reduced(items: str, args: list[str]) -> str | None:
    """`reduce((sum, x) => sum + x.n, 0)` is a sum."""
    match = _ARROW.fullmatch(args[0]) if len(args) == 2 and args[1] == "0" else None
    if match is None or not match[2]:
        return None
    total, name, body = match[1], match[2], match[4].strip()
    added = re.fullmatch(rf"{total}\s*\+\s*(.+)", body)
    return f"sum({added[1]} for {name} in {items})" if added else None


def _form(form: str, count: int = 0) -> Build:
    """A form with `x` for what stands before, and as many arguments."""

    def build(x: str, args: list[str]) -> str | None:
        return form.format(*args, x=x) if len(args) == count else None

    return build


def _sliced(x: str, args: list[str]) -> str | None:
    return f"{x}[{':'.join([*args, ''][:2])}]" if args else x


def _fixed_point(x: str, args: list[str]) -> str | None:
    return f"f'{{{x}:.{args[0] if args else 0}f}}'" if "q__" not in x else None


_ASKS: dict[str, Build] = {
    "map": _mapped,
    "pluck": _plucked,
    "filter": _filtered,
    "flatMap": lambda x, args: f"flat({_mapped(x, args)})" if _mapped(x, args) else None,
    "find": _found("first([{x} for {x} in {items} if {test}], None)"),
    "some": _found("any({test} for {x} in {items})"),
    "every": _found("all({test} for {x} in {items})"),
    "reduce": _reduced,
    "length": _form("len({x})"),
    "size": _form("len({x})"),
    "count": _form("len({x})"),
    "isEmpty": _form("{x} == []"),
    "includes": _form("{0} in {x}", 1),
    "contains": _form("{0} in {x}", 1),
    "has": _form("{0} in {x}", 1),
    "hasOwnProperty": _form("{0} in {x}", 1),
    "toUpperCase": _form("{x}.upper()"),
    "toLowerCase": _form("{x}.lower()"),
    "trim": _form("{x}.strip()"),
    "lstrip": _form("{x}.strip()"),
    "rstrip": _form("{x}.strip()"),
    "startsWith": _form("{x}.startswith({0})", 1),
    "endsWith": _form("{x}.endswith({0})", 1),
    "replaceAll": _form("{x}.replace({0}, {1})", 2),
    "toString": _form("str({x})"),
    "toFixed": _fixed_point,
    "slice": _sliced,
    "substring": _sliced,
    "at": _form("{x}[{0}]", 1),
    "sort": _form("sorted({x})"),
    "reverse": _form("reversed({x})"),
    "concat": _form("{x} + {0}", 1),
    "push": _form("{x} + [{0}]", 1),
    "append": _form("{x} + [{0}]", 1),
    "extend": _form("{x} + {0}", 1),
    "entries": _form("{x}.items()"),
}
"""Methods of other languages: what they stand behind, and their arguments, as an expression."""


def _by(form: str) -> Build:
    """A filter that may name an attribute: `sum(attribute="n")`."""
    bare, keyed = form.split(" or ")

    def build(x: str, args: list[str]) -> str | None:
        match = _ATTRIBUTE.fullmatch(args[0]) if len(args) == 1 else None
        return keyed.format(x=x, key=match[1]) if match else None if args else bare.format(x=x)

    return build


def _selected(form: str) -> Build:
    """`selectattr("ok")` and `selectattr("n", "==", 1)`."""

    def build(x: str, args: list[str]) -> str | None:
        if len(args) == 1:
            return f"[x for x in {x} if {form.format(f'x[{args[0]}]')}]"
        test = form.format(f"(x[{args[0]}] == {args[2]})") if len(args) == 3 else ""
        return f"[x for x in {x} if {test}]" if test else None

    return build


def _defaulted(x: str, args: list[str]) -> str | None:
    if len(args) != 1:
        return None
    holder, dot, key = x.rpartition(".")
    return f"{holder}.get('{key}', {args[0]})" if dot and key.isidentifier() else None


_FILTERS: dict[str, Build] = {
    "length": _form("len({x})"),
    "count": _form("len({x})"),
    "upper": _form("{x}.upper()"),
    "lower": _form("{x}.lower()"),
    "trim": _form("{x}.strip()"),
    "first": _form("{x}[0]"),
    "last": _form("{x}[-1]"),
    "list": _form("{x}"),
    "string": _form("str({x})"),
    "int": _form("number({x})"),
    "float": _form("number({x})"),
    "tonumber": _form("number({x})"),
    "tostring": _form("str({x})"),
    "tojson": _form("str({x})"),
    "keys": _form("{x}.keys()"),
    "values": _form("{x}.values()"),
    "items": _form("{x}.items()"),
    "add": _form("sum({x})"),
    "abs": _form("abs({x})"),
    "round": lambda x, args: f"round({', '.join([x, *args])})",
    "unique": _form("unique({x})"),
    "reverse": _form("reversed({x})"),
    "flatten": _form("flat({x})"),
    "split": _form("{x}.split({0})", 1),
    "join": _form("{0}.join({x})", 1),
    "replace": _form("{x}.replace({0}, {1})", 2),
    "default": _defaulted,
    "sum": _by("sum({x}) or sum(x[{key}] for x in {x})"),
    "min": _by("min({x}) or min(x[{key}] for x in {x})"),
    "max": _by("max({x}) or max(x[{key}] for x in {x})"),
    "sort": _by("sorted({x}) or sorted({x}, key=lambda x: x[{key}])"),
    "map": lambda x, args: _selecting(x, args) or _mapped(x, args),
    "selectattr": _selected("{}"),
    "rejectattr": _selected("not {}"),
}
"""Filters of Jinja and jq."""


def _selecting(x: str, args: list[str]) -> str | None:
    """jq: `map(select(.n > 1))`."""
    match = re.fullmatch(r"select\((.+)\)", args[0], re.DOTALL) if len(args) == 1 else None
    return f"[x for x in {x} if {_DOT.sub('x.', match[1])}]" if match else None


def _listed(x: str, args: list[str]) -> str | None:
    return None if args else f"[{x}]" if re.search(r"\bfor\b", x) and x[:1] != "[" else x


def _applied(build: Build) -> Build:
    """`map(f, list)`, and `filter(f, list)`: the function comes first."""
    return lambda function, args: build(args[0], [function]) if len(args) == 1 else None


_CALLS: dict[str, Build] = {
    "list": _listed,
    "tuple": _listed,
    "set": _form("unique({x})"),
    "map": _applied(_mapped),
    "filter": _applied(_filtered),
    "int": _form("round(number({x}))"),
    "float": _form("number({x})"),
    "Number": _form("number({x})"),
    "parseInt": _form("number({x})"),
    "parseFloat": _form("number({x})"),
    "String": _form("str({x})"),
    "size": _form("len({x})"),
    "count": _form("len({x})"),
    "length": _form("len({x})"),
    "avg": _form("sum({x}) / len({x})"),
    "mean": _form("sum({x}) / len({x})"),
    "average": _form("sum({x}) / len({x})"),
    "last": _form("{x}[-1]"),
    "pow": _form("{x} ** {0}", 1),
    "exists": _form("{x} is not None"),
    "print": _form("{x}"),
    "concat": _form("{x} + {0}", 1),
}
"""Functions of other languages."""
