"""Whether the record holds, and what that proves.

    without a key                      accidents: whoever changes the file can compute every hash anew
    with the key                       every change, but a return of the file, or of a run that is not closed, to a state in
                                       which it once was
    with a position kept elsewhere     that too, up to the position

A problem is what does not hold; it is never a guess about who did it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ...policies.errors import BadInput
from ...policies.signing import Verifier
from ..events import BatchOpened, Event, RunOpened
from .journal import RunLine, run_line
from .ledger import CLOSED, LINE, plain
from .reader import Broken, Reader
from .records import as_written, first_tip
from .row_ends import RowEnds
from .seals import Entry, Head, first_link, key_name, link_after, position, to_seal_head, to_seal_run

__all__ = ["Verified", "in_chain", "verified"]


class Verified(NamedTuple):
    """What a verification found. `problems`: what does not hold. `pruned`: records that were deleted by rule, `deleted`:
    places of personal values that were. `position`: what to keep elsewhere, as `SEQ:HASH`."""

    problems: tuple[str, ...]
    proved: tuple[str, ...]
    unproved: tuple[str, ...]
    runs: int
    events: int
    pruned: int
    deleted: int
    position: str

    @property
    def ok(self) -> bool:
        """Whether everything that was looked at holds."""
        return not self.problems


class Place(NamedTuple):
    """A position that was kept: how many entries or events there were, and how the hash of the last one begins."""

    number: int
    hash: str


class Story(NamedTuple):
    """What the chain over runs says of one run."""

    opened: Entry | None = None
    closed: Entry | None = None
    pruned: Entry | None = None
    forgotten: Entry | None = None

    def then(self, entry: Entry) -> Story:
        """The story after one more entry."""
        if entry.kind == "reopened":
            return self._replace(closed=None)
        return self._replace(**{entry.kind: entry}) if entry.kind in Story._fields else self


def verified(reader: Reader, run: str | None, key: Verifier | None, last: str) -> Verified:
    """Of one run, or of all, as the reader's file is now. Raises `BadInput` for what is no position."""
    place = _place(last) if last else None
    audit = Audit(reader, key)
    stories = audit.chain(place if run is None else None)
    counts = [audit.run(line, stories) for line in audit.lines(run)]
    audit.complete(run)
    seen = {line.run for line in audit.lines(run)}
    audit.missing(stories if run is None else {k: v for k, v in stories.items() if k == run}, seen)
    where = audit.position
    if run is not None:
        where = audit.positions.get(run, "")
        if place is not None:
            audit.holds(run, place, stories.get(run, Story()))
    pruned = [story for name, story in stories.items() if story.pruned and run in (None, name)]
    proved = tuple(_proved(audit.key is not None, place)) if not audit.problems else ()
    return Verified(
        problems=tuple(audit.problems),
        proved=proved,
        unproved=tuple(_unproved(audit.key is not None, place)),
        runs=len(counts),
        events=sum(counts),
        pruned=len(pruned),
        deleted=reader.deleted,
        position=where,
    )


def in_chain(reader: Reader, run: str) -> bool:
    """Whether the chain over runs has heard of this run, although its record may be gone."""
    return bool(reader.ask("SELECT 1 FROM chain WHERE run = ? LIMIT 1", run))


