from math import ceil
from pathlib import PurePosixPath

from hypothesis import given
from hypothesis import strategies as st

from taskrunner.core.file_sizes import FileSplit, bytes_per_row, split
from taskrunner.core.staged_rows import StagedFile

MB = 1 << 20


def test_a_small_batch_is_written_by_one_task() -> None:
    assert split(rows=1000, bytes_per_row=100, target=128 * MB, tasks=200).tasks == 1


def test_a_large_batch_has_as_many_tasks_as_files_of_the_wanted_size() -> None:
    assert split(rows=10_000_000, bytes_per_row=100, target=128 * MB, tasks=200).tasks == 8


def test_a_batch_is_not_spread_over_more_tasks_and_its_files_are_cut_by_rows() -> None:
    found = split(rows=10_000_000, bytes_per_row=100, target=1 * MB, tasks=4)

    assert found == FileSplit(tasks=4, most_rows=ceil(1.5 * MB / 100))


@given(
    st.integers(0, 10**9), st.floats(0, 10**6), st.integers(1024, 1 << 40), st.integers(1, 10_000)
)
def test_there_is_always_a_task_and_a_row_in_a_file(
    rows: int, per_row: float, target: int, tasks: int
) -> None:
    found = split(rows, per_row, target, tasks)

    assert 1 <= found.tasks <= tasks
    assert found.most_rows >= 1


def test_the_bytes_of_a_row_are_those_of_filled_files() -> None:
    files = [StagedFile(PurePosixPath("a"), 900, 10), StagedFile(PurePosixPath("b"), 400, 0)]

    assert bytes_per_row(files, 10) == 90
    assert bytes_per_row([], 0) is None
