from hypothesis import given
from hypothesis import strategies as st

from taskrunner.core.uncheckpointed import UncheckpointedWork


def test_what_a_completed_checkpoint_covers_is_not_counted_any_more() -> None:
    work = UncheckpointedWork()
    for batch in range(5):
        work.add(batch, rows=10, busy_ms=100)

    assert (work.rows, work.busy_ms) == (50, 500)
    work.cover(2)
    assert (work.rows, work.busy_ms) == (20, 200)
    work.cover(1)
    assert work.rows == 20


def test_a_report_that_comes_after_its_checkpoint_does_not_count() -> None:
    work = UncheckpointedWork()
    work.cover(7)
    work.add(7, rows=10, busy_ms=100)
    work.add(8, rows=1, busy_ms=3)

    assert (work.rows, work.busy_ms) == (1, 3)


def test_a_job_without_checkpoints_takes_no_more_memory_and_loses_no_row() -> None:
    work = UncheckpointedWork()
    for batch in range(5000):
        work.add(batch, rows=1, busy_ms=2)

    assert (work.rows, work.busy_ms) == (5000, 10_000)
    assert len(work._batches) <= 1000
    work.cover(4998)
    assert work.rows == 1


@given(
    st.lists(st.tuples(st.integers(0, 1500), st.integers(0, 9)), max_size=60),
    st.integers(-1, 1500),
)
def test_rows_are_those_of_later_batches(reports: list[tuple[int, int]], covered: int) -> None:
    work = UncheckpointedWork()
    for batch, rows in reports:
        work.add(batch, rows, 0)
    work.cover(covered)

    assert work.rows == sum(rows for batch, rows in reports if batch > covered)
