"""The files that a batch writes beside its journal, inputs that all rows share, and where its rows are found again."""

from __future__ import annotations

import csv
import json
import resource
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from foreplan import (
    Batch,
    BatchRules,
    Engine,
    FileRows,
    Plan,
    Policies,
    Retry,
    SqliteJournal,
    SqliteRows,
    ToolFailure,
    tool,
)
from foreplan.executor.events import RowSettled
from foreplan.policies.errors import BadInput, ForeplanError

PLAN = Plan.model_validate(
    {
        "inputs": {
            "type": "object",
            "properties": {"n": {"type": "integer"}, "who": {"type": "string", "default": "eve"}},
            "required": ["n"],
        },
        "steps": [
            {"id": "paid", "tool": "pay", "args": {"n": {"$": "inputs.n"}, "who": {"$": "inputs.who"}}}
        ],
        "output": {"receipt": {"$": "paid"}},
    }
)
RULES = Policies(approve="never", retry=Retry(attempts=1))


class World:
    """Pays all numbers but those in `bad`; `limit` payments, then the process of the batch is cancelled."""

    def __init__(self, *bad: int, limit: int = 1_000_000) -> None:
        self.bad = set(bad)
        self.limit = limit
        self.paid: list[tuple[int, str]] = []

    def engine(self, journal: Any = None) -> Engine:
        @tool(effect="writes")
        async def pay(n: int, who: str) -> str:
            """Pay."""
            if len(self.paid) >= self.limit:
                await anyio.sleep_forever()
            if n in self.bad:
                raise ToolFailure(f"no money for {n}", code="poor")
            self.paid.append((n, who))
            return f"r{n}"

        return Engine([pay], policies=RULES, journal=journal)


def lines(path: str) -> list[dict[str, Any]]:
    """The rows of a results file."""
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def cells(path: str) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with six rows, of which the third is no number."""
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("n\n1\n2\nx\n4\n5\n6\n")


async def cut_short(world: World, journal: Any, files: Mapping[str, str]) -> str:
    """A batch that is cancelled after some payments; its id."""
    engine, limit = world.engine(journal), world.limit
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(
            lambda: engine.run_batch(
                PLAN,
                "rows.csv",
                batch_id="b",
                rules=BatchRules(at_once=1),
                **files,  # type: ignore[arg-type]
            )
        )
        while len(world.paid) < limit:
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    world.limit = 1_000_000
    return "b"


def test_results_and_failures_are_written() -> None:
    """A line for each row in the order of the source; the rows that failed as the source has them."""
    batch = World(5).engine().run_batch_blocking(PLAN, "rows.csv", results="out.jsonl", failures="bad.csv")
    assert [row["status"] for row in lines("out.jsonl")] == [
        "done",
        "done",
        "refused",
        "done",
        "failed",
        "done",
    ]
    assert [row["output"] for row in lines("out.jsonl")][:2] == [{"receipt": "r1"}, {"receipt": "r2"}]
    assert [(row["foreplan.row"], row["n"]) for row in cells("bad.csv")] == [
        (f"{batch.id}.3", "x"),
        (f"{batch.id}.5", "5"),
    ]


def test_what_never_began_is_among_the_failures_and_can_be_fed_back() -> None:
    """With a code that says so and why; it has no record of an end, so each row has at most one. A retry takes it out again."""
    world = World(2)
    with SqliteJournal("runs.db") as journal:
        engine, rules = world.engine(journal), BatchRules(stop_after=1, at_once=1)
        batch = engine.run_batch_blocking(
            PLAN, "rows.csv", rules=rules, results="out.csv", failures="bad.csv"
        )
        left = [(row["n"], row["foreplan.code"], row["foreplan.row"]) for row in cells("bad.csv")]
        assert left == [
            ("2", "poor", f"{batch.id}.2"),
            ("x", "wrong_cell", f"{batch.id}.3"),
            *((n, "not_begun", f"{batch.id}.{n}") for n in "456"),
        ]
        assert cells("bad.csv")[-1]["foreplan.sentence"] == (
            "it never began: 1 row failed, so no further one began"
        )
        assert [row["ordinal"] for row in cells("out.csv")] == ["1", "2", "3"]
        settled = [event.ordinal for event in journal.events(batch.id) if isinstance(event, RowSettled)]
        assert (sorted(settled), [row.ordinal for row in batch.rows()]) == ([1, 2, 3], [1, 2, 3])

        fed = world.engine().run_batch_blocking(PLAN, "bad.csv")
        assert (fed.counts["done"], [n for n, _ in world.paid]) == (3, [1, 4, 5, 6])

        again = engine.source_of(batch.id)
        assert again is not None
        world.bad = set()
        engine.retry_batch_blocking(batch.id, **again._asdict())
        assert [row["n"] for row in cells("bad.csv")] == ["x"]


def test_csv_has_a_column_for_each_key_of_the_output() -> None:
    """What the plan's output names."""
    World().engine().run_batch_blocking(PLAN, [{"n": 1}], results="out.csv")
    assert [row["output.receipt"] for row in cells("out.csv")] == ["r1"]


