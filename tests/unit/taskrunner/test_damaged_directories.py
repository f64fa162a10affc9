"""What a power cut leaves of an attempt's directory: nothing that is damaged is started from."""

import shutil
from pathlib import Path

import pytest

from jobmanager.core.ids import AttemptNumber, CheckpointNumber
from jobmanager.core.snapshots.manifest import Manifest
from taskrunner.core.restore import FromAttempt, FromCheckpoint, FromScratch, Restore, StartPoint
from taskrunner.snapshots.clone import Clones, Past
from taskrunner.snapshots.fence import Fence
from taskrunner.snapshots.layout import JobLayout
from taskrunner.snapshots.previous_attempts import read_origin
from taskrunner.snapshots.spark_log import SparkLog
from taskrunner.snapshots.wholeness import SparkDirectoryCheck
from tests.unit.taskrunner.builders import (
    JOB,
    OUT,
    SparkDirectory,
    hadoop_checksum,
    spark_directory,
    state_id,
)
from tests.unit.taskrunner.test_snapshots import snapshots_of, take

FIRST, SECOND, THIRD, FOURTH = (AttemptNumber(number) for number in range(1, 5))
HARMS = ["empty", "half", "zeros"]


def harm(path: Path, how: str) -> None:
    content = path.read_bytes()
    path.unlink()  # other names of the file are other files: only this name was not yet on disk
    match how:
        case "empty":
            path.write_bytes(b"")
        case "half":
            path.write_bytes(content[: len(content) // 2])
        case "zeros":
            path.write_bytes(bytes(len(content)))


@pytest.fixture
def spark(layout: JobLayout) -> SparkDirectory:
    """Batches 0 to 5 are committed, 6 has begun, state of version 4 is a snapshot."""
    directory = SparkDirectory(layout.spark_checkpoint_dir(FIRST, OUT), reads_files=True)
    for batch in range(3):
        directory.commit(batch)
    return directory


@pytest.fixture
def manifest(layout: JobLayout, spark: SparkDirectory) -> Manifest:
    """A checkpoint at batch 2, and batches after it."""
    taken = take(snapshots_of(layout), 1, spark.path).manifest
    spark.snapshot(version=4, shared=["000008"])
    for batch in range(3, 6):
        spark.commit(batch)
    spark.begin(6)
    return taken


def choose(layout: JobLayout, attempt: AttemptNumber, completed: Manifest | None) -> Restore:
    """Where the attempt starts from; its directory is made."""
    clones = Clones(layout, attempt, Past(completed))
    choice = clones.choose(OUT)
    clones.draft(OUT, choice)
    clones.finish(OUT)
    return choice


def changelog(version: int, partition: int = 0) -> str:
    return f"state/0/{partition}/{version}_{state_id(0, partition, version)}.changelog"


SNAPSHOT = f"state/0/0/4_{state_id(0, 0, 4)}.zip"
CHECKPOINT = "checkpoint"


@pytest.mark.parametrize("how", HARMS)
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # the batch that had begun is forgotten, with its output
        ("offsets/6", StartPoint(5, replays=False)),
        ("sources/0/6", StartPoint(5, replays=False)),
        # the last batches go
        ("offsets/5", StartPoint(4, replays=False)),
        ("commits/5", StartPoint(4, replays=True)),
        ("sources/0/5", StartPoint(4, replays=False)),
        (changelog(6), StartPoint(4, replays=True)),
        (changelog(6, partition=1), StartPoint(4, replays=True)),
        (changelog(5), StartPoint(3, replays=True)),
        # nothing that is newer than the checkpoint is left
        (SNAPSHOT, StartPoint(2, replays=True)),
        ("state/0/0/SSTs/000008-0.sst", StartPoint(2, replays=True)),
        ("metadata", CHECKPOINT),
        ("sources/0/1", CHECKPOINT),
        ("state/0/_metadata/metadata", CHECKPOINT),
    ],
)
def test_the_newest_batch_that_is_whole_is_gone_on_from(
    layout: JobLayout,
    spark: SparkDirectory,
    manifest: Manifest,
    name: str,
    how: str,
    expected: StartPoint | str,
) -> None:
    harm(spark.path / name, how)

    choice = choose(layout, SECOND, manifest)

    if isinstance(expected, str):
        assert isinstance(choice, FromCheckpoint)
    else:
        assert isinstance(choice, FromAttempt)
        assert StartPoint(choice.batch, choice.replays) == expected
        log = SparkLog(layout.spark_checkpoint_dir(SECOND, OUT))
        assert (log.last_committed(), log.last_begun()) == (expected.batch, expected.last_kept)
    assert name.rpartition("/")[2] in choice.why, "the reason names the file"


