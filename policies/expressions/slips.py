"""What writers of other languages write, and what to write here: the source of suggestions, never of meaning.

A text with a slip is refused; `repaired` tries the obvious translation, and the whole corrected expression is suggested
where that one compiles.
"""

from __future__ import annotations

import re

from .dialects import rewritten
from .errors import ExpressionError
from .tokens import Token, tokens

__all__ = ["ELSEWHERE", "FOREIGN_CALLS", "FOREIGN_NAMES", "FOREIGN_SIGNS", "repaired"]

_BITS = "there are no operations on bits"
FOREIGN_SIGNS: dict[str, tuple[str, str]] = {
    "&&": ("&& is not an operator of the language", "and"),
    "||": ("|| is not an operator of the language", "or"),
    "===": ("=== is not an operator of the language", "=="),
    "!==": ("!== is not an operator of the language", "!="),
    "<>": ("<> is not an operator of the language", "!="),
    "!": ("! is not an operator of the language", "not"),
    "?": ("there is no ? : in the language", "x if condition else y"),
    "??": ("?? is not an operator of the language", "x if x is not None else y"),
    "?.": ("?. is not an operator of the language", ".get('key') for a key that may be absent"),
    "=>": ("there are no functions of your own", "a comprehension; key=lambda x: …"),
    "->": ("there are no functions of your own", "a comprehension; key=lambda x: …"),
    ":=": ("an expression assigns nothing", "a value step of its own"),
    "...": ("... is not a value", "write it out"),
    "$": ("names stand as they are, without $", ""),
    "@": ("@ is not an operator of the language", ""),
    "`": ("text stands in ' or \"", ""),
    "#": ("there are no comments in an expression", ""),
    ";": ("an expression is one value", "a value step for each part"),
    "\\": ("a backslash stands only in text", ""),
    "|": (_BITS, "{**a, **b} joins objects; x.upper() calls a method"),
    "&": (_BITS, "and"),
    "^": (_BITS, "** is the power"),
    "~": (_BITS, "not"),
    "<<": (_BITS, ""),
    ">>": (_BITS, ""),
}

_STATEMENT = "an expression is one value, not a statement"
ELSEWHERE: dict[str, tuple[str, str]] = {
    "lambda": ("a lambda stands only after key=", "a comprehension: [… for x in …]"),
    "await": ("there is no await: the engine waits for steps", "leave it out"),
    "async": ("there is no async: the engine waits for steps", "leave it out"),
    "yield": ("there is no yield", "a comprehension: [… for x in …]"),
    **dict.fromkeys(
        [
            "assert",
            "break",
            "class",
            "continue",
            "def",
            "del",
            "elif",
            "except",
            "finally",
            "from",
            "global",
            "import",
            "nonlocal",
            "pass",
            "raise",
            "return",
            "try",
            "while",
            "with",
        ],
        (_STATEMENT, ""),
    ),
}
"""Words of Python that mean nothing here."""

FOREIGN_NAMES = {
    "null": "None",
    "nil": "None",
    "undefined": "None",
    "none": "None",
    "true": "True",
    "false": "False",
    "NaN": "there is no such number",
    "Infinity": "there is no such number",
}
"""Names that other languages give to values; they cannot be names here."""

FOREIGN_CALLS = {
    "map": "[f(x) for x in list]",
    "filter": "[x for x in list if …]",
    "reduce": "sum(…), running(…) or max(…)",
    "list": "[x for x in …]",
    "tuple": "[x for x in …]",
    "set": "unique(list)",
    "dict": "{'key': value} or {k: v for k, v in …}",
    "int": "round(x), or number(text)",
    "float": "number(text)",
    "Number": "number(text)",
    "parseInt": "number(text)",
    "parseFloat": "number(text)",
    "bool": "x != 0, x != '' or x is not None",
    "String": "str(x)",
    "toString": "str(x)",
    "count": "len([x for x in list if x == value])",
    "size": "len(x)",
    "length": "len(x)",
    "avg": "sum(list) / len(list)",
    "mean": "sum(list) / len(list)",
    "average": "sum(list) / len(list)",
    "next": "first(list, None)",
    "last": "list[-1]",
    "pow": "x ** y",
    "format": "f'{x:.2f}'",
    "isinstance": "number(x, None) is not None for a number",
    "type": "x is None",
    "print": "an expression only has a value",
    "open": "a tool reads files",
    "eval": "an expression runs no text",
    "exec": "an expression runs no text",
    "getattr": "x.get('key')",
    "hasattr": "'key' in x",
    "datetime": "shift(…), between(…) and format_time(…) work on times as text",
    "now": "run.started_at",
    "today": "run.started_at",
    "strftime": "format_time(time, '%Y-%m-%d')",
    "strptime": "times are text like '2024-11-15T18:45'",
    "timedelta": "shift(time, days=1)",
    "groupby": "group(list, key=lambda x: …)",
    "sort": "sorted(list)",
    "push": "list + [x]",
    "append": "list + [x]",
    "extend": "list + list",
    "concat": "list + list",
    "includes": "x in list",
    "contains": "x in list",
    "has": "'key' in object",
    "hasOwnProperty": "'key' in object",
    "indexOf": "x in list",
    "find": "first([x for x in list if …], None)",
    "some": "any(… for x in list)",
    "every": "all(… for x in list)",
    "slice": "x[0:2]",
    "substring": "x[0:2]",
    "toLowerCase": "x.lower()",
    "toUpperCase": "x.upper()",
    "trim": "x.strip()",
    "lstrip": "x.strip()",
    "rstrip": "x.strip()",
    "replaceAll": "x.replace(old, new)",
    "splitlines": "x.split('\\n')",
    "toFixed": "f'{x:.2f}'",
    "entries": "x.items()",
    "isEmpty": "len(x) == 0",
}
"""Functions and methods of other languages, and what does their work here."""

