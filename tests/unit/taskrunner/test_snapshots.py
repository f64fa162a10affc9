from datetime import UTC, datetime
from pathlib import Path

import pytest

from jobmanager.core.ids import AttemptNumber, CheckpointNumber, RegionId
from jobmanager.core.plan.job_plan import awaited
from jobmanager.core.snapshots import manifest as manifests
from jobmanager.core.snapshots.manifest import Manifest
from taskrunner.core.acks import acks_of
from taskrunner.core.end_of_time import END_OF_TIME_MS
from taskrunner.snapshots import durable
from taskrunner.snapshots.clone import Clones, DamagedCheckpoint, Past
from taskrunner.snapshots.fence import Fence, Superseded
from taskrunner.snapshots.layout import JobLayout
from taskrunner.snapshots.snapshot import AttemptContext, Snapshots, StateMismatch, Taken
from taskrunner.snapshots.spark_log import SparkLog
from taskrunner.snapshots.spark_state import MissingState, state_of
from tests.unit.taskrunner.builders import JOB, OUT, a_graph, spark_directory, state_id

NOW = datetime(2026, 11, 16, tzinfo=UTC)


def snapshots_of(layout: JobLayout, attempt: int = 1, parallelism: int = 2) -> Snapshots:
    number = AttemptNumber(attempt)
    subject = AttemptContext(JOB, number, a_graph(), parallelism, "4.3.0")
    return Snapshots(subject, layout, Fence(layout, number))


def take(snapshots: Snapshots, checkpoint: int, directory: Path) -> Taken:
    return snapshots.take(CheckpointNumber(checkpoint), {OUT: directory}, NOW)


def restore(layout: JobLayout, attempt: int, completed: Manifest | None) -> str:
    clones = Clones(layout, AttemptNumber(attempt), Past(completed))
    choice = clones.choose(OUT)
    clones.draft(OUT, choice)
    clones.finish(OUT)
    return choice.why


def paths(manifest: Manifest, region: RegionId = OUT) -> set[str]:
    return {file.path for file in manifest.regions[region].files}


def test_state_is_the_newest_snapshot_and_the_changelogs_after_it(layout: JobLayout) -> None:
    spark = spark_directory(layout, 1, partitions=1)
    for batch in range(4):
        spark.commit(batch)
    spark.snapshot(version=2, shared=["000008"])

    (state,) = state_of(spark.path, batch=3)

    names = [path.name for path in state.files if not path.name.endswith(".crc")]
    assert names == [
        f"4_{state_id(0, 0, 4)}.changelog",
        f"3_{state_id(0, 0, 3)}.changelog",
        f"2_{state_id(0, 0, 2)}.zip",
        "000008-0.sst",
    ]


def test_a_state_file_that_is_named_and_not_there_is_noticed(layout: JobLayout) -> None:
    spark = spark_directory(layout, 1)
    spark.commit(0)
    spark.commit(1)
    (spark.path / f"state/0/1/1_{state_id(0, 1, 1)}.changelog").unlink()

    with pytest.raises(MissingState, match="is named by the commit log and is not there"):
        state_of(spark.path, batch=1)


def test_a_shared_file_that_a_snapshot_names_and_is_not_there_is_noticed(
    layout: JobLayout,
) -> None:
    spark = spark_directory(layout, 1)
    spark.commit(0)
    spark.snapshot(version=1, shared=["000008"])
    (spark.path / "state/0/0/SSTs/000008-0.sst").unlink()

    with pytest.raises(MissingState, match=r"000008-0\.sst is named by"):
        state_of(spark.path, batch=0)


def test_each_pool_file_is_kept_once_however_many_checkpoints_name_it(layout: JobLayout) -> None:
    spark = spark_directory(layout, 1)
    snapshots = snapshots_of(layout)
    spark.commit(0)
    first = take(snapshots, 1, spark.path)
    spark.commit(1)
    second = take(snapshots, 2, spark.path)
    third = take(snapshots, 3, spark.path)

    pooled = {file.location for file in first.manifest.files() if file.is_pooled}
    assert pooled < {file.location for file in second.manifest.files() if file.is_pooled}
    assert (second.new_bytes, third.new_bytes) == (first.new_bytes, 0)
    for file in second.manifest.files():
        path = layout.directory / file.location
        assert (path.stat().st_size, durable.sha256(path)) == (file.bytes, file.sha256)


def test_a_name_that_is_taken_by_other_bytes_gets_a_place_of_its_own(layout: JobLayout) -> None:
    spark = spark_directory(layout, 1, partitions=2)
    spark.commit(0)
    spark.snapshot(version=1, shared=["000008"])
    before = take(snapshots_of(layout), 1, spark.path).manifest
    for partition in range(2):  # Spark writes the same snapshot again, with other shared files
        (spark.path / f"state/0/{partition}/1_{state_id(0, partition, 1)}.zip").unlink()
    spark.snapshot(version=1, shared=["000009"])

    after = take(snapshots_of(layout), 2, spark.path).manifest

    for manifest in (before, after):
        for file in manifest.files():
            assert durable.sha256(layout.directory / file.location) == file.sha256
    assert "state/0/0/SSTs/000008-0.sst" in paths(before)
    assert "state/0/0/SSTs/000009-0.sst" in paths(after)


