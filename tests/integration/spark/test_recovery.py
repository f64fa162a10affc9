"""Snapshots, restores and where state lives, on real Spark directories."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from jobmanager.core.graph.file_format import FileFormat
from jobmanager.core.ids import AttemptNumber
from jobmanager.core.plan.key_groups import owner
from taskrunner import secret_lookup
from taskrunner.core.invalid_vertex import InvalidVertex
from taskrunner.core.restore import FromAttempt, FromCheckpoint
from taskrunner.core.staged_rows import BatchIncomplete, StagedFile
from taskrunner.reports import failure_of, region_failure
from taskrunner.sinks.output_files import OutputFiles
from taskrunner.sinks.staged_files import staged_files
from taskrunner.snapshots.fence import Fence, Superseded
from taskrunner.snapshots.spark_state import state_of
from taskrunner.spark.connectors import files as files_connector
from taskrunner.spark.run.region_query import QueryPhase
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
from tests.integration.spark.jobs import OUT, JobUnderTest, Row, files_sink, some_rows, table


def test_a_restore_from_a_checkpoint_withdraws_what_came_after_and_goes_on(
    job: JobUnderTest,
) -> None:
    # Given a checkpoint in the middle, and batches after it whose output is visible
    feed(job, 0, 3)
    job.define(files_source(), SUMS, files_sink("sums")).start()
    wait_until_read(job, 4)
    manifest = job.checkpoint(1)
    feed(job, 4, 5)
    wait_until_read(job, 6)
    job.stop_at_boundary()
    assert sums_seen(job) == sums_after(6)
    # When the attempt's directory is lost, and the next one starts from the checkpoint
    job.forget_attempts()
    started = job.start(manifest)
    assert isinstance(started.restored[OUT], FromCheckpoint)
    feed(job, 6, 7)
    wait_until_read(job, 8)
    # Then the result is that of an undisturbed run
    assert sums_seen(job) == sums_after(8)
    check_updates_are_seen_once(job)


def test_an_attempt_goes_on_where_the_one_before_was_cut_off(job: JobUnderTest) -> None:
    feed(job, 0, 4)
    job.define(files_source(), SUMS, files_sink("sums")).start()
    wait_until_read(job, 3)
    job.stop()  # wherever it is

    started = job.start()
    feed(job, 5, 7)
    wait_until_read(job, 8)

    assert isinstance(started.restored[OUT], FromAttempt)
    assert sums_seen(job) == sums_after(8)
    check_updates_are_seen_once(job)


def test_what_a_power_cut_left_is_not_gone_on_from(job: JobUnderTest) -> None:
    # Given a checkpoint, and batches after it
    feed(job, 0, 1)
    job.define(files_source(), SUMS, files_sink("sums")).start()
    wait_until_read(job, 2)
    manifest = job.checkpoint(1)
    feed(job, 2, 3)
    wait_until_read(job, 4)
    job.stop_at_boundary()
    # When the state of the last batch is empty
    state = _last_changelog(job)
    _cut(state, 0)
    started = job.start(manifest)
    # Then the job goes on from the batch before it, and output is as if nothing had been
    choice = started.restored[OUT]
    assert isinstance(choice, FromAttempt)
    assert f"{state.name} is empty" in choice.why
    wait_until_read(job, 4)
    _check_output(job, 4)
    job.stop_at_boundary()
    # When half of the range of the last batch is there
    last = job.log().last_begun()
    offsets = job.spark_dir() / f"offsets/{last}"
    _cut(offsets, offsets.stat().st_size // 2)
    started = job.start(manifest)
    # Then the batch is run again, with whatever range there is
    choice = started.restored[OUT]
    assert isinstance(choice, FromAttempt)
    assert f"offsets/{last}" in choice.why
    feed(job, 4, 4)
    wait_until_read(job, 5)
    _check_output(job, 5)
    job.stop_at_boundary()
    # When there is damage that only Spark can see
    state = _last_changelog(job)
    content = state.read_bytes()
    for one in (state, *state.parent.glob(f"*{state.name}*crc")):
        one.unlink()
    state.write_bytes(content[:20] + b"power cut" + content[29:])
    started = job.start(manifest)
    assert isinstance(started.restored[OUT], FromAttempt)
    feed(job, 5, 5)
    deadline = time.monotonic() + 120
    while started.regions[0].poll() is not QueryPhase.FAILED:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    job.stop()
    # Then the next attempt does not try it again: it goes back to the checkpoint, and says why
    started = job.start(manifest)
    choice = started.restored[OUT]
    assert isinstance(choice, FromCheckpoint)
    assert "continued after batch" in choice.why
    assert "and committed nothing" in choice.why
    wait_until_read(job, 6)
    _check_output(job, 6)


def _last_changelog(job: JobUnderTest) -> Path:
    """The newest state of partition 0, without the snapshot that Spark makes of it by and by."""
    jvm: Any = job.spark._jvm
    stores = getattr(jvm.org.apache.spark.sql.execution.streaming.state, "StateStore$")
    getattr(stores, "MODULE$").stop()  # and with them the thread that writes snapshots
    batch = job.log().last_committed()
    assert batch is not None
    for snapshot in (job.spark_dir() / "state/0/0").glob(f"*{batch + 1}_*.zip*"):
        snapshot.unlink()
    state, _ = state_of(job.spark_dir(), batch)
    return state.files[0]


def _cut(path: Path, size: int) -> None:
    """The file under this name only: other names of it are in the pool, and were synced."""
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[:size])


def _check_output(job: JobUnderTest, files: int) -> None:
    """Each row of the input is counted once, and each result is seen once."""
    assert sums_seen(job) == sums_after(files)
    check_updates_are_seen_once(job)


@pytest.mark.long
def test_a_checkpoint_of_a_restored_attempt_restores_too(job: JobUnderTest) -> None:
    feed(job, 0, 3)
    job.define(files_source(), SUMS, files_sink("sums")).start()
    wait_until_read(job, 4)
    first = job.checkpoint(1)
    job.stop_at_boundary()
    job.forget_attempts()
    job.start(first)
    feed(job, 4, 4)
    wait_until_read(job, 5)
    second = job.checkpoint(2)
    job.stop_at_boundary()
    job.forget_attempts()

    job.start(second)
    feed(job, 5, 7)
    wait_until_read(job, 8)

    assert sums_seen(job) == sums_after(8)
    check_updates_are_seen_once(job)


def test_a_superseded_attempt_publishes_nothing_more(job: JobUnderTest) -> None:
    # Given an attempt that runs on after a newer one has taken over
    feed(job, 0, 1)
    job.define(files_source(), SUMS, files_sink("sums")).start()
    wait_until_read(job, 2)
    assert job.running is not None
    old = job.running.regions[0]
    Fence(job.layout, AttemptNumber(job.attempt + 1)).raise_epoch()
    # When there is more to read
    feed(job, 2, 3)
    deadline = time.monotonic() + 120
    while old.poll() is not QueryPhase.FAILED:
        assert time.monotonic() < deadline
    # Then it publishes nothing, and the newer one all
    assert isinstance(old.error, Superseded)
    assert sums_seen(job) == sums_after(2)
    job.start()
    wait_until_read(job, 4)
    assert sums_seen(job) == sums_after(4)
    check_updates_are_seen_once(job)


def test_held_output_appears_with_its_checkpoint(job: JobUnderTest) -> None:
    feed(job, 0, 3)
    job.define(files_source(), files_sink("rows", visibility="checkpoint")).start()
    wait_until_read(job, 4)
    assert job.output() == []
    manifest = job.checkpoint(1)
    batch = manifest.regions[OUT].batch
    assert batch is not None

    assert job.running is not None
    job.running.held_sinks[OUT][0].show_up_to(batch)

    assert sorted(row["id"] for row in job.output()) == list(range(4 * ROWS_A_FILE))


@pytest.mark.parametrize("file_format", [FileFormat.PARQUET, FileFormat.JSON])
@pytest.mark.parametrize("all_of_them", [True, False])
def test_a_batch_whose_files_are_not_where_the_driver_looks_is_not_published(
    job: JobUnderTest,
    monkeypatch: pytest.MonkeyPatch,
    file_format: FileFormat,
    all_of_them: bool,
) -> None:
    # Given a worker that wrote to another disk: what it wrote is not there
    def what_the_driver_finds(
        staged: Path, format_of_sink: FileFormat, store: OutputFiles
    ) -> list[StagedFile]:
        files = sorted(one for one in staged.rglob("part-*") if one.stat().st_size > 0)
        for file in files if all_of_them else files[-1:]:
            file.unlink()
        return staged_files(staged, format_of_sink, store)

    feed(job, 0, 0)
    job.define(files_source(), SUMS, files_sink("sums", format=file_format))
    with monkeypatch.context() as patched:
        patched.setattr(files_connector, "staged_files", what_the_driver_finds)
        # When a batch runs
        started = job.start()
        region = started.regions[0]
        deadline = time.monotonic() + 120
        while region.poll() is not QueryPhase.FAILED:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    # Then it fails as infrastructure, in words, and leaves nothing behind
    failure = failure_of(region_failure(started))
    assert isinstance(region.error, BatchIncomplete)
    assert (failure.kind, failure.is_restartable, failure.region) == ("infrastructure", True, OUT)
    some = (
        "1 file found, with "
        if file_format is FileFormat.PARQUET
        else "1 file found, and Spark's tasks wrote 2 files"
    )
    found = "no file with rows was found" if all_of_them else some
    assert f"sink out, batch 0: Spark counted 4 rows, but {found}" in failure.message
    assert not list((job.root / "out").iterdir())
    assert not list(job.root.glob(".out.headgate/*/*/*.json"))
    job.stop()
    # And the next attempt runs it again
    job.start()
    wait_until_read(job, 1)
    seen = _rows_in(job.root / "out")
    assert {row["k"]: (row["n"], row["total"]) for row in seen} == sums_after(1)


def _rows_in(directory: Path) -> list[Row]:
    """What is in all Parquet or JSON files."""
    found = []
    for path in directory.iterdir():
        if path.suffix == ".json":
            found += [json.loads(line) for line in path.read_text().splitlines()]
        else:
            found += pyarrow.parquet.read_table(path).to_pylist()
    return found


def test_a_drain_that_was_cut_off_is_finished_by_the_next_attempt(job: JobUnderTest) -> None:
    windows = {
        "id": "windows",
        "op": "window",
        "inputs": ["rows"],
        "key": ["k"],
        "time": "ts",
        "window": {"tumbling": "10s"},
        "aggregate": {"n": "count(*)"},
    }
    job.define(table(ALL_ROWS), windows, files_sink("windows")).start()
    assert job.running is not None
    region = job.running.regions[0]
    job.wait(lambda: region.poll() is QueryPhase.DRAINING)
    job.stop()

    job.start()
    job.finish()

    assert sum(row["n"] for row in job.output()) == len(ALL_ROWS)
    keys = Counter((row["k"], row["window_start"]) for row in job.output())
    assert max(keys.values()) == 1


@pytest.mark.parametrize("parallelism", [1, 3, 4])
def test_a_key_lives_where_the_key_group_map_says(
    spark: SparkSession, job: JobUnderTest, parallelism: int
) -> None:
    rows = [{**row, "k": f"key {row['id']}"} for row in some_rows(200)]
    job.define(table(rows), SUMS, files_sink("sums"), parallelism=parallelism).run()

    state = spark.read.format("statestore").load(job.spark_dir().as_uri())
    found = state.selectExpr("partition_id", "pmod(hash(key.k), 12) AS key_group").collect()

    layout = job.graph.vertex(job.graph.vertices[1].id).state_layout
    assert len(found) == 200
    for row in found:
        assert row["partition_id"] == owner(layout, row["key_group"], parallelism)


@pytest.mark.parametrize("kind", ["tumbling", "session"])
def test_window_state_lives_where_the_key_group_map_says(
    spark: SparkSession, job: JobUnderTest, kind: str
) -> None:
    # Given windows that stay open: an unbounded source
    feed(job, 0, 1)
    windows = {**SUMS, "op": "window", "time": "ts", "window": {kind: "1h"}}
    job.define(files_source(), windows, files_sink("sums"), parallelism=3).start()
    wait_until_read(job, 2)
    job.stop_at_boundary()

    state = spark.read.format("statestore").load(job.spark_dir().as_uri())
    key = "key.k" if kind == "session" else "key.window, key.k"
    found = state.selectExpr("partition_id", f"pmod(hash({key}), 12) AS key_group").collect()

    assert found
    for row in found:
        assert row["partition_id"] == row["key_group"] % 3


def test_only_the_runner_fills_a_secret_in_and_names_one_that_is_missing(
    job: JobUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a sink that writes a secret where a value is missing, which shows what it got
    rows = [{"id": 1, "k": None, "v": 1, "ts": "2024-01-01T00:00:00Z"}]
    sink = files_sink("rows", format="csv", options={"nullValue": "${secret:gap-text}"})
    job.define(table(rows), sink)
    # When nobody provides the secret, the job fails for good, in words
    with pytest.raises(InvalidVertex) as refused:
        job.start()
    failure = failure_of(refused.value)
    assert (failure.kind, failure.is_restartable) == ("invalid_job", False)
    assert "vertex out: there is no secret 'gap-text'" in failure.message
    assert "HEADGATE_SECRET_GAP_TEXT" in failure.message
    # When it is in the environment, the next attempt uses it
    monkeypatch.setitem(secret_lookup._environment, "HEADGATE_SECRET_GAP_TEXT", "sw0rdfish")
    job.run()
    written = "".join(one.read_text() for one in (job.root / "out").glob("*.csv"))
    assert written.startswith("1,sw0rdfish,1,")
    # Then it is nowhere in the job's own files
    kept = [one for one in job.root.rglob("*") if one.is_file() and one.suffix != ".csv"]
    assert kept
    assert not [one for one in kept if b"sw0rdfish" in one.read_bytes()]
