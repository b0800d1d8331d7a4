"""Finding the tools for a goal among many: by words, by vectors of your own embedding model, or by both.

    registry.search("refund a payment", k=5)                      words: needs nothing, is quick, says why
    registry.search(goal, search=EmbeddingSearch(embed))          meaning: needs a model that you bring
    registry.search(goal, search=HybridSearch(WordSearch(), EmbeddingSearch(embed)))

A search is given tools once and gives back what ranks them; a registry keeps that. Words are ranked by BM25F (Robertson,
Zaragoza: "The Probabilistic Relevance Framework", 2009): a term counts more in the name than in the description, more
there than in parameters, less the more tools have it; each field is measured by its usual length. A term's kin
(`words.KIN`) count a little less than itself, and only the best of them. Two lists are fused by reciprocal rank
(Cormack, Clarke, Büttcher, 2009), which needs no common scale. Equal scores are in the order of names.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ..policies.errors import BadInput
from ..policies.spelling import spelled
from .tools import Tool
from .words import KIN, mentions, terms_of_name, terms_of_prose, terms_of_question, words_of_name

__all__ = ["EmbeddingSearch", "Hit", "HybridSearch", "Ranking", "Search", "WordSearch", "text_of"]

_WEIGHTS = {
    "name": 2.0,
    "title": 1.0,
    "summary": 1.0,
    "description": 0.4,
    "family": 0.5,
    "parameters": 0.5,
    "said": 0.3,
}
"""What a term counts by field. `name` is the last part of a dotted name, `family` what stands before it, and the tags;
`summary` is the first sentence of the description, `said` what the schema says about the parameters."""
_SATURATION, _LENGTH = 1.2, 0.75
"""k1 and b of BM25, at their usual values."""
_KIN = 0.7
"""What a term's kin count."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n")
_DEEPEST = 3
"""Levels of a schema whose parameters are read."""
_FUSED = 60
"""The constant of reciprocal rank fusion, as its authors have it."""


class Hit(NamedTuple):
    """A tool that was found. Scores of one ranking can be compared with each other, and with nothing else."""

    tool: Tool
    score: float


class Ranking(Protocol):
    """Tools that were read, ready for questions."""

    def rank(self, query: str, k: int) -> list[Hit]:
        """The best `k`, the best first; fewer where nothing speaks for the others."""
        ...


class Search(Protocol):
    """A way to find tools. It must be hashable: a registry keeps one ranking for each."""

    def over(self, tools: Sequence[Tool]) -> Ranking:
        """Read these tools once."""
        ...


@spelled
@dataclass(frozen=True)
class WordSearch:
    """By the words of names, titles, descriptions, tags and parameters; the search where none is given."""

    def over(self, tools: Sequence[Tool]) -> Ranking:
        """Read these tools once: about 0.1 ms each."""
        return _Words(tools)


@spelled
class EmbeddingSearch:
    """By the cosine of vectors. `embed` takes texts and gives one vector each: your model, your service.

    It is called once for all tools that are new to it, then once for each question, in the thread of the caller. A
    vector is kept with its text for as long as this object lives.
    """

    def __init__(self, embed: Callable[[list[str]], Any]) -> None:
        if not callable(embed):
            raise BadInput(
                f"`embed` is a function of a list of texts that gives a vector for each, not {type(embed).__name__}"
            )
        self._embed = embed
        self._kept: dict[str, tuple[float, ...]] = {}

    def over(self, tools: Sequence[Tool]) -> Ranking:
        """Embed what is new among these tools."""
        texts = [text_of(tool) for tool in tools]
        new = [text for text in dict.fromkeys(texts) if text not in self._kept]
        if new:
            self._kept.update(zip(new, self._vectors(new), strict=True))
        return _Vectors(list(zip(tools, (self._kept[text] for text in texts), strict=True)), self._vectors)

    def _vectors(self, texts: list[str]) -> list[tuple[float, ...]]:
        """Of length 1, or all zero. Raises `BadInput` where `embed` gives anything else than a vector for each text."""
        given = [[float(x) for x in vector] for vector in self._embed(texts)]
        if len(given) != len(texts):
            raise BadInput(f"`embed` was given {len(texts)} texts and gave {len(given)} vectors")
        sizes = {len(vector) for vector in (*given, *list(self._kept.values())[:1])}
        if len(sizes) > 1:
            raise BadInput(f"`embed` gave vectors of different sizes: {', '.join(map(str, sorted(sizes)))}")
        if not all(math.isfinite(x) for vector in given for x in vector):
            raise BadInput("`embed` gave a vector with a number that is not finite")
        return [_of_length_one(vector) for vector in given]


@spelled
@dataclass(frozen=True)
class HybridSearch:
    """What two searches find together: a tool that both find stands before one that only one finds."""

    first: Search
    second: Search

    def over(self, tools: Sequence[Tool]) -> Ranking:
        """Let both read these tools."""
        return _Fused((self.first.over(tools), self.second.over(tools)))


def text_of(tool: Tool) -> str:
    """What an embedding model is given of a tool: its name in words, its description, its parameters."""
    name = " ".join(words_of_name(tool.name))
    parameters = ", ".join(name for name, _ in _parameters(tool.input.document))
    said = [name, tool.title, tool.description, " ".join(tool.tags), parameters and f"takes {parameters}"]
    return ". ".join(part.strip().rstrip(".") for part in said if part)


# ------------------------------------------------------------------------------------------------------------- words