@pytest.mark.parametrize("how", HARMS)
def test_no_damaged_file_is_ever_in_the_directory_of_the_next_attempt(
    layout: JobLayout, spark: SparkDirectory, manifest: Manifest, tmp_path: Path, how: str
) -> None:
    intact = tmp_path / "intact"
    shutil.copytree(spark.path, intact)
    names = [one.relative_to(intact) for one in sorted(intact.rglob("*")) if one.is_file()]
    assert len(names) > 40
    for name in names:
        harm(spark.path / name, how)

        choice = Clones(layout, SECOND, Past(manifest)).choose(OUT)

        if isinstance(choice, FromAttempt):
            point = StartPoint(choice.batch, choice.replays)
            for path in SparkDirectoryCheck(spark.path).files(point):
                assert path.read_bytes() == (intact / path.relative_to(spark.path)).read_bytes()
        (spark.path / name).unlink()
        shutil.copy(intact / name, spark.path / name)


@pytest.mark.parametrize(
    ("name", "batch"),
    [(changelog(6), 4), (changelog(5), 3), ("state/0/0/SSTs/000008-0.sst", 2), ("metadata", None)],
)
def test_a_file_that_is_gone_is_missed(
    layout: JobLayout, spark: SparkDirectory, manifest: Manifest, name: str, batch: int | None
) -> None:
    harm(spark.path / name, "gone")

    choice = choose(layout, SECOND, manifest)

    if batch is None:
        assert isinstance(choice, FromCheckpoint)
    else:
        assert isinstance(choice, FromAttempt)
        assert choice.batch == batch


def test_bytes_that_changed_within_a_file_are_noticed(
    layout: JobLayout, spark: SparkDirectory, manifest: Manifest
) -> None:
    path = spark.path / changelog(6)
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[:3] + b"X" + content[4:])

    choice = choose(layout, SECOND, manifest)

    assert isinstance(choice, FromAttempt)
    assert choice.batch == 4
    assert "was altered: its checksum is not that of" in choice.why


def test_a_large_file_is_compared_piece_by_piece(layout: JobLayout) -> None:
    spark = spark_directory(layout, 1)
    spark.commit(0)
    path = spark.path / changelog(1)
    content = bytearray(b"0123456789abcdef" * 200_000)
    (spark.path / f"{changelog(1)}.crc").write_text(f'{{"mainFileSize": {len(content)}}}')
    (path.parent / f".{path.name}.crc.crc").unlink()
    (path.parent / f".{path.name}.crc").write_bytes(hadoop_checksum(bytes(content)))
    path.write_bytes(content)
    point = StartPoint(0, replays=False)
    assert SparkDirectoryCheck(spark.path).damage(point) is None

    content[2_500_000] ^= 1
    path.write_bytes(content)

    assert "was altered" in str(SparkDirectoryCheck(spark.path).damage(point))


def test_checksums_go_along_from_attempt_to_attempt(
    layout: JobLayout, spark: SparkDirectory, manifest: Manifest
) -> None:
    choose(layout, SECOND, manifest)
    clone = layout.spark_checkpoint_dir(SECOND, OUT)

    harm(clone / changelog(6), "zeros")
    content = (clone / changelog(5)).read_bytes()
    (clone / changelog(5)).unlink()
    (clone / changelog(5)).write_bytes(content[::-1])

    why = SparkDirectoryCheck(clone).damage(StartPoint(5, replays=True))
    older = SparkDirectoryCheck(clone).damage(StartPoint(4, replays=True))
    assert "was altered" in str(why)
    assert "was altered" in str(older)


def test_a_start_from_an_attempt_that_committed_nothing_falls_back_to_the_checkpoint(
    layout: JobLayout, spark: SparkDirectory, manifest: Manifest
) -> None:
    # Given damage that nobody can see, and an attempt that failed because of it
    assert isinstance(choose(layout, SECOND, manifest), FromAttempt)
    # When the next one starts
    choice = choose(layout, THIRD, manifest)
    # Then it does not try the same again
    assert isinstance(choice, FromCheckpoint)
    assert choice.why == (
        "checkpoint 1 is at batch 2; attempt 2 continued after batch 5 from the directory of "
        "attempt 1 and committed nothing"
    )
    # And the one after it does not go back to what was there before: its output is withdrawn
    shutil.rmtree(layout.spark_checkpoint_dir(THIRD, OUT))
    after = choose(layout, FOURTH, manifest)
    assert isinstance(after, FromCheckpoint)
    assert "attempt 3 is not usable: it died before its directory was complete" in after.why


def test_an_attempt_that_committed_a_batch_is_gone_on_from(
    layout: JobLayout, spark: SparkDirectory, manifest: Manifest
) -> None:
    choose(layout, SECOND, manifest)
    SparkDirectory(layout.spark_checkpoint_dir(SECOND, OUT), reads_files=True).commit(6)

    choice = choose(layout, THIRD, manifest)

    assert isinstance(choice, FromAttempt)
    assert (choice.attempt, choice.batch) == (2, 6)


