"""Personal values stand beside the record, can be deleted when the run is closed, and the record still proves itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.tampering import at

from foreplan import Engine, HmacSigner, Plan, Policies, SqliteJournal, ask, tool
from foreplan.executor.journal.personal import FORGOTTEN
from foreplan.executor.runtime import Answer
from foreplan.policies.errors import BadInput, JournalError

KEY = HmacSigner(b"k" * 32)
ADA = "ada.lovelace@example.org"
PHONE = 491701234567
RULES = Policies(
    approve="never",
    personal={
        "inputs": ("/who",),
        "find": ("/result/people/*/mail", "/result/people/*/phone"),
        "send": ("/args/to",),
    },
)
PLAN = Plan.model_validate(
    {
        "inputs": {"type": "object", "properties": {"who": {"type": "string"}}},
        "steps": [
            {"id": "found", "tool": "find", "args": {"who": {"$": "inputs.who"}}},
            {
                "id": "sure",
                "tool": "ask",
                "args": {"question": "Send to ${found.people[0].mail}?", "options": ["yes", "no"]},
            },
            {"id": "sent", "tool": "send", "args": {"to": {"$": "found.people[0].mail"}}, "after": ["sure"]},
        ],
        "output": {
            "sent": {"$": "sent"},
            "phone": {"$": "found.people[0].phone"},
            "n": {"$": "len(found.people)"},
        },
    }
)


@tool(effect="reads")
def find(who: str) -> dict[str, list[dict[str, str | int]]]:
    """Find people."""
    return {"people": [{"mail": ADA, "phone": PHONE, "city": "London", "name": who}]}


@tool(effect="acts")
def send(to: str) -> str:
    """Send a letter."""
    return f"sent a letter to <{to}>"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the journal is."""
    return tmp_path / "runs.sqlite3"


@pytest.fixture
def journal(path: Path) -> Iterator[SqliteJournal]:
    """One with a closed run "r", which was interrupted by a question to a person."""
    with SqliteJournal(path, key=KEY) as journal:
        run = Engine([find, send, ask], policies=RULES, journal=journal).run_blocking(
            PLAN, inputs={"who": "Ada Lovelace"}, run_id="r"
        )
        assert run.state == "waiting"
    with SqliteJournal(path, key=KEY) as journal:
        engine = Engine([find, send, ask], policies=RULES, journal=journal)
        run = engine.resume_blocking("r", decisions={run.waiting[0].id: Answer("answer", "bob", "yes")})
        assert run.output == {"sent": f"sent a letter to <{ADA}>", "phone": PHONE, "n": 1}
        yield journal


def stored(path: Path, tables: str = "events runs chain blobs meta") -> str:
    """Everything that the record holds, as text."""
    with at(path) as connection:
        return repr([connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables.split()])


def test_the_record_holds_no_personal_value(journal: SqliteJournal, path: Path) -> None:
    """Neither where it was declared, nor where it went: arguments, results, questions, the output, digests."""
    text = stored(path)
    assert ADA not in text
    assert str(PHONE) not in text
    assert "Ada Lovelace" not in text
    assert "London" in text
    admitted = [event for event in journal.events("r") if type(event).__name__ == "CallAdmitted"]
    assert len(admitted) == 2
    for event in admitted:
        assert event.args_digest not in text  # type: ignore[union-attr]
        assert event.key not in text  # type: ignore[union-attr]


def test_whoever_reads_the_journal_finds_them(journal: SqliteJournal) -> None:
    """Until they are deleted a run is told, and resumed, as if they stood in the record."""
    assert journal.verify().ok
    assert journal.verify().deleted == 0
    assert ADA in repr(list(journal.events("r")))


def test_they_are_deleted_when_the_run_is_closed(journal: SqliteJournal, path: Path) -> None:
    """From every table and every page of the file; the run still verifies with its key and position, saying so."""
    position = journal.position("r")
    assert journal.forget("r") > 3
    found = journal.verify("r", key=KEY, last=position)
    assert (found.ok, found.deleted > 3) == (True, True)
    assert journal.forget("r") == 0
    told = Engine([], journal=journal).show("r")
    assert told.state == "done"
    assert told.output == {"sent": FORGOTTEN, "phone": FORGOTTEN, "n": 1}
    journal.close()
    for file in path.parent.glob("runs.sqlite3*"):
        if file.is_file():
            assert ADA.encode() not in file.read_bytes()


