"""What every source that can read its rows again has to keep, whatever it reads from.

The sources are in `contract_sources.py`: a new one has only to be added there.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobmanager.core.ids import AttemptNumber
from taskrunner.core.restore import FromCheckpoint, FromSavepoint
from taskrunner.spark.run.batch_sinks import FencedBatches
from tests.integration.spark.contract_sources import SOURCES, ContractSource, part
from tests.integration.spark.jobs import OUT, JobUnderTest, files_sink

REPOSITORY = Path(__file__).parents[3]
ALWAYS = ("files",)
"""In each run of the tests; the others take longer."""


class Crash(Exception):
    """The attempt ends here."""


# Tests name `source` before `job`, so that the job ends before the server from which it reads.
@pytest.fixture
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ContractSource]:
    with SOURCES[request.param].opened(request, tmp_path) as opened:
        yield opened


def every_source() -> pytest.MarkDecorator:
    names = [
        pytest.param(name, marks=() if name in ALWAYS else pytest.mark.long) for name in SOURCES
    ]
    return pytest.mark.parametrize("source", names, indirect=True)


def define(job: JobUnderTest, source: ContractSource, **sink: Any) -> JobUnderTest:
    return job.define(*source.vertices(), files_sink("rows", **sink))


def feed(source: ContractSource, *numbers: int) -> None:
    for number in numbers:
        source.feed(number)


def ids_of(*numbers: int) -> list[int]:
    return sorted(row["id"] for number in numbers for row in part(number))


def wait_until_read(job: JobUnderTest, *numbers: int, path: str = "out") -> None:
    """Waits until the output has as many rows as these parts, and Spark has noted the batch that
    wrote them; compares the rows.
    """
    expected = ids_of(*numbers)

    def is_there() -> bool:
        for region in job.running.regions if job.running else []:
            region.poll()
        return len(job.output(path)) >= len(expected)

    job.wait(is_there)
    job.wait_for_commit(lambda log, batch: batch == log.last_begun())
    assert sorted(row["id"] for row in job.output(path)) == expected


@every_source()
def test_a_batch_that_failed_is_read_again_as_it_was(
    source: ContractSource, job: JobUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an attempt that dies when it has read a batch and written nothing of it
    read: dict[int, list[list[int]]] = {}
    write = FencedBatches.write

    def noting(self: FencedBatches, rows: Any, number: int) -> int:
        tries = read.setdefault(number, [])
        tries.append(sorted(row["id"] for row in rows.select("id").collect()))
        if number == 1 and len(tries) == 1:
            raise Crash
        return write(self, rows, number)

    monkeypatch.setattr(FencedBatches, "write", noting)
    feed(source, 0, 1)
    define(job, source).start()
    with pytest.raises(Crash):
        wait_until_read(job, 0, 1)
    # When more rows come, and the next attempt runs
    feed(source, 2)
    job.start()
    wait_until_read(job, 0, 1, 2)
    # Then it reads the same rows for that batch, and the new rows after it
    first, again = read[1]
    assert first == again == ids_of(1)


@pytest.mark.long
@every_source()
def test_rows_that_come_between_two_attempts_are_read_once(
    source: ContractSource, job: JobUnderTest
) -> None:
    feed(source, 0)
    define(job, source).start()
    wait_until_read(job, 0)
    job.stop_at_boundary()

    feed(source, 1, 2)
    job.start()

    wait_until_read(job, 0, 1, 2)


@pytest.mark.long
@every_source()
def test_a_restore_reads_again_what_came_after_the_checkpoint(
    source: ContractSource, job: JobUnderTest
) -> None:
    feed(source, 0, 1)
    define(job, source).start()
    wait_until_read(job, 0, 1)
    manifest = job.checkpoint(1)
    feed(source, 2)
    wait_until_read(job, 0, 1, 2)
    job.stop_at_boundary()
    job.forget_attempts()

    started = job.start(manifest)
    assert isinstance(started.restored[OUT], FromCheckpoint)
    feed(source, 3)

    wait_until_read(job, 0, 1, 2, 3)


@pytest.mark.long
@every_source()
def test_a_job_from_a_savepoint_starts_where_the_savepoint_was_taken(
    source: ContractSource, job: JobUnderTest
) -> None:
    feed(source, 0, 1)
    define(job, source).start()
    wait_until_read(job, 0, 1)
    savepoint = job.savepoint()
    feed(source, 2)
    wait_until_read(job, 0, 1, 2)

    other = define(job.successor(), source, path="elsewhere")
    started = other.start(savepoint=savepoint)
    try:
        assert isinstance(started.restored[OUT], FromSavepoint)
        wait_until_read(other, 2, path="elsewhere")
        feed(source, 3)
        wait_until_read(other, 2, 3, path="elsewhere")
    finally:
        other.stop()


@pytest.mark.long
@every_source()
def test_each_row_is_read_once_when_the_runner_is_killed(
    source: ContractSource, job: JobUnderTest
) -> None:
    """kill -9 of the driver's process when it has read a batch that no reader sees yet."""
    feed(source, 0, 1, 2)
    define(job, source)
    killed = subprocess.run(
        [sys.executable, "-m", "tests.integration.spark.contract_driver", "files", "staged"],
        input=repr((str(job.root), job.id.hex, job.document, 1)),
        cwd=REPOSITORY,
        env=dict(os.environ),
        text=True,
        check=False,
        timeout=300,
    )
    assert killed.returncode == -9
    job.attempt = AttemptNumber(1)

    job.start()

    wait_until_read(job, 0, 1, 2)
