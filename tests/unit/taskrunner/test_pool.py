"""A file in the pool is what the manifest says of it, whatever a dead attempt left there."""

import hashlib
from pathlib import Path

import pytest

from jobmanager.core.ids import RegionId
from jobmanager.files.storage_port import Storage, damage
from taskrunner.snapshots.pool import SnapshotPool

OUT = RegionId("out")
WHOLE = b"changes of batch 7"
PLACE = "pool/out/state/0/1/7.changelog"
BESIDE = f"{PLACE}~{hashlib.sha256(WHOLE).hexdigest()[:16]}"


@pytest.mark.parametrize(
    "left",
    [
        pytest.param({}, id="nothing"),
        pytest.param({PLACE: "changes "}, id="half"),
        pytest.param({PLACE: "other", BESIDE: "changes "}, id="half-beside"),
        pytest.param({PLACE: "x", BESIDE: "y", f"{BESIDE}~2": "z"}, id="two-halves-beside"),
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