class Audit:
    """One verification under way: what it reads, and the problems that it has found."""

    def __init__(self, reader: Reader, key: Verifier | None) -> None:
        self.reader = reader
        self.key = key
        self.problems: list[str] = []
        self.position = ""
        self.positions: dict[str, str] = {}
        self.batches: dict[str, RowEnds] = {}

    def say(self, problem: str) -> None:
        """Something does not hold."""
        self.problems.append(problem)

    def lines(self, run: str | None) -> list[RunLine]:
        """The list of runs, or the one (a batch with its rows); rows in their order, after all batches."""
        if not self.reader.knows_rows:
            where, given = ("TRUE", []) if run is None else ("run = ?", [run])
            return [
                RunLine(*row) for row in self.reader.ask(f"SELECT {LINE} FROM runs WHERE {where}", *given)
            ]
        where, given = ("TRUE", []) if run is None else ("run = ? OR batch = ?", [run, run])
        sql = f"SELECT {LINE} FROM runs WHERE {where} ORDER BY batch, ordinal, rowid"
        return [RunLine(*row) for row in self.reader.ask(sql, *given)]

    def complete(self, run: str | None) -> None:
        """All that was to be looked at was; of a batch, all rows."""
        for batch in self.batches.values():
            if run in (None, batch.batch):
                batch.complete()

    # ------------------------------------------------------------------------------------------ the chain over runs

    def chain(self, place: Place | None) -> dict[str, Story]:
        """What the chain over runs says of each, held against its links, its head and its seal."""
        meta = dict(self.reader.ask("SELECT name, value FROM meta"))
        link, count, stories = first_link(meta.get("id", "")), 0, dict[str, Story]()
        there = place is not None and place.number == 0 and link.hex().startswith(place.hash)
        for number, entry, said in self._entries():
            count += 1
            link = link_after(link, entry)
            if number != count or link != said:
                self.say(
                    f"entry {count} of the chain over runs is not what was written: its hash does not follow"
                )
                break
            self._told_twice(stories, entry)
            stories[entry.run] = stories.get(entry.run, Story()).then(entry)
            there = there or (
                place is not None and place.number == count and link.hex().startswith(place.hash)
            )
        else:
            self._head(meta, count, link)
            if place is not None and not there:
                self.say(
                    f"the journal is not the one of position {place.number}:{place.hash}: it was changed since, or cut"
                )
        self.position = position(count, link)
        return stories

    def _entries(self) -> Iterator[tuple[int, Entry, bytes]]:
        after = 0
        while True:
            sql = "SELECT n, kind, run, seq, tip, detail, link FROM chain WHERE n > ? ORDER BY n LIMIT 1000"
            rows = self.reader.ask(sql, after)
            for row in rows:
                yield row[0], Entry(*row[1:6]), row[6]
            if not rows:
                return
            after = rows[-1][0]

    def _told_twice(self, stories: Mapping[str, Story], entry: Entry) -> None:
        if entry.kind in Story._fields and getattr(stories.get(entry.run, Story()), entry.kind) is not None:
            self.say(f"run {entry.run!r} is {entry.kind} twice in the chain over runs")

    def _head(self, meta: Mapping[str, str], count: int, link: bytes) -> None:
        try:
            head = Head.from_text(meta["head"])
        except (KeyError, ValueError, TypeError) as error:
            return self.say(
                f"the head of the chain over runs cannot be read: {type(error).__name__}: {error}"
            )
        if (head.entries, head.link) != (count, link):
            self.say(f"the chain over runs has {count} entries, and {head.entries} were written")
        if self.key is None:
            return
        name = meta.get("key", "")
        if not head.seal:
            self.say("the journal is not sealed with any key, so that a key proves nothing")
        elif not self.key.verify(to_seal_head(head.entries, head.link), head.seal):
            self.say(
                f"the journal is sealed with another key ({name}), not with {key_name(self.key)}"
                if name != key_name(self.key)
                else "the seal of the chain over runs is not one of this key: the chain was computed anew"
            )

    # ------------------------------------------------------------------------------------------ runs

    def run(self, line: RunLine, stories: Mapping[str, Story]) -> int:
        """Hold one run against its chain, its line, its seal and what the journal's chain says; how many events it has."""
        run = line.run
        there_are = "+".join(
            f"(SELECT count(*) FROM {table} WHERE run = r.run)" for table in self.reader.of_events
        )
        columns = f"events, tip, seal, approval, {there_are}"
        columns += ", batch, ordinal" if self.reader.knows_rows else ", '', 0"
        [(said, tip, seal, approval, there, batch, ordinal)] = self.reader.ask(
            f"SELECT {columns} FROM runs r WHERE run = ?", run
        )
        self.positions[run] = position(said, tip)
        rows = self._rows_of(batch) if batch else None
        story, end, found = stories.get(run, Story()), first_tip(run), RunLine(run, "running", "", "", 0.0, 0)
        opened: Event | None = None
        first = b""
        try:
            for seq, data, hash_ in self.reader.texts(run, said):
                event = self.reader.event(run, seq, data)
                if not as_written(data):
                    raise Broken(
                        f"event {seq} of run {run!r} is not written as foreplan writes: perhaps a key stands twice"
                    )
                if seq == 1:
                    opened, first = event, hash_
                    if isinstance(event, BatchOpened):
                        self.batches[run] = RowEnds(run, self.say)
                if run in self.batches:
                    self.batches[run].tell([event])
                if rows is not None:
                    rows.hold(run, event, hash_)
                found, end = run_line(run, [event], found), hash_
        except Broken as broken:
            self.say(str(broken))
            return int(there)
        if there != said:
            self.say(f"run {run!r} has {there} events and should have {said}")
        elif end != tip:
            self.say(f"the last event of run {run!r} is not the one that was written")
        else:
            self._line(line, found, opened, approval)
            self._seal(run, said, tip, seal)
            if rows is None:
                self._told(run, story, first, found, end)
            else:
                rows.end(found, ordinal, first)
        return int(there)

    def _rows_of(self, batch: str) -> RowEnds:
        """What a batch says of its rows."""
        known = self.batches.get(batch)
        if known is None:
            known = self.batches[batch] = RowEnds(batch, self.say)
            line = self.reader.line(batch)
            if line is None:
                self.say(f"batch {batch!r} was deleted, and rows of it are there")
            else:
                self._tell(known, line)
        return known

    def _tell(self, rows: RowEnds, line: RunLine) -> None:
        """What a batch says of its rows, as far as its chain holds."""
        try:
            rows.tell(self.reader.events(line.run, line.events))
        except Broken as broken:
            if str(broken) not in self.problems:
                self.say(str(broken))

    def _line(self, line: RunLine, found: RunLine, opened: Event | None, approval: str | None) -> None:
        for name, old, new in zip(RunLine._fields, line, found, strict=True):
            if old != plain(new):
                self.say(
                    f"the list of runs says of {line.run!r} that its {name} is {old!r}, and its events {new!r}"
                )
        used = opened.approval if isinstance(opened, RunOpened | BatchOpened) else None
        if isinstance(opened, RunOpened) and opened.parent:
            used = None  # a sub-plan goes by the approval that the run which calls it used up
        held = used.get("id") if isinstance(used, Mapping) else None
        if opened is not None and approval != plain(held):
            self.say(
                f"run {line.run!r} used {_approval(held)}, and the list of runs says {_approval(approval)}"
            )

    def _seal(self, run: str, events: int, tip: bytes, seal: bytes | None) -> None:
        if self.key is None:
            return
        if seal is None:
            self.say(f"run {run!r} is not sealed with any key")
        elif not self.key.verify(to_seal_run(run, events, tip), bytes(seal)):
            self.say(f"the seal of run {run!r} is not one of this key for these events")

    def _told(self, run: str, story: Story, first: bytes, found: RunLine, end: bytes) -> None:
        """Against the chain over runs: began here, ended here."""
        if found.events and (story.opened is None or story.opened.tip != first):
            how = "does not know" if story.opened is None else "knows another beginning of"
            self.say(f"the chain over runs {how} run {run!r}")
        closed = story.closed
        if closed is not None and (closed.seq, closed.tip) != (found.events, end):
            self.say(f"run {run!r} was closed with event {closed.seq}, and ends with another event now")
        if closed is None and found.state in CLOSED:
            self.say(f"run {run!r} is closed, and the chain over runs does not know it")

    def missing(self, stories: Mapping[str, Story], seen: Iterable[str]) -> None:
        """Runs that the chain knows and that are not there."""
        for run in stories.keys() - set(seen):
            if stories[run].pruned is None:
                self.say(
                    f"run {run!r} was deleted: the chain over runs knows it, and there is no record of it"
                )
        for run, story in stories.items():
            if story.pruned is not None and story.pruned.detail:
                spent = self.reader.ask(
                    "SELECT run FROM spent WHERE approval = ?", json.loads(story.pruned.detail)
                )
                if spent != [(run,)]:
                    self.say(f"run {run!r} used an approval, and the list of spent ones does not know it")

    def holds(self, run: str, place: Place, story: Story) -> None:
        """Whether the run has the event of a position that was kept."""
        if story.pruned is not None:
            if (place.number, True) != (story.pruned.seq, story.pruned.tip.hex().startswith(place.hash)):
                self.say(f"the record of run {run!r} was pruned, and position {place.number} is not its last")
            return
        rows = self.reader.ask(
            f"SELECT hash FROM {self.reader.table(run)} WHERE run = ? AND seq = ?", run, place.number
        )
        if not rows:
            self.say(
                f"event {place.number} of run {run!r} is missing: it was there when the position was kept"
            )
        elif not bytes(rows[0][0]).hex().startswith(place.hash):
            self.say(
                f"event {place.number} of run {run!r} is not the one of the position: it, or one before, was changed"
            )


def _approval(id_: str | None) -> str:
    return "no approval" if id_ is None else f"approval {id_!r}"


def _place(text: str) -> Place:
    match = re.fullmatch(r"(\d{1,18}):([0-9a-f]{16,64})", text.strip())
    if match is None:
        raise BadInput(
            f"{text[:80]!r} is no position; it is SEQ:HASH, as `foreplan show` and `foreplan verify` print it"
        )
    return Place(int(match[1]), match[2])


def _proved(key: bool, place: Place | None) -> Iterator[str]:
    if key:
        yield "without the key nothing was changed, put in, moved or taken out"
    else:
        yield "no accident changed the record: every hash follows from the one before"
    if place is not None:
        yield f"everything up to position {place.number} is what it was when the position was kept"


def _unproved(key: bool, place: Place | None) -> Iterator[str]:
    after = f" after position {place.number}" if place is not None else ""
    if not key:
        yield f"whether somebody changed it{after} and computed the hashes anew: that takes a key"
    if place is None:
        yield "whether an earlier state was put back, such as a run that is not closed without its last events: that takes a position kept elsewhere"
    elif key:
        yield f"whether more was written{after}, and an earlier state put back: that takes a later position"