class _Words:
    """An inverted index: by term, the tools that have it and how much each of them says it."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.tools = sorted(tools, key=lambda tool: tool.name)
        self.place = {tool.name: place for place, tool in enumerate(self.tools)}
        fields = [_fields(tool) for tool in self.tools]
        usual = {name: _usual(fields, name) for name in _WEIGHTS}
        self.postings: dict[str, list[tuple[int, float]]] = {}
        for place, field in enumerate(fields):
            for term, said in _said(field, usual).items():
                amount = said * (_SATURATION + 1) / (said + _SATURATION)
                self.postings.setdefault(term, []).append((place, amount))
        for term, found in self.postings.items():
            rare = math.log(1 + (len(self.tools) - len(found) + 0.5) / (len(found) + 0.5))
            self.postings[term] = [(place, amount * rare) for place, amount in found]

    def rank(self, query: str, k: int) -> list[Hit]:
        """A tool that is named in the question stands first."""
        scores: dict[int, float] = {}
        terms = dict.fromkeys(terms_of_question(query))
        for term in terms:
            for place, score in self._of(term, terms):
                scores[place] = scores.get(place, 0.0) + score
        first = 1.0 + max(scores.values(), default=0.0)
        for name in mentions(query, self.place):
            scores[self.place[name]] = scores.get(self.place[name], 0.0) + first
        best = heapq.nsmallest(k, ((-score, place) for place, score in scores.items()))
        return [Hit(self.tools[place], -score) for score, place in best]

    def _of(self, term: str, asked: Mapping[str, None]) -> Iterable[tuple[int, float]]:
        """What a term gives each tool: of itself and of its kin, the most."""
        own = self.postings.get(term, [])
        kin = [self.postings[k] for k in KIN.get(term, ()) if k in self.postings and k not in asked]
        if not kin:
            return own
        most = dict(own)
        for found in kin:
            for place, score in found:
                if score * _KIN > most.get(place, 0.0):
                    most[place] = score * _KIN
        return most.items()


_Fields = dict[str, Counter[str]]


def _fields(tool: Tool) -> _Fields:
    parameters = list(_parameters(tool.input.document))
    family, _, name = tool.name.rpartition(".")
    summary, rest = _first_sentence(tool.description)
    return {
        "name": Counter(terms_of_name(name)),
        "title": Counter(terms_of_prose(tool.title)),
        "summary": Counter(terms_of_prose(summary)),
        "description": Counter(terms_of_prose(rest)),
        "family": Counter([*terms_of_name(family), *terms_of_prose(" ".join(tool.tags))]),
        "parameters": Counter(term for name, _ in parameters for term in terms_of_name(name)),
        "said": Counter(terms_of_prose(" ".join(said for _, said in parameters if said))),
    }


def _first_sentence(text: str) -> tuple[str, str]:
    first, *rest = _SENTENCE_END.split(text.strip(), maxsplit=1)
    return first, "".join(rest)


def _usual(fields: Sequence[_Fields], name: str) -> float:
    """The mean number of terms in a field."""
    return sum(field[name].total() for field in fields) / max(len(fields), 1) or 1.0


def _said(field: _Fields, usual: Mapping[str, float]) -> dict[str, float]:
    """How often each term is said, weighted by field and measured by the usual length of each."""
    said: dict[str, float] = {}
    for name, weight in _WEIGHTS.items():
        terms = field[name]
        if terms:
            share = weight / (1 - _LENGTH + _LENGTH * terms.total() / usual[name])
            for term, times in terms.items():
                said[term] = said.get(term, 0.0) + share * times
    return said


def _parameters(document: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """The parameters of a schema, with what is said about each; those inside objects and lists too."""
    if not isinstance(document, Mapping) or depth > _DEEPEST:
        return
    properties = document.get("properties")
    for name, part in properties.items() if isinstance(properties, Mapping) else ():
        yield str(name), _about(part)
        yield from _parameters(part, depth + 1)
    yield from _parameters(document.get("items"), depth + 1)


def _about(part: Any) -> str:
    if not isinstance(part, Mapping):
        return ""
    options = part.get("enum")
    words = [word for word in options if isinstance(word, str)] if isinstance(options, list) else []
    description = part.get("description")
    return " ".join([description if isinstance(description, str) else "", *words]).strip()


# ----------------------------------------------------------------------------------------------------- vectors, fusion


class _Vectors:
    def __init__(
        self,
        known: list[tuple[Tool, tuple[float, ...]]],
        embed: Callable[[list[str]], list[tuple[float, ...]]],
    ) -> None:
        self.known = known
        self.embed = embed

    def rank(self, query: str, k: int) -> list[Hit]:
        if not self.known:
            return []
        (asked,) = self.embed([query])
        hits = [Hit(tool, math.fsum(map(_times, asked, vector))) for tool, vector in self.known]
        return _best(hits, k)


class _Fused:
    def __init__(self, rankings: Sequence[Ranking]) -> None:
        self.rankings = rankings

    def rank(self, query: str, k: int) -> list[Hit]:
        """Each list is read deeper than it is asked for: what is second best in both may be the best."""
        tools: dict[str, Tool] = {}
        scores: dict[str, float] = {}
        for ranking in self.rankings:
            for place, hit in enumerate(ranking.rank(query, max(4 * k, 100)), 1):
                tools[hit.tool.name] = hit.tool
                scores[hit.tool.name] = scores.get(hit.tool.name, 0.0) + 1 / (_FUSED + place)
        return _best([Hit(tools[name], score) for name, score in scores.items()], k)


def _best(hits: Iterable[Hit], k: int) -> list[Hit]:
    return heapq.nsmallest(k, hits, key=lambda hit: (-hit.score, hit.tool.name))


def _times(a: float, b: float) -> float:
    return a * b


def _of_length_one(vector: list[float]) -> tuple[float, ...]:
    length = math.sqrt(math.fsum(x * x for x in vector))
    return tuple(x / length for x in vector) if length else tuple(vector)
