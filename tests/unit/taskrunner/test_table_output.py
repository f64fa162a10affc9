"""Batches in a real table: each batch once, whatever was killed, replayed or restored."""

import shutil
import tempfile
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from jobmanager.core.graph.file_format import FileFormat
from jobmanager.core.ids import JobId
from taskrunner.core.continuation import OutputLost
from taskrunner.core.staged_rows import BatchCount, BatchIncomplete
from taskrunner.sinks.staged_files import staged_files
from tests.unit.taskrunner.builders import JOB
from tests.unit.taskrunner.tables import (
    DeltaUnderTest,
    IcebergUnderTest,
    TableUnderTest,
    an_output,
    expected,
    stage,
    write,
)
from tests.unit.taskrunner.test_sink_directory import Crash, crash_after

OTHER = JobId(UUID(int=8))
NEVER = 1_000


@pytest.fixture(params=[DeltaUnderTest, IcebergUnderTest], ids=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableUnderTest:
    found: TableUnderTest = request.param(tmp_path)
    return found


def test_a_replayed_batch_is_there_once(table: TableUnderTest) -> None:
    output = an_output(table.commits())
    write(table, output, 0)
    for attempt in (1, 2):
        again = an_output(table.commits(), attempt)
        staged = stage(table, again, 0)
        again.commit(0, staged, BatchCount(2), staged_files(staged, FileFormat.PARQUET))
        assert not staged.exists()
    assert table.ids() == expected(0)


def test_a_batch_that_lacks_rows_is_not_committed(table: TableUnderTest) -> None:
    output = an_output(table.commits())
    staged = stage(table, output, 0)
    with pytest.raises(BatchIncomplete, match="Spark counted 3 rows"):
        output.commit(0, staged, BatchCount(3), staged_files(staged, FileFormat.PARQUET))
    assert table.ids() == []


def test_a_restore_takes_later_batches_out_and_leaves_the_rows_of_others(
    table: TableUnderTest,
) -> None:
    output = an_output(table.commits())
    for batch in range(3):
        write(table, output, batch)
        table.append_others(1000 + batch)
    an_output(table.commits(), attempt=2).recover(last_kept=0)
    assert table.ids() == [*expected(0), 1000, 1001, 1002]
    write(table, an_output(table.commits(), attempt=2), 1)
    assert table.ids() == [*expected(1), 1000, 1001, 1002]


def test_a_restore_behind_rewritten_rows_is_refused(table: TableUnderTest) -> None:
    output = an_output(table.commits())
    for batch in range(3):
        write(table, output, batch)
    table.rewrite()
    write(table, output, 3)
    with pytest.raises(OutputLost, match="its rows were rewritten since"):
        an_output(table.commits(), attempt=2).recover(last_kept=1)
    an_output(table.commits(), attempt=2).recover(last_kept=2)
    assert table.ids() == expected(2)


def test_a_job_that_continues_anothers_table_withdraws_what_came_after(
    table: TableUnderTest,
) -> None:
    for batch in range(4):
        write(table, an_output(table.commits()), batch)
    successor = an_output(table.commits(), job=OTHER)
    successor.continue_after({JOB: 1})
    successor.recover(last_kept=1)
    assert table.ids() == expected(1)
    assert not successor.has(1)  # it is the other job's
    write(table, successor, 2)
    successor.continue_after({JOB: 1})  # a second try of the start withdraws its own batch
    assert table.ids() == expected(1)


def test_what_a_dead_attempt_staged_is_deleted(table: TableUnderTest) -> None:
    staged = stage(table, an_output(table.commits()), 0)
    an_output(table.commits(), attempt=2).recover(last_kept=-1)
    assert not staged.exists()


class TableUnderFire(RuleBasedStateMachine):
    """A region's batches as Spark runs them, with a process that may die after any step."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.attempt = 1
        self.committed = -1

    @initialize(kind=st.sampled_from([DeltaUnderTest, IcebergUnderTest]))
    def make_table(self, kind: type[DeltaUnderTest] | type[IcebergUnderTest]) -> None:
        self.table: TableUnderTest = kind(self.root)

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    @rule(steps=st.integers(1, 4))
    def run_batch(self, steps: int) -> None:
        batch = self.committed + 1
        output = an_output(self.table.commits(), self.attempt, after_step=crash_after(steps))
        try:
            write(self.table, output, batch)
        except Crash:
            self.attempt += 1
            an_output(self.table.commits(), self.attempt).recover(last_kept=batch)
            write(self.table, an_output(self.table.commits(), self.attempt), batch)
        self.committed = batch

    @rule(share=st.floats(0, 1), steps=st.integers(1, 2))
    def restore_an_old_savepoint(self, share: float, steps: int) -> None:
        self.committed = round(share * (self.committed + 1)) - 1
        self.attempt += 1
        output = an_output(self.table.commits(), self.attempt, after_step=crash_after(steps))
        try:
            output.recover(self.committed)
        except Crash:
            self.attempt += 1
            an_output(self.table.commits(), self.attempt).recover(self.committed)

    @invariant()
    def readers_see_each_committed_row_once(self) -> None:
        assert self.table.ids() == expected(self.committed)


TestTableUnderFire = TableUnderFire.TestCase
TestTableUnderFire.settings = settings(max_examples=6, stateful_step_count=8, deadline=None)
