"""Rescale on fabricated Spark directories: what a repartition writes, and a death in the middle."""

import json
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId
from jobmanager.core.snapshots.layout import OUTPUTS
from jobmanager.core.snapshots.manifest import Ancestor
from jobmanager.protocol.messages import RestorePointMessage
from taskrunner.core.restore import FromAttempt, FromSavepoint
from taskrunner.sinks.outputs import Output, note_outputs, noted_outputs, withdraw_abandoned
from taskrunner.snapshots.clone import Clones, Past
from taskrunner.snapshots.fence import Fence
from taskrunner.snapshots.layout import JobLayout
from taskrunner.snapshots.restore_source import (
    RestoreSource,
    open_restore_source,
    read_lineage,
    write_lineage,
)
from taskrunner.snapshots.snapshot import AttemptContext, Snapshots
from taskrunner.snapshots.spark_log import SparkLog
from taskrunner.snapshots.spark_state import ScatteredState, gather, state_of
from tests.unit.taskrunner.builders import JOB, OUT, SINK, SparkDirectory, a_graph, spark_directory
from tests.unit.taskrunner.test_sink_directory import a_sink, rows, write

NOW = datetime(2026, 11, 16, tzinfo=UTC)
PARENT = Ancestor(JobId(UUID(int=3)), {SINK: 1})


def a_savepoint(layout: JobLayout, target: Path, attempt: int = 1) -> RestoreSource:
    """Of what the attempt has committed, opened."""
    number = AttemptNumber(attempt)
    subject = AttemptContext(JOB, number, a_graph(), 2, "4.3.0", {"name": "orders"}, (PARENT,))
    directories = {OUT: layout.spark_checkpoint_dir(number, OUT)}
    Snapshots(subject, layout, Fence(layout, number)).take_savepoint(
        CheckpointNumber(4), directories, NOW, UUID(int=9), target.as_uri()
    )
    point = RestorePointMessage(root=target.as_uri(), manifest="manifest.json", name="savepoint 9")
    return open_restore_source(point, a_graph())


def clones_of(layout: JobLayout, attempt: int, past: Past) -> Clones:
    return Clones(layout, AttemptNumber(attempt), past)


@pytest.fixture
def spark(layout: JobLayout) -> SparkDirectory:
    spark = spark_directory(layout, 1)
    for batch in range(3):
        spark.commit(batch)
    return spark


def test_state_after_a_repartition_is_only_what_it_wrote(
    layout: JobLayout, spark: SparkDirectory
) -> None:
    spark.repartition(4, shared=["000008"])
    spark.commit(4)

    states = state_of(spark.path, batch=4)

    assert [state.partition for state in states] == [0, 1, 2, 3]
    for state in states:
        kinds = [path.suffix for path in state.files if path.suffix != ".crc"]
        assert kinds == [".changelog", ".zip", ".sst"]


def test_an_attempt_before_the_base_is_not_gone_back_to(
    layout: JobLayout, spark: SparkDirectory, tmp_path: Path
) -> None:
    origin = a_savepoint(layout, tmp_path / "savepoint")
    spark_directory(layout, 2).commit(7)
    past = Past(origin=origin, base_attempt=AttemptNumber(3))

    clones = clones_of(layout, 3, past)
    rolled_back = clones.choose(OUT)

    assert rolled_back == FromSavepoint(
        2, "savepoint 9 is at batch 2; the job has committed nothing since"
    )
    # and from then on it never goes back to the savepoint
    clones.draft(OUT, rolled_back)
    clones.finish(OUT)
    restarted = clones_of(layout, 4, past).choose(OUT)
    assert isinstance(restarted, FromAttempt)
    assert restarted.attempt == 3


def test_a_death_before_a_clone_has_its_name_leaves_nothing_to_go_on_from(
    layout: JobLayout, spark: SparkDirectory, tmp_path: Path
) -> None:
    # Given an attempt that died after the repartition, and before the rename
    past = Past(origin=a_savepoint(layout, tmp_path / "savepoint"), base_attempt=AttemptNumber(2))
    first = clones_of(layout, 2, past)
    draft = first.draft(OUT, first.choose(OUT))
    SparkDirectory(draft).repartition(4, shared=["000008"])
    # When the next attempt starts
    clones = clones_of(layout, 3, past)
    choice = clones.choose(OUT)
    clones.draft(OUT, choice)
    clones.finish(OUT)
    # Then it goes on from the savepoint, and finds nothing of the dead one
    assert isinstance(choice, FromSavepoint)
    whole = SparkLog(layout.spark_checkpoint_dir(AttemptNumber(3), OUT))
    assert (whole.last_committed(), whole.last_begun()) == (2, 2)
    assert len(state_of(whole.directory, batch=2)) == 2