def test_a_file_that_stands_in_the_way_stops_the_batch_before_it_begins() -> None:
    """Nothing is paid, nothing is in the journal, and nothing is left beside the file; `overwrite` replaces it."""
    Path("out.csv").write_text("mine\n")
    world = World()
    engine = world.engine()
    with pytest.raises(BadInput, match="there already"):
        engine.run_batch_blocking(PLAN, "rows.csv", results="out.csv", failures="bad.csv")
    assert (world.paid, engine.runs(), sorted(p.name for p in Path().iterdir())) == (
        [],
        [],
        ["out.csv", "rows.csv"],
    )
    engine.run_batch_blocking(PLAN, "rows.csv", results="out.csv", overwrite=True)
    assert len(cells("out.csv")) == 6


def test_one_file_cannot_be_both() -> None:
    """Results and failures are two files, however they are written."""
    with pytest.raises(BadInput, match="two files"):
        World().engine().run_batch_blocking(PLAN, "rows.csv", results="out.csv", failures="./out.csv")


def test_what_keeps_a_batch_from_beginning_leaves_no_files() -> None:
    """An id that is taken, for one."""
    engine = World().engine()
    engine.run_batch_blocking(PLAN, [{"n": 1}], batch_id="b")
    with pytest.raises(ForeplanError, match="'b'"):
        engine.run_batch_blocking(PLAN, "rows.csv", batch_id="b", results="out.csv", failures="bad.csv")
    assert [path.name for path in Path().iterdir()] == ["rows.csv"]


def test_a_batch_that_goes_on_writes_the_same_files() -> None:
    """Rows that had ended before are in them, once each, in order; nobody names the files again."""
    world = World(5, limit=2)
    with SqliteJournal("runs.db") as journal:
        id_ = anyio.run(cut_short, world, journal, {"results": "out.jsonl", "failures": "bad.csv"})
    assert [row["ordinal"] for row in lines("out.jsonl.part")] == [3, 1, 2]
    with SqliteJournal("runs.db") as journal:
        engine = world.engine(journal)
        again = engine.source_of(id_)
        assert again is not None
        batch = engine.resume_batch_blocking(id_, **again._asdict())
    assert (batch.status, [row["ordinal"] for row in lines("out.jsonl")]) == ("failed", [1, 2, 3, 4, 5, 6])
    assert [row["n"] for row in cells("bad.csv")] == ["x", "5"]
    assert list(Path().glob("*.part")) == []


def test_a_file_that_cannot_be_written_for_a_while_is_whole_in_the_end() -> None:
    """A limit on the size of files stands for a full disk: it stops no row, and the file is made from the journal."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    @tool(effect="reads")
    async def pay(n: int, who: str) -> str:
        """Fill the disk with the first row, and make room before the second."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000 if n == 1 else soft, hard))
        return "r" * 100_000

    try:
        engine = Engine([pay], policies=RULES)
        rules = BatchRules(at_once=1)
        batch = engine.run_batch_blocking(PLAN, [{"n": 1}, {"n": 2}], results="out.jsonl", rules=rules)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (batch.status, [row["ordinal"] for row in lines("out.jsonl")]) == ("done", [1, 2])


def test_constants_are_the_same_for_every_row() -> None:
    """They go before columns and defaults, and are part of what is approved and compared."""
    world = World()
    rows = [{"n": 1, "who": "bob"}, {"n": 2}]
    world.engine().run_batch_blocking(PLAN, rows, constants={"who": "ada"})
    assert sorted(world.paid) == [(1, "ada"), (2, "ada")]

    async def digests() -> list[str]:
        engine = world.engine()
        return [
            (await engine.examine(PLAN, rows, constants=c)).digest for c in ({"who": "ada"}, {"who": "al"})
        ]

    first, second = anyio.run(digests)
    assert first != second


