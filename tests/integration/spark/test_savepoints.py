"""Savepoints on real Spark: another job goes on from one, in its place or beside it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobmanager.core.ids import AttemptNumber
from taskrunner import stopping
from taskrunner.core.restore import FromSavepoint, FromScratch
from taskrunner.snapshots import durable
from taskrunner.snapshots.previous_attempts import read_drain
from taskrunner.spark.run.region_query import RegionQuery
from taskrunner.stopping import await_ends
from tests.integration.spark.fed_files import (
    ALL_ROWS,
    ROWS_A_FILE,
    SUMS,
    check_updates_are_seen_once,
    feed,
    files_source,
    sums_after,
    sums_seen,
    wait_until_read,
)
from tests.integration.spark.jobs import OUT, JobUnderTest, Row, files_sink, table

WINDOWS = {**SUMS, "op": "window", "time": "ts", "window": {"tumbling": "10s"}}


@contextmanager
def ending(job: JobUnderTest) -> Iterator[JobUnderTest]:
    try:
        yield job
    finally:
        job.stop()


def a_savepoint_then_more(job: JobUnderTest) -> Path:
    """Four files, a savepoint, two more files whose output is seen too; then the end."""
    feed(job, 0, 3)
    job.define(files_source(), SUMS, files_sink("sums")).start()
    wait_until_read(job, 4)
    savepoint = job.savepoint()
    feed(job, 4, 5)
    wait_until_read(job, 6)
    job.stop_at_boundary()
    assert sums_seen(job) == sums_after(6)
    return savepoint


def test_a_job_goes_on_from_the_savepoint_of_another_and_each_row_counts_once(
    job: JobUnderTest,
) -> None:
    # Given a savepoint that was moved, of a job of which nothing else is left
    savepoint = a_savepoint_then_more(job).rename(job.root / "moved")
    job.lose_everything()
    # When another job starts from it
    with ending(job.successor()) as other:
        started = other.start(savepoint=savepoint)
        assert isinstance(started.restored[OUT], FromSavepoint)
        feed(other, 6, 7)
        wait_until_read(other, 8)
        # Then the result is that of an undisturbed run
        assert sums_seen(other) == sums_after(8)
        check_updates_are_seen_once(other)


def test_a_fork_and_its_parent_go_on_apart(job: JobUnderTest) -> None:
    feed(job, 0, 2)
    job.define(files_source(), SUMS, files_sink("sums")).start()
    wait_until_read(job, 3)
    savepoint = job.savepoint()
    with ending(job.successor()) as fork:
        fork.define(files_source(), SUMS, files_sink("sums", path="fork"))
        fork.start(savepoint=savepoint)
        feed(job, 3, 4)
        wait_until_read(job, 5)
        wait_until_read(fork, 5)

        assert sums_seen(job) == sums_after(5)
        check_updates_are_seen_once(job)
        of_later_rows = sums_seen(fork, "fork")
        assert of_later_rows == {k: v for k, v in sums_after(5).items() if k in of_later_rows}
        check_updates_are_seen_once(fork, "fork")


@pytest.mark.long
def test_rows_of_a_table_that_were_read_before_the_savepoint_are_not_read_again(
    job: JobUnderTest,
) -> None:
    windows = {**WINDOWS, "inputs": ["both"]}
    both = {"id": "both", "op": "union", "inputs": ["rows", "more"]}
    job.define(table(ALL_ROWS[:100]), files_source(id="more"), both, windows, files_sink("sums"))
    feed(job, 3, 4)
    job.start()
    job.wait_for_commit(lambda log, batch: None not in log.offsets(batch).offsets)
    job.stop_at_boundary()
    savepoint = job.savepoint()
    job.lose_everything()

    with ending(job.successor()) as other:
        feed(job, 5, 7)
        other.start(savepoint=savepoint)
        other.wait_for_commit(lambda log, batch: log.offsets(batch).offsets[1]["logOffset"] >= 4)
        stop(other, drain=True)

        read = 100 + 5 * ROWS_A_FILE
        assert sum(row["n"] for row in other.output()) == read


def test_rows_of_a_table_are_read_when_the_savepoint_came_before_them(job: JobUnderTest) -> None:
    job.define(table(ALL_ROWS[:100]), SUMS, files_sink("sums"))
    job.attempt = AttemptNumber(1)  # which has done nothing yet
    savepoint = job.savepoint()

    with ending(job.successor()) as other:
        started = other.start(savepoint=savepoint)
        other.finish()

        assert started.restored[OUT] == FromScratch(
            "the savepoint was taken before the first batch"
        )
        assert sum(n for n, _ in sums_seen(other).values()) == 100


def stop(job: JobUnderTest, *, drain: bool) -> None:
    """What a stop does up to its savepoint."""

    def mark(region: str, batch: int) -> None:
        durable.write(job.layout.drain(job.attempt, OUT), f"{batch}\n")

    assert job.running is not None
    regions = [one for one in job.running.regions if isinstance(one, RegionQuery)]
    assert all(region.ask_to_stop() for region in regions)
    assert len(list(await_ends(regions))) == len(regions)
    if drain:
        assert stopping.drain(regions, mark)
    stopping.stop_at_once(regions)


def windows_of(rows: list[Row]) -> int:
    return len({(row["k"], row["id"] // 50) for row in rows})


def test_a_stop_with_drain_emits_every_window_and_no_row_that_came_later(
    job: JobUnderTest,
) -> None:
    feed(job, 0, 3)
    job.define(files_source(), WINDOWS, files_sink("sums")).start()
    wait_until_read(job, 4)

    stop(job, drain=True)

    rows = ALL_ROWS[: 4 * ROWS_A_FILE]
    assert sum(row["n"] for row in job.output()) == len(rows)
    assert len(job.output()) == windows_of(rows)
    # and an attempt after it, if the stop failed, goes on as if nothing had been drained
    drained_after = read_drain(job.layout, job.attempt, OUT)
    assert drained_after is not None
    started = job.start()
    assert started.restored[OUT].why.startswith(f"attempt 1 committed batch {drained_after}")
    feed(job, 4, 5)
    wait_until_read(job, 6)
    stop(job, drain=True)
    rows = ALL_ROWS[: 6 * ROWS_A_FILE]
    assert sum(row["n"] for row in job.output()) == len(rows)
    assert len(job.output()) == windows_of(rows)