_WORDS = {
    "&&": "and",
    "||": "or",
    "===": "==",
    "!==": "!=",
    "<>": "!=",
    "!": "not",
    "$": "",
    "AND": "and",
    "OR": "or",
    "NOT": "not",
    **{name: word for name, word in FOREIGN_NAMES.items() if word[0].isupper()},
}
_NULLS = frozenset(name for name, word in FOREIGN_NAMES.items() if word == "None")
_IS = {"==": "is None", "===": "is None", "!=": "is not None", "!==": "is not None"}
_WRAPPED = re.compile(
    r"\s*(?:\{\{\{?(?P<braces>(?:(?!\}\}).)*)\}\}\}?|\$\{(?P<dollar>[^{}]*)\}|<%=?(?P<percent>.*)%>|=(?P<sheet>[^=].*))\s*",
    re.DOTALL,
)


def repaired(text: str) -> str:
    """The text with the usual slips translated, or nothing where there are none; it may still be no expression."""
    inner = _WRAPPED.fullmatch(text)
    new = next((part for part in inner.groups() if part is not None), text).strip() if inner else text
    new = rewritten(new)
    try:
        new = _translated(new)
    except ExpressionError:
        pass
    return new if new != text else ""


def _translated(text: str) -> str:
    found = tokens(text)
    pieces: list[str] = []
    at = 0
    for place, token in enumerate(found):
        start, end, word = _word(found, place, token)
        if word is not None and start >= at:
            before = text[at:start] or "".join(pieces[-1:])
            pieces += [text[at:start], _spaced(word, before, text[end:])]
            at = end
    new = "".join(pieces) + text[at:]
    return _conditional(new) if any(t.text == "?" for t in found) else new


def _word(found: list[Token], place: int, token: Token) -> tuple[int, int, str | None]:
    """What stands in the place of a token (and of one beside it), if anything."""
    last, following = found[max(place - 1, 0)], found[min(place + 1, len(found) - 1)]
    if token.text == "?." and following.kind == "name":
        return token.start, following.end, f".get('{following.text}')"
    if following.text in _NULLS and token.text in _IS:
        return token.start, following.end, _IS[token.text]
    if token.kind == "slip" or (token.kind == "name" and last.text not in (".", "?.")):
        return token.start, token.end, _WORDS.get(token.text)
    return token.start, token.end, None


def _spaced(word: str, before: str, after: str) -> str:
    """A word in the place of signs, kept apart from the words around it."""
    if not word[:1].isalpha():
        return word
    return " " * bool(before[-1:].strip(" ([{,")) + word + " " * bool(after[:1].strip(" )]},.:"))


def _conditional(text: str) -> str:
    """`a ? b : c` as `b if a else c`, where there is one of it, outside of brackets."""
    found = tokens(text)
    depth, ask, colon = 0, None, None
    for token in found:
        if token.kind == "op":
            depth += (token.text in "([{") - (token.text in ")]}")
        if depth == 0 and token.text == "?" and ask is None:
            ask = token
        elif depth == 0 and token.text == ":" and ask is not None and colon is None:
            colon = token
    if ask is None or colon is None:
        return text
    test, yes, no = text[: ask.start], text[ask.end : colon.start], text[colon.end :]
    return f"{yes.strip()} if {test.strip()} else {no.strip()}"
