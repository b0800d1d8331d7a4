"""What a text says, as terms that can be compared: for searching tools, not for showing.

    "Find the customer's GitHub repositories"    find customer github repository
    getRepoStats, get_repo_stats                 get repo stat getrepo repostat
    /home/ada/report_2024.xlsx                   file report 2024 xlsx

Plurals are folded; small words that carry no meaning are left out, unless a name has no others.
Words of Chinese, Japanese and Korean have no spaces, so their pairs of signs stand for them. `KIN` says which words of
programs mean nearly the same: verbs of interfaces, and kinds of files. None of it knows any server or any data set.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import pairwise

__all__ = ["KIN", "mentions", "terms_of_name", "terms_of_prose", "terms_of_question", "words_of_name"]

_LONGEST = 20_000
"""So many characters of a text are read."""
_LONGEST_TERM = 40
"""A longer one is no word but a key or an encoded file."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[a-z])(?=[0-9])")
_WORD = re.compile(r"[^\W_]+")
_IDENTIFIER = re.compile(r"\b[a-z]+[A-Z]\w*|\w+_\w+")
_SHORTENED = re.compile(r"['’](?:s|t|re|ve|ll|d|m)\b")
_NO_WORD = re.compile(rf"[A-Za-z0-9+/=_-]{{{_LONGEST_TERM},}}")
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,15}://(\S+)", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w/])(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][\w.-]+)+[/\\]?")
_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+")

_SMALL_WORDS = """
a about above across after again against all almost along already also although always am among an and another any
anyone anything are around as ask at away back be because been before being below best better between both but by
came can cannot come comes could did do does doing done down during each either else enough etc even ever every
everything few for from further get gets getting give given gives go goes going good got great had has have having
he help her here hers him his how however i if in instead into is it its itself just keep kindly know later least
less let lets like likely look looking lot made make makes making many may maybe me mean might mine more most much
must my myself near need needed needs never next no nor not nothing now of off often ok on once one only onto or
other others our ours out over own part per perhaps please put quite rather really regarding right said same say
see seem shall she should since so some somebody someone something soon still such sure take tell than thank thanks
that the their them then there these they thing things think this those though three through thus to together too
toward towards try two under until up upon us use used using very via want wanted wants was way we well went were
what whatever when where whether which while who whole whom whose why will wish with within without would yes yet
you your yours yourself
"""

_KIN = """
retrieve fetch read load obtain view show
save write store export
create generate build produce
add insert append
find search lookup query discover locate
delete remove erase drop
update edit modify change set
list enumerate browse
send post submit deliver
compute calculate
draw plot chart graph visualize render
combine merge join
convert transform translate
check verify validate
compare diff
start begin launch run execute
stop end cancel
folder directory
picture image photo png jpg jpeg
presentation powerpoint slide deck ppt pptx
spreadsheet excel workbook worksheet xlsx xls
document word doc docx
markdown md
file path
site website domain
webpage page url html
"""


_SMALL = frozenset(_SMALL_WORDS.split())


def words_of_name(name: str) -> list[str]:
    """The words that a name is put together of."""
    return _words(_CAMEL.sub(" ", name))


def terms_of_name(name: str) -> list[str]:
    """The terms of a name: its parts, and each two neighbours as one (`site_map` is found as `sitemap`)."""
    words = words_of_name(name)
    parts = [_folded(word) for word in words if word not in _SMALL] or [_folded(word) for word in words]
    return parts + [first + second for first, second in pairwise(parts)]


def terms_of_prose(text: str) -> list[str]:
    """The terms of a sentence, in order, without small words."""
    text = _SHORTENED.sub(" ", text[:_LONGEST])
    spaced = _IDENTIFIER.sub(lambda found: _CAMEL.sub(" ", found[0]), text)
    return [_folded(word) for word in _words(spaced) if word not in _SMALL and len(word) > 1]


def terms_of_question(text: str) -> list[str]:
    """The terms of what somebody looks for. Of a path its last part counts, and that it is a file.

    Where there is nothing but small words, these.
    """
    text = _NO_WORD.sub(" ", _PATH.sub(_of_path, _URL.sub(_of_url, text[:_LONGEST])))
    return terms_of_prose(text) or [_folded(word) for word in _words(text)]


def mentions(text: str, names: Iterable[str]) -> list[str]:
    """Those of `names` that stand in the text as such, in the order of `names`.

    A name that is an ordinary word (`fetch`) is one only where it is the whole text or stands in quotes.
    """
    said = {found.rstrip(".-") for found in _NAME.findall(text[:_LONGEST])}
    bare = text.strip()
    return [name for name in names if name == bare or (name in said and _is_marked(name, text))]


def _is_marked(name: str, text: str) -> bool:
    if not name.isalpha() or name[1:].lower() != name[1:]:
        return True
    return any(f"{mark}{name}{mark}" in text for mark in "`'\"")


def _of_path(found: re.Match[str]) -> str:
    last = re.split(r"[/\\]", found[0].rstrip("/\\."))[-1]
    return f" file {last.replace('.', ' ')} "


def _of_url(found: re.Match[str]) -> str:
    return " url " + " ".join(_WORD.findall(found[1][:200])) + " "


def _words(text: str) -> list[str]:
    if not text.isascii():
        text = _UNSPACED.sub(_pairs, _unaccented(text))
    return [word for word in _WORD.findall(text.lower()) if len(word) <= _LONGEST_TERM]


def _unaccented(text: str) -> str:
    apart = unicodedata.normalize("NFKD", text)
    return unicodedata.normalize("NFC", "".join(sign for sign in apart if not unicodedata.combining(sign)))


def _pairs(found: re.Match[str]) -> str:
    signs = found[0]
    pairs = [signs[place : place + 2] for place in range(len(signs) - 1)] or [signs]
    return f" {' '.join(pairs)} "


def _folded(word: str) -> str:
    """The singular of an English plural, about as well as the first step of Porter's stemmer (1980)."""
    if len(word) <= 3 or not word.endswith("s"):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    return word if word.endswith(("ss", "us", "is")) else word[:-1]


def _kin(table: str) -> dict[str, tuple[str, ...]]:
    kin: dict[str, dict[str, None]] = {}
    for line in table.split("\n"):
        group = dict.fromkeys(_folded(word) for word in line.split())
        for word in group:
            kin.setdefault(word, {}).update(group)
    return {word: tuple(other for other in others if other != word) for word, others in kin.items()}


KIN = _kin(_KIN)
"""By term: those that mean nearly the same in names and descriptions of tools."""
