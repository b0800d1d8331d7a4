"""Personal values beside the record: what can be deleted once the run is closed, while everything else still proves itself.

    the record    …,"args":{"to":null},…,"personal":[[["args","to"],COMMITMENT]]      chained and sealed as it is
    beside it     run, COMMITMENT, salt, "ada@example.org"                            deleted by `forget`

A commitment is sha256(salt + value): whoever has salt and value can show that this is what was written, and without the salt,
which is deleted too, nobody can find out by trying. `Policies.personal` says which arguments, results and inputs are personal.
From there on each text that holds such a value, in whatever event of the run, is set aside whole; so are the digests of what
held it, for a digest of an address is as good as the address.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

from ...policies.errors import BadInput

__all__ = ["FORGOTTEN", "Aside", "Disclosure", "Personal", "commitment_of", "forgotten_in", "put_back"]

FORGOTTEN = "[deleted]"
"""What stands where a value was deleted."""

_SALT = 16
_SHORTEST = 4
"""Characters: a shorter text is set aside where it is declared, and not looked for elsewhere."""
_LEAST = 1000
"""The same for numbers."""
_STRUCTURE = frozenset(
    (
        "type",
        "seq",
        "at",
        "dice",
        "path",
        "attempt",
        "outcome",
        "tool",
        "run",
        "hook",
        "kind",
        "about",
        "purpose",
        "state",
    )
)
"""Fields that say what happened and hold nothing that was given."""

Pattern: TypeAlias = tuple[str, ...]
Found: TypeAlias = "list[tuple[tuple[str | int, ...], str]]"


class Aside(NamedTuple):
    """One value beside the record."""

    commitment: bytes
    salt: bytes
    value: str


class Disclosure(NamedTuple):
    """A value, and what shows that it is the one that stands at this place of the record."""

    run: str
    seq: int
    path: tuple[str | int, ...]
    salt: str
    value: Any

    def holds_in(self, text: str | bytes) -> bool:
        """Whether the event with this text, as it is exported, has this value at this place."""
        document = json.loads(text)
        said = commitment_of(bytes.fromhex(self.salt), _text(self.value)).hex()
        return document.get("seq") == self.seq and [list(self.path), said] in document.get("personal", [])


class Personal:
    """The personal values of one run, as far as it has come."""

    def __init__(self, rules: Mapping[str, Sequence[str]]) -> None:
        self.rules = rules
        self._rules = {name: tuple(_pattern(p) for p in pointers) for name, pointers in rules.items()}
        self._tools: dict[tuple[str | int, ...], str] = {}
        self._taken: dict[str, tuple[Pattern, ...]] = {}
        """What is personal of results that come from another run, by step."""
        self._known: dict[str, str] = {}
        self._texts: set[str] = set()
        self._numbers: set[float] = set()
        self.fresh: dict[str, Aside] = {}
        """What is not durable beside the record yet, by commitment."""

    def take(self, document: Mapping[str, Any]) -> None:
        """Know of an event that was written before."""
        if document["type"] == "CallAdmitted":
            self._tools[tuple(document["path"])] = document["tool"]
        elif document["type"] == "RunOpened" and document.get("forked") is not None:
            self._taken = {
                id_: self._of_list(taken.get("tool", ""), many=taken.get("many", False))
                for id_, taken in document["forked"]["taken"].items()
            }

    def know(self, values: Iterable[tuple[str, str]]) -> None:
        """Know of values that were set aside before: commitment and JSON text."""
        for commitment, text in values:
            self._known[text] = commitment
            self._look_for(json.loads(text))

    def hide(self, document: dict[str, Any]) -> dict[str, Any]:
        """The event without its personal values, and with what says where they were."""
        self.take(document)
        found: Found = []
        out = dict(document)
        for name, value in document.items():
            if name not in _STRUCTURE and name != "approval":
                out[name] = self._walk(value, self._patterns(name, document), (name,), found)
        self._digests(document, out, found)
        if found:
            out["personal"] = [[list(path), commitment] for path, commitment in found]
        return out

    def _digests(self, document: Mapping[str, Any], out: dict[str, Any], found: Found) -> None:
        """Digests of what held personal values: they could be found out by trying."""
        held = {path[0] for path, _ in found}
        kind = document["type"]
        if kind == "CallAdmitted" and "args" in held:
            for name in ("args_digest", "key"):  # the key is made of the digest
                out[name] = self._aside(document[name], (name,), found)
        if kind == "DecisionAsked" and "question" in held and isinstance(out["question"], dict):
            for name in out["question"].keys() & {"digest"}:
                out["question"][name] = self._aside(document["question"][name], ("question", name), found)
        if kind == "RowOpened" and "inputs" in held:
            out["digest"] = self._aside(document["digest"], ("digest",), found)
        if kind == "RunOpened" and "forked" in held:
            acted = {path[2] for path, _ in found if path[:2] == ("forked", "acted")}
            for number in sorted(n for n in acted if isinstance(n, int)):
                digest, where = (
                    out["forked"]["acted"][number]["digest"],
                    ("forked", "acted", number, "digest"),
                )
                out["forked"]["acted"][number]["digest"] = self._aside(digest, where, found)
        if kind == "RunOpened" and document.get("approval") is not None:
            if "inputs" in held:
                out["approval"] = self._aside(document["approval"], ("approval",), found)
            else:
                out["approval"] = self._walk(document["approval"], (), ("approval",), found)

    def _patterns(self, name: str, document: Mapping[str, Any]) -> tuple[Pattern, ...]:
        """What is declared personal of this field of this event."""
        match document["type"], name:
            case "RunOpened" | "RowOpened", "inputs":
                return self._rules.get("inputs", ())
            case "RunOpened", "forked":
                return tuple(self._of_fork(document["forked"])) if document["forked"] is not None else ()
            case "ValueSettled", "value":
                return self._taken.get(document["path"][0], ()) if len(document["path"]) == 1 else ()
            case "CallAdmitted", "args":
                return self._of(document["tool"], "args")
            case "CallSettled", "args":
                return self._of(self._tools.get(tuple(document["path"]), ""), "args")
            case "CallSettled", "value":
                return self._of(self._tools.get(tuple(document["path"]), ""), "result")
            case "DecisionAsked", "question":
                rules = self._of(document["question"].get("tool", ""), "args")
                return tuple(("args", *rule) for rule in rules)
            case _:
                return ()

    def _of_fork(self, fork: Mapping[str, Any]) -> Iterator[Pattern]:
        for id_, patterns in self._taken.items():
            yield from (("taken", id_, "value", *pattern) for pattern in patterns)
        for number, act in enumerate(fork["acted"]):
            yield from (("acted", str(number), "args", *rule) for rule in self._of(act["tool"], "args"))

    def _of_list(self, tool: str, *, many: bool) -> tuple[Pattern, ...]:
        """The personal parts of a result, or of each in a list of them."""
        rules = self._of(tool, "result")
        return tuple(("*", *rule) for rule in rules) if many else rules

    def _of(self, tool: str, part: str) -> tuple[Pattern, ...]:
        return tuple(rule[1:] for rule in self._rules.get(tool, ()) if rule[:1] == (part,))

    def _walk(
        self, value: Any, patterns: tuple[Pattern, ...], path: tuple[str | int, ...], found: Found
    ) -> Any:
        if () in patterns or self._is_known(value):
            return self._aside(value, path, found)
        if isinstance(value, dict):
            if any(self._is_known(key) for key in value):
                return self._aside(value, path, found)
            return {k: self._walk(v, _under(patterns, k), (*path, k), found) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self._walk(v, _under(patterns, str(i)), (*path, i), found) for i, v in enumerate(value)]
        return value

    def _is_known(self, value: Any) -> bool:
        if isinstance(value, str):
            return value in self._texts or any(text in value for text in self._texts)
        return type(value) in (int, float) and value in self._numbers

    def _aside(self, value: Any, path: tuple[str | int, ...], found: Found) -> Any:
        """Keep a value beside the record; what stands in its place is null."""
        text = _text(value)
        commitment = self._known.get(text)
        if commitment is None:
            salt = secrets.token_bytes(_SALT)
            digest = commitment_of(salt, text)
            commitment = self._known[text] = digest.hex()
            self.fresh[commitment] = Aside(digest, salt, text)
            self._look_for(value)
        found.append((path, commitment))
        return None

    def _look_for(self, value: Any) -> None:
        """From here on wherever else this value stands it is personal."""
        for leaf in _leaves(value):
            if isinstance(leaf, str) and len(leaf) >= _SHORTEST:
                self._texts.add(leaf)
            elif type(leaf) in (int, float) and abs(leaf) >= _LEAST:
                self._numbers.add(leaf)


def put_back(document: dict[str, Any], value_of: Any) -> None:
    """Set the values where they were; `value_of(commitment)` gives one, or what stands for a deleted one."""
    for path, commitment in document.pop("personal", ()):
        value = value_of(bytes.fromhex(commitment))
        if path == ["approval"] and value == FORGOTTEN:
            value = None
        where: Any = document
        for step in path[:-1]:
            where = where[step]
        where[path[-1]] = value


def commitment_of(salt: bytes, text: str) -> bytes:
    """What stands in the record for a value with this JSON text."""
    return sha256(b"foreplan personal\n" + salt + text.encode()).digest()


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def forgotten_in(value: Any) -> bool:
    """Whether something in a value was deleted."""
    return any(leaf == FORGOTTEN for leaf in _leaves(value))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _under(patterns: tuple[Pattern, ...], step: str) -> tuple[Pattern, ...]:
    return tuple(pattern[1:] for pattern in patterns if pattern and pattern[0] in (step, "*"))


def _pattern(pointer: str) -> Pattern:
    if not pointer.startswith("/"):
        raise BadInput(f"{pointer!r} is no JSON Pointer: it begins with '/'")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/"))
