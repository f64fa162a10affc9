"""What every sink that promises exactly once has to keep, whatever it writes to.

The sinks are in `contract_sinks.py`: a new one has only to be added there.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobmanager.core.ids import AttemptNumber
from taskrunner.core.restore import FromCheckpoint, FromSavepoint
from taskrunner.snapshots.fence import Fence, Superseded
from taskrunner.spark.run.batch_sinks import FencedBatches
from taskrunner.spark.run.region_query import QueryPhase
from tests.integration.spark.contract_sinks import SINKS, ContractSink
from tests.integration.spark.fed_files import (
    ALL_ROWS,
    ROWS_A_FILE,
    feed,
    files_source,
    wait_until_read,
)
from tests.integration.spark.jobs import OUT, JobUnderTest

REPOSITORY = Path(__file__).parents[3]
KILLED_IN_BATCH = 1
GOES_BACK = [name for name, sink in SINKS.items() if sink.goes_back]
REFUSES = [name for name, sink in SINKS.items() if not sink.goes_back]


class Crash(Exception):
    """The attempt ends here."""


@pytest.fixture
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ContractSink]:
    with SINKS[request.param].opened(request, tmp_path) as opened:
        yield opened


def every_sink(*names: str) -> pytest.MarkDecorator:
    marked = [
        pytest.param(name, marks=[pytest.mark.long] if SINKS[name].is_long else [])
        for name in names or SINKS
    ]
    return pytest.mark.parametrize("sink", marked, indirect=True)


def define(job: JobUnderTest, sink: ContractSink) -> JobUnderTest:
    return job.define(files_source(), sink.vertex("rows"))


def check_rows(job: JobUnderTest, sink: ContractSink, files: int) -> None:
    """Every row of the files is there once, and no other."""
    seen = sorted((row["id"], row["k"], row["v"]) for row in sink.rows(job))
    assert seen == [(row["id"], row["k"], row["v"]) for row in ALL_ROWS[: files * ROWS_A_FILE]]


def crash_once(monkeypatch: pytest.MonkeyPatch, *, batch: int, written: bool) -> None:
    """Lets a batch fail once: before it is written, or after, when Spark has not noted it yet."""
    write, left = FencedBatches.write, [True]

    def failing(self: FencedBatches, rows: object, number: int) -> int:
        is_now = number == batch and left and left.pop()
        if is_now and not written:
            raise Crash
        count = write(self, rows, number)  # type: ignore[arg-type] # as it came
        if is_now:
            raise Crash
        return count

    monkeypatch.setattr(FencedBatches, "write", failing)


@every_sink()
def test_a_batch_that_is_replayed_is_there_once(
    job: JobUnderTest, sink: ContractSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an attempt that dies after the sink has written a batch, before Spark has noted it
    crash_once(monkeypatch, batch=1, written=True)
    feed(job, 0, 2)
    define(job, sink).start()
    with pytest.raises(Crash):
        wait_until_read(job, 3)
    check_rows(job, sink, 2)
    # When the next attempt replays that batch
    started = job.start()
    wait_until_read(job, 3)
    # Then each row is there once
    assert started.regions[0].phase is QueryPhase.RUNNING
    check_rows(job, sink, 3)


@pytest.mark.long
@every_sink()
def test_a_batch_that_was_not_written_is_written_by_the_next_attempt(
    job: JobUnderTest, sink: ContractSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash_once(monkeypatch, batch=1, written=False)
    feed(job, 0, 2)
    define(job, sink).start()
    with pytest.raises(Crash):
        wait_until_read(job, 3)
    check_rows(job, sink, 1)

    job.start()
    wait_until_read(job, 3)

    check_rows(job, sink, 3)


@pytest.mark.long
@every_sink(*GOES_BACK)
def test_a_restore_to_an_older_batch_gives_what_an_undisturbed_run_gives(
    job: JobUnderTest, sink: ContractSink
) -> None:
    feed(job, 0, 1)
    define(job, sink).start()
    wait_until_read(job, 2)
    manifest = job.checkpoint(1)
    feed(job, 2, 3)
    wait_until_read(job, 4)
    job.stop_at_boundary()
    job.forget_attempts()

    started = job.start(manifest)
    assert isinstance(started.restored[OUT], FromCheckpoint)
    feed(job, 4, 4)
    wait_until_read(job, 5)

    check_rows(job, sink, 5)


@pytest.mark.long
@every_sink(*REFUSES)
def test_a_restore_to_an_older_batch_is_refused_where_rows_cannot_be_taken_back(
    job: JobUnderTest, sink: ContractSink
) -> None:
    feed(job, 0, 1)
    define(job, sink).start()
    wait_until_read(job, 2)
    manifest = job.checkpoint(1)
    feed(job, 2, 3)
    wait_until_read(job, 4)
    job.stop_at_boundary()
    job.forget_attempts()

    with pytest.raises(sink.refusal):
        job.start(manifest)

    check_rows(job, sink, 4)


@pytest.mark.long
@every_sink(*GOES_BACK)
def test_a_job_from_a_savepoint_continues_the_output_of_the_job_that_wrote_it(
    job: JobUnderTest, sink: ContractSink
) -> None:
    feed(job, 0, 1)
    define(job, sink).start()
    wait_until_read(job, 2)
    savepoint = job.savepoint()
    feed(job, 2, 3)
    wait_until_read(job, 4)
    job.stop_at_boundary()

    other = job.successor()
    started = other.start(savepoint=savepoint)
    try:
        assert isinstance(started.restored[OUT], FromSavepoint)
        feed(other, 4, 4)
        wait_until_read(other, 5)
        check_rows(other, sink, 5)
    finally:
        other.stop()


@pytest.mark.long
@every_sink()
def test_an_attempt_that_is_replaced_in_the_middle_of_a_batch_does_not_publish_it(
    job: JobUnderTest, sink: ContractSink
) -> None:
    # Given a successor that takes over when a batch is under way, and not yet to be seen
    feed(job, 0, 0)
    successor = AttemptNumber(2)

    def take_over() -> None:
        if job.log().last_committed():
            Fence(job.layout, successor).raise_epoch()
            sink.taken_over(job, successor)

    undo = sink.when(sink.last_unseen, take_over)
    try:
        old = define(job, sink).start()
        wait_until_read(job, 1)
        feed(job, 1, 1)
        wait_until_read(job, 2)
        check_rows(job, sink, 2)
        # When the attempt comes to publish the batch
        feed(job, 2, 2)
        job.wait(lambda: old.regions[0].poll() is QueryPhase.FAILED)
    finally:
        undo()
    # Then it cannot; and the successor writes the batch
    assert isinstance(old.regions[0].error, Superseded)
    check_rows(job, sink, 2)
    job.start()
    wait_until_read(job, 3)
    check_rows(job, sink, 3)


@pytest.mark.long
@pytest.mark.parametrize(
    ("sink", "step"),
    [(name, step) for name, sink in SINKS.items() for step in sink.steps],
    indirect=["sink"],
)
def test_each_row_is_there_once_whenever_the_runner_is_killed(
    job: JobUnderTest, sink: ContractSink, step: str, request: pytest.FixtureRequest
) -> None:
    """kill -9 of the driver's process; its JVM ends soon after, whatever it is doing."""
    # Given an attempt in another process that kills itself in its second batch
    feed(job, 0, 2)
    define(job, sink)
    name = request.node.callspec.params["sink"]
    killed = subprocess.run(
        [sys.executable, "-m", "tests.integration.spark.contract_driver", name, step],
        input=repr((str(job.root), job.id.hex, job.document, KILLED_IN_BATCH)),
        cwd=REPOSITORY,
        env=dict(os.environ),
        text=True,
        check=False,
        timeout=300,
    )
    assert killed.returncode == -9
    job.attempt = AttemptNumber(1)
    # When the next attempt goes on
    job.start()
    wait_until_read(job, 3)
    # Then each row is there once
    check_rows(job, sink, 3)