def test_a_run_that_is_not_closed_keeps_them(path: Path) -> None:
    """It could not go on without."""
    with SqliteJournal(path) as journal:
        Engine([find, send, ask], policies=RULES, journal=journal).run_blocking(
            PLAN, inputs={"who": "Ada"}, run_id="r"
        )
        with pytest.raises(JournalError, match="run 'r' is not closed"):
            journal.forget("r")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("DELETE FROM personal", "a personal value that it refers to is missing"),
        (
            "UPDATE personal SET value = '\"eve@example.org\"'",
            "is not what was written: its commitment differs",
        ),
        ("UPDATE personal SET salt = x'00'", "is not what was written: its commitment differs"),
    ],
)
def test_a_value_that_was_changed_or_lost_is_told(
    change: str, said: str, journal: SqliteJournal, path: Path
) -> None:
    """Nobody can say that another value was written, nor that one was deleted by rule that was not."""
    with at(path) as connection:
        connection.execute(change)
    assert said in journal.verify("r").problems[0]


def test_a_value_can_be_shown_to_somebody_who_has_the_record_alone(journal: SqliteJournal) -> None:
    """One value at one place, by its salt; a forged one does not hold."""
    admitted = next(e for e in journal.events("r") if type(e).__name__ == "CallAdmitted" and e.tool == "send")  # type: ignore[union-attr]
    shown = {value.path: value for value in journal.disclose("r", admitted.seq)}
    text = journal.text("r", admitted.seq)
    mail = shown["args", "to"]
    assert (mail.value, mail.holds_in(text)) == (ADA, True)
    assert not mail._replace(value="eve@example.org").holds_in(text)
    assert not mail._replace(path=("args", "cc")).holds_in(text)
    assert not mail._replace(seq=1).holds_in(text)
    journal.forget("r")
    assert journal.disclose("r", admitted.seq) == []


def test_a_fork_does_not_go_on_with_what_was_deleted(journal: SqliteJournal) -> None:
    """No tool is called with the words that stand for a deleted value."""
    journal.forget("r")
    engine = Engine([find, send, ask], policies=RULES, journal=journal)
    with pytest.raises(BadInput, match=r"cannot be forked at 'sent': personal values .* were deleted"):
        engine.fork_blocking("r", from_step="sent")


def test_what_is_declared_must_be_there() -> None:
    """A misspelt tool, and a pointer that is none, never mean that nothing is personal."""
    with pytest.raises(
        BadInput, match="personal fields name a tool 'fnd' that is not registered; did you mean 'find'"
    ):
        Engine([find], policies=Policies(personal={"fnd": ("/result",)}))
    with pytest.raises(BadInput, match="personal"):
        Policies(personal={"find": ("result",)})


def test_a_fork_holds_no_personal_value_either(journal: SqliteJournal, path: Path) -> None:
    """What it takes over stands beside its record, too; both can be replayed, and told when all is forgotten."""
    engine = Engine([find, send, ask], policies=RULES, journal=journal)
    fork = engine.fork_blocking("r", from_step="sent")
    assert (fork.state, fork["found"]["people"][0]["phone"]) == ("waiting", PHONE)
    ended = engine.resume_blocking(fork.id, decisions={fork.waiting[0].id: "approve"})
    assert ended.ok
    assert engine.replay("r").identical
    assert engine.replay(fork.id).identical
    text = stored(path)
    assert ADA not in text
    assert str(PHONE) not in text
    acted = next(iter(journal.events(fork.id))).forked["acted"]  # type: ignore[union-attr, index]
    assert [act["digest"] for act in acted if act["digest"] in text] == []
    journal.forget(fork.id)
    assert engine.show(fork.id)["found"]["people"][0]["mail"] == FORGOTTEN
