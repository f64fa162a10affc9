"""Which files leave a table: by cases, and by random histories against a simple model."""

from collections.abc import Mapping
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.ids import JobId, VertexId
from taskrunner.core.continuation import OutputLost
from taskrunner.core.table_history import (
    BatchAppended,
    BatchesWithdrawn,
    SinkCommit,
    Withdrawal,
    WrittenBatch,
    withdrawal,
)

A, B, C = (JobId(UUID(int=n)) for n in (1, 2, 3))
OUT = VertexId("out")


class TableOfNames:
    """A table that knows the names of its files and its commits."""

    def __init__(self) -> None:
        self.history: list[SinkCommit] = []
        self.files: list[str] = ["theirs/part-0.parquet"]

    def append(self, batch: int, job: JobId = A, sink: VertexId = OUT, files: int = 2) -> None:
        written = WrittenBatch(job, sink, batch)
        self.history.insert(0, BatchAppended(written, files))
        self.files += [f"data/{written.prefix}abc/day=1/part-{n}.parquet" for n in range(files)]

    def withdraw(self, kept: Mapping[JobId, int], *, is_whole: bool = True) -> Withdrawal:
        found = withdrawal("t", OUT, self.history, self.files, kept, is_whole=is_whole)
        self.files = [one for one in self.files if one not in found.files]
        self.history.insert(0, BatchesWithdrawn(OUT, dict(kept)))
        return found

    @property
    def batches(self) -> list[int]:
        names = {one.split("/")[1] for one in self.files if one.startswith("data/")}
        return sorted(int(one.split("-")[2]) for one in names)


@pytest.fixture
def table() -> TableOfNames:
    found = TableOfNames()
    for batch in range(4):
        found.append(batch)
    return found


def test_nothing_leaves_if_no_batch_is_newer(table: TableOfNames) -> None:
    assert table.withdraw({A: 3}) == Withdrawal()


def test_the_files_of_later_batches_leave_and_all_others_stay(table: TableOfNames) -> None:
    assert table.withdraw({A: 1}).batches == (3, 2)
    assert table.batches == [0, 1]
    assert table.files[0] == "theirs/part-0.parquet"


def test_what_left_before_is_not_looked_for_again(table: TableOfNames) -> None:
    table.withdraw({A: 2})
    assert table.withdraw({A: 1}).batches == (2,)
    table.append(2)
    assert table.withdraw({A: 1}).batches == (2,)


def test_refuses_if_a_later_batch_was_rewritten(table: TableOfNames) -> None:
    table.files.pop()
    with pytest.raises(OutputLost, match=r"before batch 3.*2 files the table has 1"):
        table.withdraw({A: 1})
    assert table.batches == [0, 1, 2, 3]


def test_a_rewritten_batch_that_stays_does_not_matter(table: TableOfNames) -> None:
    table.files = [one for one in table.files if not one.endswith("0-abc/day=1/part-0.parquet")]
    assert table.withdraw({A: 1}).batches == (3, 2)


def test_other_sinks_and_jobs_stay(table: TableOfNames) -> None:
    table.append(4, sink=VertexId("late"))
    table.append(4, job=C)
    assert table.withdraw({A: 2}).batches == (3,)


def test_a_successor_takes_back_what_its_parent_wrote_after_the_savepoint(
    table: TableOfNames,
) -> None:
    assert table.withdraw({A: 1, B: -1}).batches == (3, 2)
    table.append(2, job=B)
    assert table.withdraw({A: 0, C: -1}).batches == (1,)


def test_refuses_if_the_history_is_too_short(table: TableOfNames) -> None:
    table.history = table.history[:2]
    with pytest.raises(OutputLost, match="cleaned up"):
        table.withdraw({A: 1}, is_whole=False)
    assert table.withdraw({A: 2}, is_whole=False).batches == (3,)


@given(st.lists(st.one_of(st.just("append"), st.integers(0, 3)), max_size=20))
def test_a_sink_that_appends_and_goes_back_any_number_of_times(steps: list[str | int]) -> None:
    table, batches = TableOfNames(), list[int]()
    for step in steps:
        if isinstance(step, int):
            batches = batches[: max(0, len(batches) - step)]
            table.withdraw({A: len(batches) - 1})
        else:
            table.append(len(batches))
            batches.append(len(batches))
        assert table.batches == batches
