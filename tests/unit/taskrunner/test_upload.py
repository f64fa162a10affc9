"""A checkpoint while it is uploaded: others may delete, and nothing is named that is not there.

Each test runs on a file system and on a store that has neither links nor locks.
"""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from jobmanager.core.ids import AttemptNumber, CheckpointNumber
from jobmanager.core.snapshots.layout import DISCARDED, POOL, POOL_LOCK, checkpoint_manifest
from jobmanager.core.snapshots.manifest import Manifest
from jobmanager.files.snapshot_storage import FileSnapshotStorage
from jobmanager.files.storage_port import StoreFailed, damage
from taskrunner.snapshots.fence import Fence, Superseded
from taskrunner.snapshots.layout import JobLayout, layout_of
from taskrunner.snapshots.snapshot import (
    AttemptContext,
    CheckpointDiscarded,
    Snapshots,
    Taken,
)
from tests.support import stores
from tests.unit.taskrunner.builders import JOB, OUT, SparkDirectory, a_graph, spark_directory

NOW = datetime(2026, 11, 16, tzinfo=UTC)
ELSEWHERE = "moody://bucket/headgate"


@pytest.fixture(params=[None, ELSEWHERE], ids=["file-system", "store"])
def layout(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[JobLayout]:
    stores.forget()
    yield layout_of(tmp_path.as_uri(), JOB, request.param)
    stores.forget()


@pytest.fixture
def spark(layout: JobLayout) -> SparkDirectory:
    spark = spark_directory(layout, 1)
    spark.commit(0)
    return spark


def snapshots_of(layout: JobLayout) -> Snapshots:
    number = AttemptNumber(1)
    subject = AttemptContext(JOB, number, a_graph(), 2, "4.3.0")
    return Snapshots(subject, layout, Fence(layout, number))


def take(
    snapshots: Snapshots,
    checkpoint: int,
    spark: SparkDirectory,
    between_files: Callable[[], None] = lambda: None,
) -> Taken:
    return snapshots.take(CheckpointNumber(checkpoint), {OUT: spark.path}, NOW, between_files)


def discard(layout: JobLayout, checkpoint: int, *, was_completed: bool = False) -> None:
    elsewhere = ELSEWHERE if layout.elsewhere else None
    storage = FileSnapshotStorage(layout.directory.parent.parent, elsewhere)
    number = CheckpointNumber(checkpoint)
    asyncio.run(storage.discard_checkpoint(JOB, number, was_completed=was_completed))


def once(when: int, do: Callable[[], None]) -> Callable[[], None]:
    """Does something before the file with this number is kept."""
    numbers = count(1)
    return lambda: do() if next(numbers) == when else None


def is_whole(layout: JobLayout, manifest: Manifest) -> bool:
    return not any(damage(layout.snapshots, file) for file in manifest.files())


def test_the_lock_of_the_pool_is_free_while_files_are_uploaded(
    layout: JobLayout, spark: SparkDirectory
) -> None:
    seen = 0

    def look() -> None:
        nonlocal seen
        with layout.work.lock(POOL_LOCK, timedelta()):
            seen += 1

    take(snapshots_of(layout), 1, spark, look)
    assert seen > 4


@pytest.mark.parametrize("when", [1, 3, 6])
def test_what_is_deleted_while_a_checkpoint_is_uploaded_is_uploaded_again(
    layout: JobLayout, spark: SparkDirectory, when: int
) -> None:
    snapshots = snapshots_of(layout)
    take(snapshots, 1, spark)
    second = take(snapshots, 2, spark, once(when, lambda: discard(layout, 1)))
    assert second.new_bytes > 0
    assert is_whole(layout, second.manifest)


def test_what_is_deleted_after_the_last_file_was_kept_is_noticed(
    layout: JobLayout, spark: SparkDirectory
) -> None:
    snapshots = snapshots_of(layout)
    first = take(snapshots, 1, spark)
    files = len(list(first.manifest.files()))
    second = take(snapshots, 2, spark, once(files, lambda: discard(layout, 1)))
    assert is_whole(layout, second.manifest)


def test_an_upload_that_is_deleted_again_and_again_ends(
    layout: JobLayout, spark: SparkDirectory
) -> None:
    def sweep() -> None:
        layout.snapshots.delete(list(layout.snapshots.list_files(POOL))[:1])

    with pytest.raises(StoreFailed, match="were deleted again"):
        take(snapshots_of(layout), 1, spark, sweep)
    assert checkpoint_manifest(1) not in layout.snapshots.list_files()


def test_a_checkpoint_that_is_discarded_while_it_is_uploaded_gets_no_manifest(
    layout: JobLayout, spark: SparkDirectory
) -> None:
    snapshots = snapshots_of(layout)
    take(snapshots, 1, spark)
    with pytest.raises(CheckpointDiscarded, match="checkpoint 2 was aborted"):
        take(snapshots, 2, spark, once(3, lambda: discard(layout, 2)))
    checkpoints = layout.snapshots.list_names("checkpoints")
    assert checkpoints == {"1"}
    third = take(snapshots, 3, spark)
    assert is_whole(layout, third.manifest)


def test_a_completed_checkpoint_is_discarded_twice_without_a_note(
    layout: JobLayout, spark: SparkDirectory
) -> None:
    snapshots = snapshots_of(layout)
    take(snapshots, 1, spark)
    for _ in range(2):
        discard(layout, 1, was_completed=True)
    assert layout.snapshots.list_names("checkpoints") == frozenset()
    assert DISCARDED not in layout.work.list_names("")


def test_a_superseded_attempt_ends_between_two_files(
    layout: JobLayout, spark: SparkDirectory
) -> None:
    kept = 0

    def replace_after_the_second() -> None:
        nonlocal kept
        kept += 1
        if kept == 2:
            Fence(layout, AttemptNumber(2)).raise_epoch()

    with pytest.raises(Superseded):
        take(snapshots_of(layout), 1, spark, replace_after_the_second)
    assert kept == 2


def test_many_discards_leave_a_short_note(layout: JobLayout, spark: SparkDirectory) -> None:
    for number in range(1, 4):
        discard(layout, number)
    assert layout.work.read("discarded.json") == b"[1, 2, 3]"
    with pytest.raises(CheckpointDiscarded):
        take(snapshots_of(layout), 2, spark)
    assert take(snapshots_of(layout), 4, spark).manifest.checkpoint == 4
