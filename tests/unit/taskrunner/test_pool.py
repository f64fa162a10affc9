"""A file in the pool is what the manifest says of it, whatever a dead attempt left there."""

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from jobmanager.core.ids import AttemptNumber, CheckpointNumber, RegionId
from jobmanager.core.snapshots.manifest import Manifest, RegionManifest, SnapshotFile
from jobmanager.files.storage_port import Storage, damage
from taskrunner.snapshots.pool import SnapshotPool
from tests.unit.taskrunner.builders import JOB

OUT = RegionId("out")
WHOLE = b"changes of batch 7"
SHA256 = hashlib.sha256(WHOLE).hexdigest()
PATH = "state/0/1/7.changelog"
UNHASHED = "pool/out/state/0/1/7.changelog"
PLACE = f"{UNHASHED}~{SHA256[:32]}"


@pytest.mark.parametrize(
    "left",
    [
        pytest.param({}, id="nothing"),
        pytest.param({PLACE: "changes "}, id="half"),
        pytest.param({PLACE: "changes ", f"{PLACE}~2": "change"}, id="two-halves"),
        pytest.param({UNHASHED: "other"}, id="of-an-earlier-release"),
    ],
)
def test_half_a_file_is_never_taken_for_the_whole(
    left: dict[str, str], files: Storage, tmp_path: Path
) -> None:
    for place, text in left.items():
        files.write(place, text)
    source = tmp_path / "7.changelog"
    source.write_bytes(WHOLE)
    for _ in range(2):  # and of two attempts the second finds what the first has kept
        pool = SnapshotPool(files)
        pool.begin()

        kept = pool.keep(OUT, source, "state/0/1/7.changelog")

        assert files.read(kept.location) == WHOLE
        assert damage(files, kept) is None
    assert len(files.list_files()) == len(left) + 1


def test_what_an_earlier_release_kept_is_used_under_its_old_name(
    files: Storage, tmp_path: Path
) -> None:
    source = tmp_path / "7.changelog"
    source.write_bytes(WHOLE)
    files.write(UNHASHED, WHOLE)
    pool = SnapshotPool(files)
    pool.learn(a_manifest(SnapshotFile(PATH, UNHASHED, len(WHOLE), SHA256)))
    pool.begin()

    kept = pool.keep(OUT, source, PATH)

    assert (kept.location, pool.new_bytes) == (UNHASHED, 0)
    assert set(files.list_files()) == {UNHASHED}


def a_manifest(*files: SnapshotFile) -> Manifest:
    return Manifest(
        job=JOB,
        checkpoint=CheckpointNumber(1),
        attempt=AttemptNumber(1),
        created_at=datetime(2026, 11, 18, tzinfo=UTC),
        spark_version="4.3.0",
        parallelism=2,
        max_parallelism=8,
        regions={OUT: RegionManifest(0, None, {}, files, ())},
    )