def test_a_draft_that_was_left_behind_is_begun_anew(
    layout: JobLayout, spark: SparkDirectory, tmp_path: Path
) -> None:
    past = Past(origin=a_savepoint(layout, tmp_path / "savepoint"), base_attempt=AttemptNumber(2))
    clones = clones_of(layout, 2, past)
    SparkDirectory(clones.draft(OUT, clones.choose(OUT))).repartition(4, shared=["000008"])

    draft = clones.draft(OUT, clones.choose(OUT))

    assert SparkLog(draft).last_begun() == 2
    assert not (draft / "state/0/3").exists()


def test_state_without_a_key_goes_back_to_the_one_partition_it_has(
    layout: JobLayout, spark: SparkDirectory
) -> None:
    spark.repartition(4, shared=["000008"], filled=[2])
    content = (spark.path / "state/0/2/SSTs/000008-2.sst").read_text()

    gather(spark.path, batch=3, operator=0)

    (state,) = state_of(spark.path, batch=3)
    assert state.partition == 0
    assert "000008-2.sst" in [path.name for path in state.files]
    assert state.files[-1].read_text() == content
    assert sorted(path.name for path in (spark.path / "state/0").iterdir()) == ["0", "_metadata"]


def test_state_without_a_key_that_is_in_several_partitions_is_not_guessed_at(
    layout: JobLayout, spark: SparkDirectory
) -> None:
    spark.repartition(4, shared=["000008"], filled=[1, 2])

    with pytest.raises(ScatteredState, match="has state in 2 partitions"):
        gather(spark.path, batch=3, operator=0)


def test_the_batches_to_come_have_another_number_of_shuffle_partitions(
    layout: JobLayout, spark: SparkDirectory
) -> None:
    log = SparkLog(spark.path)
    before = log.offsets(2)

    log.set_shuffle_partitions(6)

    after = log.offsets(2)
    assert after.metadata["conf"] == {"spark.sql.shuffle.partitions": "6"}
    assert (after.offsets, after.watermark_ms) == (before.offsets, before.watermark_ms)
    assert not (spark.path / "offsets/.2.crc").exists(), "Hadoop would not read the file"


def test_a_job_that_goes_on_from_its_own_savepoint_keeps_the_ancestors_it_had(
    layout: JobLayout, spark: SparkDirectory, tmp_path: Path
) -> None:
    write_lineage(layout, JOB, a_savepoint(layout, tmp_path / "savepoint"))

    assert read_lineage(layout) == (PARENT,)


def test_another_job_goes_back_to_the_one_that_wrote_the_savepoint_too(
    layout: JobLayout, spark: SparkDirectory, tmp_path: Path
) -> None:
    other = JobLayout(tmp_path / "jobs/other")

    write_lineage(other, JobId(UUID(int=8)), a_savepoint(layout, tmp_path / "savepoint"))

    assert read_lineage(other) == (PARENT, Ancestor(JOB, {SINK: 2}))


def test_what_rolled_back_attempts_wrote_elsewhere_is_withdrawn(
    layout: JobLayout, tmp_path: Path
) -> None:
    for attempt, batch in ((1, 0), (2, 1), (3, 2)):
        write(a_sink(tmp_path, attempt), batch, parts=1)
    elsewhere = (SINK, tmp_path / "sink")
    note_outputs(layout, [elsewhere])
    note_outputs(layout, [(SINK, tmp_path / "other"), elsewhere])
    assert noted_outputs(layout) == [elsewhere, (SINK, tmp_path / "other")]

    def withdraw(outputs: list[Output]) -> None:
        fence = Fence(layout, AttemptNumber(4))
        withdraw_abandoned(layout, JOB, outputs, AttemptNumber(1), fence.holding)

    withdraw([elsewhere])  # the job still writes there: a restore puts it right
    assert rows(tmp_path) == ["0:0", "1:0", "2:0"]
    withdraw([])
    assert rows(tmp_path) == ["0:0"]
    withdraw([])
    assert rows(tmp_path) == ["0:0"]


def test_outputs_are_written_down_before_anything_is_written_to_them(layout: JobLayout) -> None:
    note_outputs(layout, [(SINK, Path("/data/out"))])

    noted = {"sink": "out", "directory": "/data/out", "records": "beside"}
    assert json.loads(layout.work.read(OUTPUTS)) == [noted]