def test_every_awaited_subtask_is_acked_once(layout: JobLayout) -> None:
    spark = spark_directory(layout, 1)
    spark.commit(0)
    taken = take(snapshots_of(layout), 1, spark.path)

    acks = acks_of(a_graph(), taken.manifest, taken.new_bytes)

    named = [(ack.region, ack.vertex, ack.subtask) for ack in acks.acks]
    wanted = [(ref.region, ref.vertex, ref.subtask) for ref in awaited(a_graph(), 2)]
    assert sorted(named) == sorted(wanted)
    state = [ack for ack in acks.acks if ack.kind == "state"]
    assert [ack.key_groups for ack in state] == [[0, 2, 4, 6], [1, 3, 5, 7]]
    for ack in state:
        assert ack.pointer is not None
        assert (layout.directory / ack.pointer).exists()
    assert acks.batches == {"out": 0}


def test_a_region_without_a_batch_is_acked_with_none(layout: JobLayout) -> None:
    taken = take(snapshots_of(layout), 1, layout.spark_checkpoint_dir(AttemptNumber(1), OUT))

    acks = acks_of(a_graph(), taken.manifest, taken.new_bytes)

    assert acks.batches == {"out": None}
    assert len(acks.acks) == len(awaited(a_graph(), 2))


def test_state_that_is_laid_out_otherwise_than_planned_is_not_acked(layout: JobLayout) -> None:
    spark = spark_directory(layout, 1, partitions=4)
    spark.commit(0)

    with pytest.raises(StateMismatch, match="Spark has 4 state partitions, the plan has 2"):
        take(snapshots_of(layout), 1, spark.path)
    assert not (layout.directory / "checkpoints/1/manifest.json").exists()


def test_a_superseded_attempt_writes_no_manifest(layout: JobLayout) -> None:
    spark = spark_directory(layout, 1)
    spark.commit(0)
    Fence(layout, AttemptNumber(2)).raise_epoch()

    with pytest.raises(Superseded):
        take(snapshots_of(layout, attempt=1), 1, spark.path)
    assert not (layout.directory / "checkpoints/1/manifest.json").exists()


def test_a_clone_of_an_attempt_keeps_the_batch_that_had_begun(layout: JobLayout) -> None:
    spark = spark_directory(layout, 1)
    spark.commit(0)
    spark.commit(1)
    spark.begin(2)

    why = restore(layout, 2, None)

    log = SparkLog(layout.spark_checkpoint_dir(AttemptNumber(2), OUT))
    assert (log.last_committed(), log.last_begun()) == (1, 2)
    assert why == "attempt 1 committed batch 1; there is no checkpoint"


def test_a_clone_is_apart_from_what_the_old_attempt_still_does(layout: JobLayout) -> None:
    spark = spark_directory(layout, 1)
    spark.commit(0)
    restore(layout, 2, None)

    spark.commit(1)
    (spark.path / "commits/0").unlink()

    log = SparkLog(layout.spark_checkpoint_dir(AttemptNumber(2), OUT))
    assert log.committed() == [0]


def test_a_checkpoint_is_enough_to_rebuild_the_directory(layout: JobLayout) -> None:
    spark = spark_directory(layout, 1)
    for batch in range(5):
        spark.commit(batch)
    spark.snapshot(version=3, shared=["000008"])
    taken = take(snapshots_of(layout), 1, spark.path)
    (spark.path / f"state/0/0/5_{state_id(0, 0, 5)}.changelog").unlink()

    why = restore(layout, 2, taken.manifest)

    clone = layout.spark_checkpoint_dir(AttemptNumber(2), OUT)
    wrong = "attempt 1 is not usable: batch 4 is damaged: MissingState"
    assert why.startswith(f"checkpoint 1 is at batch 4; {wrong}")
    assert SparkLog(clone).last_committed() == 4
    assert SparkLog(clone).begun() == [3, 4]
    assert len(state_of(clone, batch=4)) == 2
    # and the next checkpoint can be taken from it
    assert take(snapshots_of(layout, attempt=2), 2, clone).new_bytes == 0


def test_an_attempt_that_died_before_its_first_commit_is_looked_past(layout: JobLayout) -> None:
    spark_directory(layout, 1).commit(0)
    spark_directory(layout, 2).begin(0)

    assert restore(layout, 3, None).startswith("attempt 1 committed batch 0")


def test_a_damaged_checkpoint_is_not_restored(layout: JobLayout) -> None:
    spark = spark_directory(layout, 1)
    spark.commit(0)
    manifest = take(snapshots_of(layout), 1, spark.path).manifest
    pointer = manifest.regions[OUT].pointers[0].pointer
    (layout.directory / pointer).unlink()
    (spark.path / "commits/0").unlink()

    with pytest.raises(DamagedCheckpoint, match=r"checkpoint 1 is damaged: pool.* is missing"):
        restore(layout, 2, manifest)


def test_the_manifest_on_disk_is_the_one_that_was_acked(layout: JobLayout) -> None:
    spark = spark_directory(layout, 1)
    spark.commit(0)
    taken = take(snapshots_of(layout), 1, spark.path)

    text = (layout.directory / "checkpoints/1/manifest.json").read_text()

    assert manifests.from_json(text) == taken.manifest


def test_the_last_batch_reads_nothing_and_has_the_watermark_at_the_end_of_time(
    layout: JobLayout,
) -> None:
    spark = spark_directory(layout, 1)
    spark.commit(0)
    log = SparkLog(spark.path)

    batch = log.begin_last_batch()

    assert batch == 1
    assert log.offsets(1).offsets == log.offsets(0).offsets
    assert log.offsets(1).watermark_ms == END_OF_TIME_MS
