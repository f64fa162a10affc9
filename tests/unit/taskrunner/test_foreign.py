"""Checkpoints of plain queries on disk: copied as of the last commit, never changed."""

import json
from pathlib import Path

import pytest

from taskrunner.snapshots import foreign as foreign_checkpoints
from taskrunner.snapshots.foreign import ROCKSDB, Foreign, ForeignCheckpointRefused, copy_foreign
from taskrunner.snapshots.spark_log import SparkLog

HDFS_BACKED = ROCKSDB.replace("RocksDB", "HDFSBacked")


def a_checkpoint(root: Path, **settings: str) -> Path:
    """Two batches, the second not committed, as Spark writes them with in-memory state."""
    files = {
        "metadata": '{"id":"x"}',
        "offsets/0": offsets(0, settings),
        "offsets/1": offsets(1, settings),
        "commits/0": 'v1\\n{"nextBatchWatermarkMs":7}',
        "commits/.0.crc": "checksum",
        "sources/0/0": 'v1\\n{"path":"file:///data/in/0.json","timestamp":1,"batchId":0}',
        "state/0/_metadata/metadata": "v1\\n{}",
        "state/0/0/_metadata/schema": "schema",
        "state/0/0/1.delta": "state",
        "state/0/1/1.delta": "state",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text.replace("\\n", "\n"))
    return root


def offsets(batch: int, settings: dict[str, str]) -> str:
    metadata = {"batchWatermarkMs": 5, "batchTimestampMs": 1, "conf": settings}
    return f"v1\n{json.dumps(metadata)}\n{json.dumps({'logOffset': batch})}"


PARTITIONS = {"spark.sql.shuffle.partitions": "2"}


@pytest.fixture
def original(tmp_path: Path) -> Path:
    return a_checkpoint(tmp_path / "original", **PARTITIONS)


def names(directory: Path) -> set[str]:
    return {
        path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()
    }


def test_a_copy_ends_with_the_last_commit(original: Path, tmp_path: Path) -> None:
    copy = copy_foreign(original, tmp_path / "copy")
    assert copy.batch == 0
    assert (copy.provider, copy.partitions) == (HDFS_BACKED, 2)  # which an old Spark does not say
    assert (copy.operators, copy.has_state_ids, copy.watermark_ms) == ([0], False, 7)
    assert copy.files_read() == {0: "file:///data/in/0.json"}
    assert names(copy.directory) == names(original) - {"offsets/1", "commits/.0.crc"}


def test_a_rewrite_begins_with_everything_but_state(original: Path, tmp_path: Path) -> None:
    copy = copy_foreign(original, tmp_path / "copy")
    before = {name: (original / name).read_text() for name in names(original)}

    foreign_checkpoints.begin_rewrite(copy, tmp_path / "new", 6)
    foreign_checkpoints.pretend_ours(copy)
    foreign_checkpoints.write_commit(tmp_path / "new", 0, 7, {"0": [["id"]]})

    assert names(tmp_path / "new") == {
        "metadata",
        "offsets/0",
        "commits/0",
        "sources/0/0",
        "state/0/_metadata/metadata",
        "state/0/0/_metadata/schema",
    }
    made = SparkLog(tmp_path / "new")
    assert made.offsets(0).watermark_ms == 5
    assert made.offsets(0).offsets == [{"logOffset": 0}]
    assert made.offsets(0).metadata["conf"] == {
        "spark.sql.shuffle.partitions": "6",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    }
    assert (made.commit(0).next_watermark_ms, made.commit(0).state_ids) == (7, {0: [["id"]]})
    pretending = Foreign(copy.directory, 0, SparkLog(copy.directory).offsets(0))
    assert (pretending.provider, pretending.partitions) == (ROCKSDB, 2)
    assert (copy.directory / "commits/0").read_text().startswith("v2\n")
    assert {name: (original / name).read_text() for name in names(original)} == before


@pytest.mark.parametrize(
    ("operator", "version", "is_refused"),
    [
        ("symmetricHashJoin", "4", True),
        ("symmetricHashJoin", "3", False),
        ("stateStoreSave", "4", False),
    ],
)
def test_joins_of_which_a_rewrite_loses_rows_are_found(
    tmp_path: Path, operator: str, version: str, is_refused: bool
) -> None:
    settings = {"spark.sql.streaming.join.stateFormatVersion": version}
    original = a_checkpoint(tmp_path / "original", **settings)
    metadata = original / "state/0/_metadata/v2/0"
    metadata.parent.mkdir()
    metadata.write_text(f'v2\n{{"operatorInfo":{{"operatorName":"{operator}"}}}}')

    obstacle = copy_foreign(original, tmp_path / "copy").rewrite_obstacle

    assert (obstacle is not None) == is_refused
    assert obstacle is None or "rewrite of state loses rows: keep the parallelism" in obstacle


def test_what_is_no_checkpoint_is_refused(original: Path, tmp_path: Path) -> None:
    with pytest.raises(ForeignCheckpointRefused, match="it has no metadata, offsets, commits"):
        copy_foreign(tmp_path, tmp_path / "copy")
    (original / "commits" / "0").unlink()
    with pytest.raises(ForeignCheckpointRefused, match="no committed batch"):
        copy_foreign(original, tmp_path / "copy")