@pytest.mark.parametrize(
    ("constants", "columns", "said"),
    [
        ({"wo": "ada"}, None, "no input 'wo'; did you mean 'who'"),
        ({"who": 5}, None, "the constant 'who' must be text"),
        ({"who": "ada"}, {"who": "n"}, "given twice"),
    ],
    ids=["unknown", "unfit", "twice"],
)
def test_a_constant_that_cannot_be_is_refused(constants: Any, columns: Any, said: str) -> None:
    """Before a row is looked at."""
    with pytest.raises(BadInput, match=said):
        World().engine().run_batch_blocking(PLAN, "rows.csv", constants=constants, columns=columns)


def test_rows_that_were_examined_are_run_without_another_look() -> None:
    """What `examine` gave stands for the rows; for a plan with other inputs it is refused."""
    engine = World().engine()

    async def examined_and_run() -> Batch:
        return await engine.run_batch(PLAN, await engine.examine(PLAN, "rows.csv"))

    assert anyio.run(examined_and_run).counts["done"] == 5
    other = Plan.model_validate({**PLAN.to_json(), "inputs": {"type": "object", "properties": {"n": {}}}})

    async def of_another() -> Batch:
        return await engine.run_batch(PLAN, await engine.examine(other, "rows.csv"))

    with pytest.raises(BadInput, match="other inputs"):
        anyio.run(of_another)


def test_a_source_is_found_again_as_it_was_read() -> None:
    """Format, delimiter, columns and constants are in the journal; a list of a program is not found again."""
    Path("odd.txt").write_text("Nr;x\n1;a\n")
    engine = World().engine()
    rows = FileRows("odd.txt", format="csv", delimiter=";")
    batch = engine.run_batch_blocking(PLAN, rows, columns={"n": "Nr"}, constants={"who": "ada"})
    again = engine.source_of(batch.id)
    assert again is not None
    assert ([row.given for row in again.rows.rows()], again.columns, again.constants) == (
        [{"Nr": "1", "x": "a"}],
        {"n": "Nr"},
        {"who": "ada"},
    )
    assert engine.source_of(engine.run_batch_blocking(PLAN, [{"n": 1}]).id) is None


def test_a_query_is_found_again() -> None:
    """With its words; one with parameters is not, for those are not in the journal."""
    with sqlite3.connect("numbers.db") as numbers:
        numbers.execute("CREATE TABLE numbers (n INTEGER)")
        numbers.execute("INSERT INTO numbers VALUES (1), (2)")
    numbers.close()
    engine = World().engine()
    batch = engine.run_batch_blocking(PLAN, SqliteRows("numbers.db", "SELECT n FROM numbers ORDER BY n"))
    again = engine.source_of(batch.id)
    assert again is not None
    assert [row.given for row in again.rows.rows()] == [{"n": 1}, {"n": 2}]
    asked = SqliteRows("numbers.db", "SELECT n FROM numbers WHERE n > ? ORDER BY n", [1])
    assert engine.source_of(engine.run_batch_blocking(PLAN, asked).id) is None


def test_rows_under_way_are_counted() -> None:
    """While a batch runs, and none when it has ended."""
    seen: list[int] = []

    @tool(effect="reads")
    async def pay(n: int, who: str) -> str:
        """Look at how many run."""
        seen.append(engine.rows_under_way("b"))
        return "r"

    engine = Engine([pay], policies=RULES)
    engine.run_batch_blocking(PLAN, [{"n": 1}, {"n": 2}], batch_id="b", rules=BatchRules(at_once=1))
    assert (seen, engine.rows_under_way("b")) == ([1, 1], 0)


def test_a_sample_is_rehearsed() -> None:
    """Spread over the rows, with stand-ins in the place of tools; nothing is paid, and nothing is kept."""

    def pretended(n: int, who: str) -> str:
        if n == 6:
            raise ToolFailure("no money", code="poor")
        return f"would be {n}"

    @tool(effect="writes", simulate=pretended)
    async def pay(n: int, who: str) -> str:
        """Pay."""
        raise AssertionError("a rehearsal pays nothing")

    engine = Engine([pay], policies=RULES)
    found = anyio.run(lambda: engine.rehearse_batch(PLAN, [{"n": n} for n in range(1, 9)], sample=3))
    assert [row.ordinal for row in found] == [1, 3, 6]
    assert [(row.status, row.output, row.code) for row in found] == [
        ("done", {"receipt": "would be 1"}, ""),
        ("done", {"receipt": "would be 3"}, ""),
        ("failed", {"receipt": None}, "poor"),
    ]
    assert engine.runs() == []
    with pytest.raises(BadInput, match="sample"):
        anyio.run(lambda: engine.rehearse_batch(PLAN, [{"n": 1}], sample=0))