def test_with_nothing_durable_a_failed_start_is_tried_again(
    layout: JobLayout, spark: SparkDirectory
) -> None:
    choose(layout, SECOND, None)

    choice = choose(layout, THIRD, None)

    assert isinstance(choice, FromAttempt)
    assert (choice.attempt, choice.batch) == (2, 2)
    assert "attempt 2 continued after batch 2 from the directory of attempt 1" in choice.why


def test_a_start_from_the_checkpoint_that_committed_nothing_keeps_the_batch_it_had_begun(
    layout: JobLayout, spark: SparkDirectory, manifest: Manifest
) -> None:
    harm(spark.path / "metadata", "empty")
    assert isinstance(choose(layout, SECOND, manifest), FromCheckpoint)
    SparkDirectory(layout.spark_checkpoint_dir(SECOND, OUT), reads_files=True).begin(3)

    choice = choose(layout, THIRD, manifest)

    assert isinstance(choice, FromAttempt)
    assert (choice.attempt, choice.batch, choice.replays) == (2, 2, True)


def test_a_directory_whose_batches_got_lost_is_not_taken_for_a_new_one(
    layout: JobLayout, spark: SparkDirectory, manifest: Manifest
) -> None:
    choose(layout, SECOND, manifest)
    shutil.rmtree(layout.spark_checkpoint_dir(SECOND, OUT) / "commits")

    choice = choose(layout, THIRD, manifest)

    assert isinstance(choice, FromCheckpoint)
    assert "attempt 2 is not usable: it was started after batch 5, which is missing" in choice.why


def test_a_job_that_began_anew_does_not_go_back_to_what_was_before(layout: JobLayout) -> None:
    """Attempt 1 wakes up, and commits a batch without rows, which no fence keeps it from."""
    spark = spark_directory(layout, 1)
    assert isinstance(choose(layout, SECOND, None), FromScratch)
    spark.commit(0)

    choice = choose(layout, THIRD, None)

    assert isinstance(choice, FromScratch)


def test_what_a_directory_was_made_of_is_written_before_it_has_its_name(
    layout: JobLayout, spark: SparkDirectory, manifest: Manifest
) -> None:
    clones = Clones(layout, SECOND, Past(manifest))
    choice = clones.choose(OUT)
    clones.draft(OUT, choice)

    origin = read_origin(layout, SECOND, OUT)

    assert not layout.spark_checkpoint_dir(SECOND, OUT).exists()
    assert origin is not None
    assert (origin.kind, origin.attempt, origin.batch, origin.why) == ("attempt", 1, 5, choice.why)


def test_output_that_got_lost_is_made_again_from_before_it(
    layout: JobLayout, spark: SparkDirectory, manifest: Manifest
) -> None:
    clones = Clones(layout, SECOND, Past(manifest))

    pending_lost = clones.choose(OUT, {6: "sink out, batch 6: the file is not there"})
    older_lost = clones.choose(OUT, {4: "sink out, batch 4: the file is not there"})
    all_lost = clones.choose(OUT, {3: "sink out, batch 3: the file is not there"})
    covered = clones.choose(OUT, {2: "the checkpoint covers it: nothing can make it again"})

    found = [(one.batch, one.replays) for one in (pending_lost, older_lost, all_lost, covered)
             if isinstance(one, FromAttempt)]  # fmt: skip
    assert found == [(5, False), (3, False), (2, False), (5, True)]
    assert "batch 6, which had begun, is damaged: sink out, batch 6" in pending_lost.why


def test_a_snapshot_is_taken_from_what_is_left(
    layout: JobLayout, spark: SparkDirectory, manifest: Manifest
) -> None:
    """What a clone leaves behind is not missed by the next checkpoint."""
    harm(spark.path / "commits/5", "empty")
    choose(layout, SECOND, manifest)
    Fence(layout, SECOND).raise_epoch()

    clone = layout.spark_checkpoint_dir(SECOND, OUT)
    taken = take(snapshots_of(layout, attempt=2), 2, clone)

    assert taken.manifest.job == JOB
    assert taken.manifest.checkpoint == CheckpointNumber(2)
    assert taken.manifest.regions[OUT].batch == 4


def test_the_restore_point_is_wanted_where_all_output_since_is_lost(
    layout: JobLayout, spark: SparkDirectory
) -> None:
    """A job that was started from a savepoint, and has no checkpoint of its own yet."""
    clones = Clones(layout, SECOND, Past())

    assert not clones.wants_origin(OUT)
    assert not clones.wants_origin(OUT, {2: "sink out, batch 2: the file is not there"})
    assert clones.wants_origin(OUT, {0: "sink out, batch 0: the file is not there"})
    choose(layout, SECOND, None)
    assert Clones(layout, THIRD, Past()).wants_origin(OUT), "attempt 2 committed nothing"
