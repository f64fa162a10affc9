"""Checkpoints in a store without links: only what is new is uploaded, the manifest last."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from jobmanager.core.ids import AttemptNumber, CheckpointNumber
from jobmanager.core.snapshots.layout import ATTEMPTS
from jobmanager.core.snapshots.manifest import Manifest
from jobmanager.files.snapshot_storage import FileSnapshotStorage
from jobmanager.files.storage_port import Storage, StoreFailed, damage
from taskrunner.snapshots.clone import Clones, DamagedCheckpoint, Past, read_manifest
from taskrunner.snapshots.fence import Fence, Superseded
from taskrunner.snapshots.layout import JobLayout, layout_of
from taskrunner.snapshots.snapshot import AttemptContext, Snapshots, Taken
from taskrunner.snapshots.spark_log import SparkLog
from taskrunner.snapshots.spark_state import state_of
from tests.support import stores
from tests.unit.taskrunner.builders import (
    JOB,
    OUT,
    SparkDirectory,
    a_graph,
    spark_directory,
    state_id,
)

NOW = datetime(2026, 11, 16, tzinfo=UTC)
ROOT = "moody://bucket/headgate"


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[JobLayout]:
    stores.forget()
    yield layout_of(tmp_path.as_uri(), JOB, ROOT)
    stores.forget()


@pytest.fixture
def spark(layout: JobLayout) -> SparkDirectory:
    spark = spark_directory(layout, 1)
    spark.commit(0)
    return spark


@pytest.fixture
def files(layout: JobLayout) -> Storage:
    return layout.snapshots


def snapshots_of(layout: JobLayout, attempt: int = 1) -> Snapshots:
    number = AttemptNumber(attempt)
    subject = AttemptContext(JOB, number, a_graph(), 2, "4.3.0")
    return Snapshots(subject, layout, Fence(layout, number))


def take(snapshots: Snapshots, checkpoint: int, directory: Path) -> Taken:
    return snapshots.take(CheckpointNumber(checkpoint), {OUT: directory}, NOW)


def discard(layout: JobLayout, checkpoint: int) -> None:
    storage = FileSnapshotStorage(layout.directory.parent.parent, ROOT)
    asyncio.run(storage.discard_checkpoint(JOB, CheckpointNumber(checkpoint)))


def is_whole(files: Storage, manifest: Manifest) -> bool:
    return not any(damage(files, file) for file in manifest.files())


def test_only_files_that_were_not_seen_are_uploaded_and_the_manifest_last(
    layout: JobLayout, spark: SparkDirectory, files: Storage
) -> None:
    snapshots = snapshots_of(layout)
    first = take(snapshots, 1, spark.path)
    assert len(stores.uploaded()) == len(list(first.manifest.files())) + 1

    again = take(snapshots, 2, spark.path)
    assert stores.uploaded() == ["manifest.json"]
    assert again.new_bytes == 0

    spark.commit(1)
    take(snapshots, 3, spark.path)
    changelogs = [f"2_{state_id(0, p, 2)}.changelog" for p in (0, 1)]
    expected = [*changelogs, *(f"{name}.crc" for name in changelogs), "1", "1", "manifest.json"]
    names = [name.partition("~")[0] for name in stores.uploaded()]
    assert sorted(names) == sorted(expected)
    assert names[-1] == "manifest.json"
    assert not stores.MoodyStore.reads, "nothing was read back"
    assert is_whole(files, first.manifest)


def test_the_next_attempt_uploads_nothing_that_is_there(
    layout: JobLayout, spark: SparkDirectory
) -> None:
    taken = take(snapshots_of(layout), 1, spark.path)
    clones = Clones(layout, AttemptNumber(2), Past(completed=taken.manifest))
    clones.draft(OUT, clones.choose(OUT))
    clones.finish(OUT)
    stores.uploaded()

    second = snapshots_of(layout, attempt=2)
    second.learn(taken.manifest)
    take(second, 2, layout.spark_checkpoint_dir(AttemptNumber(2), OUT))

    assert stores.uploaded() == ["manifest.json"]


@pytest.mark.parametrize("after", [0, 1, 6, 16])
def test_a_store_that_fails_in_the_middle_has_no_checkpoint_and_the_next_one_is_whole(
    layout: JobLayout, spark: SparkDirectory, files: Storage, after: int
) -> None:
    spark.commit(1)
    snapshots = snapshots_of(layout)
    with stores.failing(after), pytest.raises(StoreFailed, match="the store is full"):
        take(snapshots, 1, spark.path)
    assert "checkpoints/1/manifest.json" not in files.list_files()

    taken = take(snapshots_of(layout), 2, spark.path)

    assert read_manifest(layout, CheckpointNumber(2)) == taken.manifest
    assert is_whole(files, taken.manifest)
    for file in taken.manifest.files():
        assert files.read(file.location) == (spark.path / file.path).read_bytes()


def test_a_file_that_went_with_an_old_checkpoint_is_uploaded_again(
    layout: JobLayout, spark: SparkDirectory, files: Storage
) -> None:
    snapshots = snapshots_of(layout)
    take(snapshots, 1, spark.path)
    discard(layout, 1)
    assert files.list_files() == {}

    assert is_whole(files, take(snapshots, 2, spark.path).manifest)


def test_retention_deletes_what_no_manifest_names_and_nothing_else(
    layout: JobLayout, spark: SparkDirectory, files: Storage
) -> None:
    snapshots = snapshots_of(layout)
    first = take(snapshots, 1, spark.path).manifest
    spark.commit(1)
    spark.snapshot(version=2, shared=["000008"])
    second = take(snapshots, 2, spark.path).manifest
    named = {file.location for file in second.files()}
    only_first = {file.location for file in first.files()} - named
    assert only_first

    discard(layout, 1)

    assert set(files.list_files()) == named | {"checkpoints/2/manifest.json"}
    assert is_whole(files, second)


def test_a_name_that_is_taken_by_other_bytes_gets_a_place_of_its_own(
    layout: JobLayout, spark: SparkDirectory, files: Storage
) -> None:
    spark.snapshot(version=1, shared=["000008"])
    before = take(snapshots_of(layout), 1, spark.path).manifest
    for partition in range(2):
        (spark.path / f"state/0/{partition}/1_{state_id(0, partition, 1)}.zip").unlink()
    spark.snapshot(version=1, shared=["000009"])

    after = take(snapshots_of(layout, attempt=2), 2, spark.path).manifest

    assert is_whole(files, before)
    assert is_whole(files, after)


def test_a_lost_working_directory_is_rebuilt_by_download(
    layout: JobLayout, spark: SparkDirectory
) -> None:
    for batch in range(1, 5):
        spark.commit(batch)
    spark.snapshot(version=3, shared=["000008"])
    take(snapshots_of(layout), 1, spark.path)
    layout.work.delete_directory(ATTEMPTS)
    completed = read_manifest(layout, CheckpointNumber(1))
    clones = Clones(layout, AttemptNumber(2), Past(completed=completed))

    choice = clones.choose(OUT)
    clones.draft(OUT, choice)
    clones.finish(OUT)

    clone = layout.spark_checkpoint_dir(AttemptNumber(2), OUT)
    assert choice.why == "checkpoint 1 is at batch 4; no previous attempt committed a batch"
    assert SparkLog(clone).last_committed() == 4
    assert len(state_of(clone, batch=4)) == 2


def test_an_altered_object_is_not_restored(
    layout: JobLayout, spark: SparkDirectory, files: Storage
) -> None:
    manifest = take(snapshots_of(layout), 1, spark.path).manifest
    pointer = manifest.regions[OUT].pointers[0].pointer
    files.write(pointer, files.read(pointer).decode()[::-1])
    clones = Clones(layout, AttemptNumber(2), Past(completed=manifest))
    layout.work.delete_directory(ATTEMPTS)

    with pytest.raises(DamagedCheckpoint, match=f"{pointer} was altered"):
        clones.draft(OUT, clones.choose(OUT))
    assert not layout.spark_checkpoint_dir(AttemptNumber(2), OUT).exists()


def test_a_superseded_attempt_writes_no_manifest(
    layout: JobLayout, spark: SparkDirectory, files: Storage
) -> None:
    Fence(layout, AttemptNumber(2)).raise_epoch()

    with pytest.raises(Superseded):
        take(snapshots_of(layout), 1, spark.path)
    assert files.list_files() == {}


def test_checkpoints_on_another_file_system_are_copies(tmp_path: Path, layout: JobLayout) -> None:
    with_copies = replace(layout, elsewhere=f"file:///dev/shm/headgate-test-{tmp_path.name}")
    spark = spark_directory(with_copies, 1)
    spark.commit(0)
    snapshots, files = snapshots_of(with_copies), with_copies.snapshots
    try:
        first = take(snapshots, 1, spark.path)
        spark.commit(1)
        second = take(snapshots, 2, spark.path)

        assert is_whole(files, first.manifest)
        assert is_whole(files, second.manifest)
        assert second.new_bytes == first.new_bytes, "only the new state was copied"
    finally:
        files.delete_directory()
