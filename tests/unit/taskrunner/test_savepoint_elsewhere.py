"""Savepoints in a store without links and renames: no manifest, no savepoint."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from jobmanager.core.ids import AttemptNumber, CheckpointNumber
from jobmanager.core.snapshots import manifest as manifests
from jobmanager.core.snapshots.manifest import Manifest
from jobmanager.files.open_storage import open_storage
from jobmanager.files.storage_port import StoreFailed
from jobmanager.protocol.messages import RestorePointMessage
from taskrunner.core.restore import FromSavepoint
from taskrunner.snapshots.clone import Clones, Past
from taskrunner.snapshots.fence import Fence, Superseded
from taskrunner.snapshots.layout import JobLayout
from taskrunner.snapshots.restore_source import RestoreRefused, RestoreSource, open_restore_source
from taskrunner.snapshots.snapshot import AttemptContext, Snapshots
from taskrunner.snapshots.spark_log import SparkLog
from taskrunner.snapshots.spark_state import state_of
from tests.support import stores
from tests.unit.taskrunner.builders import JOB, OUT, a_graph, spark_directory

NOW = datetime(2026, 11, 16, tzinfo=UTC)
TARGET = "moody://bucket/savepoints/savepoint-1"


@pytest.fixture(autouse=True)
def spark(layout: JobLayout) -> Iterator[Path]:
    stores.forget()
    spark = spark_directory(layout, 1)
    for batch in range(4):
        spark.commit(batch)
    spark.snapshot(version=2, shared=["000008"])
    yield spark.path
    stores.forget()


def take(layout: JobLayout) -> Manifest:
    attempt = AttemptNumber(1)
    subject = AttemptContext(JOB, attempt, a_graph(), 2, "4.3.0", {"name": "orders"})
    snapshots = Snapshots(subject, layout, Fence(layout, attempt))
    directories = {OUT: layout.spark_checkpoint_dir(attempt, OUT)}
    taken = snapshots.take_savepoint(CheckpointNumber(4), directories, NOW, UUID(int=9), TARGET)
    return taken.manifest


def opened() -> RestoreSource:
    point = RestorePointMessage(root=TARGET, manifest="manifest.json", name="savepoint 9")
    return open_restore_source(point, a_graph())


def test_every_file_is_uploaded_once_and_the_manifest_last(layout: JobLayout) -> None:
    manifest = take(layout)

    names = [path.partition("savepoint-1/")[2] for path in stores.MoodyStore.uploads]
    assert names[-1] == "manifest.json"
    assert sorted(names[:-1]) == sorted({file.location for file in manifest.files()})
    files = open_storage(TARGET)
    assert manifests.from_json(files.read("manifest.json").decode()) == manifest
    for file in manifest.files():
        kept = files.digest(file.location)
        assert (kept.bytes, kept.sha256) == (file.bytes, file.sha256)


def test_a_job_is_restored_from_it_by_download(layout: JobLayout, tmp_path: Path) -> None:
    take(layout)
    other = JobLayout(tmp_path / "jobs" / UUID(int=8).hex)
    clones = Clones(other, AttemptNumber(1), Past(origin=opened()))

    choice = clones.choose(OUT)
    clones.draft(OUT, choice)
    clones.finish(OUT)

    clone = other.spark_checkpoint_dir(AttemptNumber(1), OUT)
    assert isinstance(choice, FromSavepoint)
    assert SparkLog(clone).last_committed() == 3
    assert len(state_of(clone, batch=3)) == 2
    assert json.loads((clone / "metadata").read_text()) != {"id": "x"}


@pytest.mark.parametrize("after", [0, 1, 5])
def test_a_store_that_fails_in_the_middle_has_no_savepoint_and_the_next_try_succeeds(
    layout: JobLayout, after: int
) -> None:
    with stores.failing(after), pytest.raises(StoreFailed, match="the store is full"):
        take(layout)
    assert open_storage(TARGET).list_files() == {}

    take(layout)
    assert opened().manifest.checkpoint == 4


def test_a_manifest_that_breaks_off_is_no_savepoint(layout: JobLayout) -> None:
    count = len({file.location for file in take(layout).files()})
    open_storage(TARGET).delete_directory()

    with stores.failing(after=count), pytest.raises(StoreFailed, match=r"manifest\.json"):
        take(layout)

    assert open_storage(TARGET).list_files() == {}


def test_what_a_dead_attempt_left_is_replaced(layout: JobLayout) -> None:
    files = open_storage(TARGET)
    files.write("out/commits/99", "half a savepoint")

    manifest = take(layout)

    assert set(files.list_files()) == {file.location for file in manifest.files()} | {
        "manifest.json"
    }


def test_a_savepoint_that_is_there_is_not_touched(layout: JobLayout) -> None:
    take(layout)

    with pytest.raises(FileExistsError, match="exists already"):
        take(layout)
    assert opened().manifest.checkpoint == 4


def test_a_superseded_attempt_leaves_no_savepoint(layout: JobLayout) -> None:
    Fence(layout, AttemptNumber(2)).raise_epoch()

    with pytest.raises(Superseded):
        take(layout)
    assert open_storage(TARGET).list_files() == {}


def test_a_damaged_savepoint_is_refused_by_the_name_of_the_file(layout: JobLayout) -> None:
    take(layout)
    files = open_storage(TARGET)
    files.write("out/offsets/3", files.read("out/offsets/3").decode()[::-1])

    with pytest.raises(RestoreRefused, match="out/offsets/3 was altered"):
        opened()
    files.delete(["out/offsets/3"])
    with pytest.raises(RestoreRefused, match="out/offsets/3 is missing"):
        opened()
