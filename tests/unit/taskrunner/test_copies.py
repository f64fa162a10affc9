"""Copies of snapshots: whole, apart from the original, and gone when they are of no use."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from jobmanager.core.ids import AttemptNumber, CheckpointNumber
from jobmanager.core.snapshots.layout import MANIFEST, POOL_LOCK, checkpoint_manifest
from taskrunner.snapshots import copies
from taskrunner.snapshots.copies import Copies, SnapshotGone, UnreadableSnapshot, make_copy
from taskrunner.snapshots.fence import Fence
from taskrunner.snapshots.layout import JobLayout
from taskrunner.snapshots.snapshot import AttemptContext, Snapshots
from tests.unit.taskrunner.builders import JOB, OUT, SparkDirectory, a_graph, spark_directory


class Job:
    """A job whose directory is below `root`, with one attempt."""

    def __init__(self, root: Path) -> None:
        self.layout = JobLayout(root / "jobs" / JOB.hex)
        self.spark: SparkDirectory = spark_directory(self.layout, 1)
        subject = AttemptContext(JOB, AttemptNumber(1), a_graph(), 2, "4.3.0")
        fence = Fence(self.layout, AttemptNumber(1))
        fence.raise_epoch()
        self.snapshots = Snapshots(subject, self.layout, fence)

    def checkpoint(self, number: int) -> str:
        self.spark.commit(number - 1)
        self.snapshots.take(CheckpointNumber(number), {OUT: self.spark.path}, datetime.now(UTC))
        return checkpoint_manifest(number)

    def savepoint(self, target: Path) -> None:
        self.snapshots.take_savepoint(
            CheckpointNumber(1), {OUT: self.spark.path}, datetime.now(UTC), uuid4(), target.as_uri()
        )


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def files(directory: Path) -> dict[str, str]:
    return {
        path.relative_to(directory).as_posix(): path.read_text()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def test_a_copy_has_what_the_manifest_names_and_nothing_is_written_to_the_original(
    job: Job, tmp_path: Path
) -> None:
    location = job.checkpoint(1)
    before = files(job.layout.directory)

    copy = make_copy(job.layout.work.uri, location, tmp_path / "copy")

    region = copy.manifest.regions[OUT]
    assert set(files(copy.region(OUT))) == {file.path for file in region.files}
    (copy.region(OUT) / "commits" / "9").write_text("new")
    assert files(job.layout.directory) == before


def test_a_copy_outlives_the_checkpoint(job: Job, tmp_path: Path) -> None:
    location = job.checkpoint(1)
    copy = make_copy(job.layout.work.uri, location, tmp_path / "copy")
    before = files(copy.directory)
    job.layout.directory.rename(tmp_path / "gone")
    assert files(copy.directory) == before


def test_a_checkpoint_is_copied_under_the_lock_of_its_pool(job: Job, tmp_path: Path) -> None:
    location = job.checkpoint(1)
    script = (
        "import sys; from pathlib import Path; from taskrunner.snapshots.copies import make_copy;"
        "make_copy(sys.argv[1], sys.argv[2], Path(sys.argv[3]))"
    )
    command = [sys.executable, "-c", script, str(job.layout.directory), location]
    with job.layout.work.lock(POOL_LOCK):
        copying = subprocess.Popen([*command, str(tmp_path / "copy")])
        with pytest.raises(subprocess.TimeoutExpired):
            copying.wait(2)
    assert copying.wait(120) == 0


def test_a_savepoint_that_was_moved_is_copied(job: Job, tmp_path: Path) -> None:
    job.spark.commit(0)
    job.savepoint(tmp_path / "savepoint")
    moved = (tmp_path / "savepoint").rename(tmp_path / "moved")
    copy = make_copy(moved.as_uri(), MANIFEST, tmp_path / "copy")
    assert (copy.region(OUT) / "commits" / "0").exists()
    assert not (moved / "pool.lock").exists()


def test_what_is_gone_or_damaged_is_said_and_leaves_nothing_behind(
    job: Job, tmp_path: Path
) -> None:
    location = job.checkpoint(1)
    [first, second, *_] = (job.layout.directory / "pool" / OUT).rglob("*.changelog~*")
    first.write_text("short")
    with pytest.raises(UnreadableSnapshot, match="has 5 bytes instead of"):
        make_copy(job.layout.work.uri, location, tmp_path / "copy")
    first.unlink()
    with pytest.raises(SnapshotGone, match="is missing"):
        make_copy(job.layout.work.uri, location, tmp_path / "copy")
    with pytest.raises(SnapshotGone):
        make_copy(job.layout.work.uri, checkpoint_manifest(7), tmp_path / "copy")
    with pytest.raises(SnapshotGone):
        make_copy((tmp_path / "nowhere").as_uri(), MANIFEST, tmp_path / "copy")
    assert second.exists()
    assert not (tmp_path / "copy").exists()
    assert not (tmp_path / "nowhere").exists()


def test_the_copies_that_were_used_last_are_kept(job: Job, tmp_path: Path) -> None:
    root = job.layout.directory.as_uri()
    locations = [job.checkpoint(number) for number in range(1, 5)]
    kept = Copies(tmp_path / "copies")
    first = kept.of(root, locations[0])
    for location in locations[1:3]:
        kept.of(root, location)
    assert kept.of(root, locations[0]) is first
    kept.of(root, locations[3])  # one too many: the second goes
    assert first.directory.exists()
    assert len(list((tmp_path / "copies").iterdir())) == 3


def test_scratch_goes_with_its_process_or_with_the_next_one(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from taskrunner.snapshots import copies\n"
        "with copies.scratch(Path(sys.argv[1])) as home:\n"
        "    (home / 'file').touch(); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
    [abandoned] = tmp_path.glob("*/")
    with copies.scratch(tmp_path) as first, copies.scratch(tmp_path) as second:
        assert not abandoned.exists()
        assert first.exists()
        assert first != second
    assert list(tmp_path.glob("*/")) == []
