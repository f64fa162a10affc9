"""A database table as a sink, on SQLite: crashes at each step, replays, restores, fencing."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.graph.connectors.table_mode import TableMode
from jobmanager.core.ids import AttemptNumber, JobId
from taskrunner.core.continuation import Branch, OutputLost
from taskrunner.core.staged_rows import BatchIncomplete
from taskrunner.core.table_ledger import ColumnsDiffer, branches_of, branches_text
from taskrunner.core.table_statements import UpsertStyle, dialect_of
from taskrunner.sinks.database_table import DatabaseTable, KeyInvalid, TableSpec, TableUnfit
from taskrunner.snapshots.fence import Superseded
from tests.support.sql_connections import to_sqlite
from tests.unit.taskrunner.builders import JOB, SINK

Row = dict[str, Any]
SQLITE = dialect_of("jdbc:sqlite:/x")
APPEND = TableSpec("orders", TableMode.APPEND, SQLITE)
TAGGED = replace(APPEND, batch_column="batch")
UPSERT = TableSpec("orders", TableMode.UPSERT, SQLITE, key=("id",))
STEPS = ("staging created", "staged", "noted", "moved", "committed", "dropped")
OTHER = JobId(UUID(int=77))


class Crash(BaseException):
    """The process is gone."""


def crash_after(step: str) -> Callable[[str], None]:
    def after(name: str) -> None:
        if name == step:
            raise Crash(name)

    return after


class Database:
    """An SQLite database with a table `orders`."""

    def __init__(self, definition: str = "id INTEGER PRIMARY KEY, v TEXT, batch TEXT") -> None:
        self.opened = sqlite3.connect(":memory:", isolation_level=None)
        self.opened.execute(f"CREATE TABLE orders ({definition})")

    def table(
        self,
        spec: TableSpec,
        attempt: int = 1,
        job: JobId = JOB,
        after_step: Callable[[str], None] = lambda step: None,
    ) -> DatabaseTable:
        return DatabaseTable(
            to_sqlite(self.opened),
            spec,
            job,
            SINK,
            AttemptNumber(attempt),
            nullcontext,
            after_step,
        )

    def started(
        self, spec: TableSpec, attempt: int = 1, last_kept: int = -1, job: JobId = JOB
    ) -> DatabaseTable:
        table = self.table(spec, attempt, job)
        table.take_over()
        table.recover(last_kept)
        return table

    def write(self, table: DatabaseTable, batch: int, rows: Sequence[Row]) -> None:
        """What the Spark sink does with a batch."""
        if table.has(batch):
            return
        columns = list(rows[0]) if rows else ["id", "v"]
        staged, names = table.stage(batch, columns, lambda column, quoted: f"{quoted} TEXT")
        self.insert(staged.staging, list(names.values()), rows)
        table.commit(batch, staged, len(rows))

    def insert(self, table: str, names: Sequence[str], rows: Sequence[Row]) -> None:
        for row in rows:
            quoted = ", ".join(f'"{one}"' for one in names)
            marks = ", ".join("?" for _ in names)
            values = [next(v for k, v in row.items() if k.lower() == n.lower()) for n in names]
            self.opened.execute(f"INSERT INTO {table} ({quoted}) VALUES ({marks})", values)

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(self.opened.execute("SELECT id, v FROM orders").fetchall())

    def leftovers(self) -> list[str]:
        found = self.opened.execute("SELECT name FROM sqlite_master WHERE name LIKE 'hg%'")
        return [name for (name,) in found]


@pytest.fixture
def database() -> Iterator[Database]:
    made = Database()
    yield made
    made.opened.close()


def batch_rows(batch: int, of: str = "") -> list[Row]:
    return [{"id": 10 * batch + n, "v": f"{batch}{of}"} for n in range(2)]


def seen(*batches: int, of: str = "") -> list[tuple[Any, ...]]:
    return [(row["id"], row["v"]) for batch in batches for row in batch_rows(batch, of)]


@pytest.mark.parametrize("spec", [APPEND, TAGGED, UPSERT], ids=["append", "tagged", "upsert"])
@pytest.mark.parametrize("step", STEPS)
def test_wherever_it_crashes_each_row_is_there_once_in_the_end(
    database: Database, spec: TableSpec, step: str
) -> None:
    # Given a batch in place, and a crash somewhere in the next
    first = database.started(spec)
    database.write(first, 0, batch_rows(0))
    with pytest.raises(Crash):
        database.write(database.table(spec, after_step=crash_after(step)), 1, batch_rows(1))
    # When the next attempt replays that batch
    second = database.started(spec, attempt=2, last_kept=1)
    left = database.leftovers()
    database.write(second, 1, batch_rows(1))
    # Then every row is there once, and nothing is left behind
    assert database.rows() == seen(0, 1)
    assert left == database.leftovers() == []


@pytest.mark.parametrize("step", ["withdrawn", "gone back"])
def test_rows_of_later_batches_are_withdrawn_by_their_batch_column(
    database: Database, step: str
) -> None:
    table = database.started(TAGGED)
    for batch in range(4):
        database.write(table, batch, batch_rows(batch, "old"))
    crashing = database.table(TAGGED, 2, after_step=crash_after(step))
    crashing.take_over()
    with suppress(Crash):
        crashing.recover(1)

    table = database.started(TAGGED, attempt=3, last_kept=1)

    assert database.rows() == seen(0, 1, of="old")
    for batch in (2, 3):
        database.write(table, batch, batch_rows(batch, "new"))
    assert database.rows() == seen(0, 1, of="old") + seen(2, 3, of="new")


def test_the_rows_of_other_jobs_stay_where_they_are(database: Database) -> None:
    mine, other = database.started(TAGGED), database.started(TAGGED, job=OTHER)
    database.write(mine, 0, batch_rows(0))
    database.write(other, 0, batch_rows(5))
    database.write(other, 1, batch_rows(6))
    database.write(mine, 1, batch_rows(1))

    database.started(TAGGED, attempt=2, last_kept=0)

    assert database.rows() == seen(0, 5, 6)


def test_an_append_without_batch_column_refuses_to_go_back_and_says_what_to_do(
    database: Database,
) -> None:
    table = database.started(APPEND)
    for batch in range(3):
        database.write(table, batch, batch_rows(batch))
    later = database.table(APPEND, 2)
    later.take_over()

    with pytest.raises(OutputLost) as raised:
        later.recover(0)

    assert "table orders has the rows of batches up to 2" in str(raised.value)
    assert "continue after batch 0" in str(raised.value)
    assert "set last_batch to 0 in headgate_batches" in str(raised.value)
    assert f"job_id = '{JOB.hex}'" in str(raised.value)
    # and what it says helps
    database.opened.execute("DELETE FROM orders WHERE id >= 10")
    database.opened.execute("UPDATE headgate_batches SET last_batch = 0")
    later.recover(0)
    database.write(later, 1, batch_rows(1, "again"))
    assert database.rows() == seen(0) + seen(1, of="again")


def test_an_upsert_that_goes_back_writes_the_same_keys_again(database: Database) -> None:
    table = database.started(UPSERT)
    for batch in range(3):
        database.write(table, batch, batch_rows(batch, "old"))

    table = database.started(UPSERT, attempt=2, last_kept=0)
    for batch in (1, 2):
        database.write(table, batch, batch_rows(batch, "new"))

    assert database.rows() == seen(0, of="old") + seen(1, 2, of="new")


def test_an_attempt_that_was_replaced_writes_nothing(database: Database) -> None:
    old = database.started(APPEND)
    database.write(old, 0, batch_rows(0))
    database.started(APPEND, attempt=2, last_kept=0)

    with pytest.raises(Superseded, match="attempt 1 was superseded by attempt 2"):
        database.write(old, 1, batch_rows(1))
    with pytest.raises(Superseded):
        old.take_over()

    assert database.rows() == seen(0)


@pytest.mark.parametrize("staged", [1, 3], ids=["lost", "written twice"])
def test_a_staging_table_with_other_rows_than_spark_counted_is_not_moved(
    database: Database, staged: int
) -> None:
    table = database.started(APPEND)
    made, names = table.stage(0, ["id", "v"], lambda column, quoted: "")
    database.insert(made.staging, list(names.values()), (batch_rows(0) + batch_rows(1))[:staged])

    with pytest.raises(BatchIncomplete, match=f"Spark counted 2 rows, .* has {staged}"):
        table.commit(0, made, 2)
    table.abandon(made)

    assert database.rows() == []
    assert not table.has(0)
    assert database.leftovers() == []


def test_a_batch_without_rows_leaves_nothing(database: Database) -> None:
    table = database.started(APPEND)

    database.write(table, 0, [])

    assert not table.has(0)
    assert database.leftovers() == []


def test_of_several_rows_of_a_key_the_last_by_order_by_counts(database: Database) -> None:
    table = database.started(replace(UPSERT, order_by=("at",)))
    rows = [
        {"id": 1, "v": "b", "at": 2},
        {"id": 1, "v": "c", "at": 3},
        {"id": 1, "v": "a", "at": None},
    ]

    database.write(table, 0, rows)

    assert database.rows() == [(1, "c")]


def test_several_rows_of_a_key_without_order_by_must_be_the_same(database: Database) -> None:
    table = database.started(UPSERT)
    database.write(table, 0, [{"id": 1, "v": "a"}, {"id": 1, "v": "a"}])
    assert database.rows() == [(1, "a")]

    with pytest.raises(KeyInvalid, match=r"1 keys .* such as 2: name the columns .* order_by"):
        database.write(table, 1, [{"id": 2, "v": "a"}, {"id": 2, "v": "b"}])
    assert not table.has(1)


def test_a_null_in_a_key_is_refused(database: Database) -> None:
    table = database.started(UPSERT)

    with pytest.raises(KeyInvalid, match="1 rows have a null in the key"):
        database.write(table, 0, [{"id": 1, "v": "a"}, {"id": None, "v": "b"}])


def test_an_upsert_needs_a_unique_index_on_its_key() -> None:
    database = Database("id INTEGER, v TEXT")

    with pytest.raises(TableUnfit, match=r"no unique index on exactly \(id\)"):
        database.table(UPSERT).take_over()


def test_rows_are_deleted_by_key(database: Database) -> None:
    database.write(database.started(APPEND), 0, batch_rows(0) + batch_rows(1))
    deleting = TableSpec("orders", TableMode.DELETE, SQLITE, key=("id",))

    database.write(database.started(deleting, job=OTHER), 0, [{"id": 1, "reason": "x"}])

    assert database.rows() == [(0, "0"), (10, "1"), (11, "1")]


@pytest.mark.parametrize("style", [UpsertStyle.ON_CONFLICT, UpsertStyle.UPDATE_AND_INSERT])
def test_changes_add_replace_and_delete_in_their_order(
    database: Database, style: UpsertStyle
) -> None:
    changes = TableSpec(
        "orders",
        TableMode.UPSERT,
        replace(SQLITE, upsert=style),
        key=("id",),
        op_column="op",
        order_by=("at",),
    )
    table = database.started(changes)
    database.write(
        table,
        0,
        [
            {"id": 1, "v": "new", "op": "c", "at": 1},
            {"id": 2, "v": "new", "op": "r", "at": 2},
            {"id": 3, "v": "new", "op": "c", "at": 3},
            {"id": 3, "v": None, "op": "d", "at": 4},
        ],
    )
    assert database.rows() == [(1, "new"), (2, "new")]

    database.write(
        table,
        1,
        [
            {"id": 1, "v": None, "op": "d", "at": 5},
            {"id": 2, "v": "changed", "op": "u", "at": 6},
            {"id": 4, "v": None, "op": "d", "at": 7},
            {"id": 4, "v": "again", "op": "c", "at": 8},
        ],
    )
    assert database.rows() == [(2, "changed"), (4, "again")]


def test_columns_are_found_whatever_their_case(database: Database) -> None:
    database.write(database.started(APPEND), 0, [{"ID": 1, "V": "a"}])

    assert database.rows() == [(1, "a")]


def test_a_column_that_the_table_lacks_is_named(database: Database) -> None:
    with pytest.raises(ColumnsDiffer, match="no column for price: it has id, v, batch"):
        database.write(database.started(APPEND), 0, [{"id": 1, "price": 2}])


def test_a_job_from_a_savepoint_continues_the_table_of_its_parent(database: Database) -> None:
    parent = database.started(TAGGED)
    for batch in range(4):
        database.write(parent, batch, batch_rows(batch))
    # When two jobs start from batch 1, one after the other
    for job in (OTHER, JobId(UUID(int=78))):
        child = database.table(TAGGED, job=job)
        child.take_over()
        child.continue_output([Branch(JOB, 1)], lambda job: nullcontext)
        child.recover(1)
        database.write(child, 2, batch_rows(2, str(job)[-2:]))
    # Then what the parent and the first child wrote after it is gone
    assert database.rows() == seen(0, 1) + seen(2, of="4e")
    # and the parent is kept out for ever
    with pytest.raises(Superseded):
        database.write(parent, 4, batch_rows(4))


def test_a_job_cannot_continue_what_another_has_withdrawn(database: Database) -> None:
    parent = database.started(TAGGED)
    for batch in range(4):
        database.write(parent, batch, batch_rows(batch))
    first = database.started(TAGGED, job=OTHER)
    first.continue_output([Branch(JOB, 0)], lambda job: nullcontext)

    second = database.started(TAGGED, job=JobId(UUID(int=78)))
    with pytest.raises(OutputLost):
        second.continue_output([Branch(JOB, 2)], lambda job: nullcontext)


def test_a_lineage_is_read_as_it_was_written() -> None:
    lineage = [Branch(JOB, 3), Branch(OTHER, -1)]

    assert branches_of(branches_text(lineage)) == lineage
    assert branches_of(None) == []
    assert len(branches_text([Branch(JOB, 2**62)] * 500)) <= 4000


@given(
    mode=st.sampled_from([TAGGED, UPSERT, replace(UPSERT, dialect=dialect_of("jdbc:other:x"))]),
    schedule=st.lists(
        st.tuples(st.sampled_from(("write", *STEPS)), st.integers(0, 3)), max_size=12
    ),
)
def test_any_schedule_of_crashes_and_restores_gives_what_an_undisturbed_run_gives(
    mode: TableSpec, schedule: list[tuple[str, int]]
) -> None:
    """Each batch writes one row of its own, and one that all batches share (upsert only)."""
    database = Database()
    attempt, done = 1, -1
    table = database.started(mode)
    for what, back in schedule:
        batch = done + 1
        rows: list[Row] = [{"id": 100 + batch, "v": str(batch)}]
        if mode.mode is TableMode.UPSERT:
            rows.append({"id": 1, "v": str(batch)})
        if what == "write":
            database.write(table, batch, rows)
            done = batch
            continue
        with suppress(Crash):
            table = database.table(mode, attempt, after_step=crash_after(what))
            database.write(table, batch, rows)
        attempt += 1
        # the batch that had begun is replayed, or the job goes back
        last_kept = batch if back == 0 else max(-1, done - back + 1)
        table = database.started(mode, attempt, last_kept)
        done = min(done, last_kept)
    for batch in range(done + 1, done + 4):
        rows = [{"id": 100 + batch, "v": str(batch)}]
        if mode.mode is TableMode.UPSERT:
            rows.append({"id": 1, "v": str(batch)})
        database.write(table, batch, rows)
    shared = [(1, str(done + 3))] if mode.mode is TableMode.UPSERT else []
    expected = [(100 + batch, str(batch)) for batch in range(done + 4)]
    found = [row for row in database.rows() if row[0] <= 100 + done + 3]
    assert found == shared + expected
    assert database.leftovers() == []
    database.opened.close()
