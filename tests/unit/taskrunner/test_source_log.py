"""How large the files of a batch were, from Spark's log of a `files` source."""

import json
from pathlib import Path

import pytest

from taskrunner.snapshots.spark_log import bytes_of_entries


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log").mkdir()
    return tmp_path / "log"


def write_entry(log: Path, name: str, *files: Path) -> None:
    number = int(name.partition(".")[0])
    lines = [json.dumps({"path": one.as_uri(), "timestamp": 1, "batchId": number}) for one in files]
    (log / name).write_text("\n".join(["v1", *lines]))


def a_file(directory: Path, name: str, size: int) -> Path:
    path = directory / name
    path.write_bytes(b"x" * size)
    return path


def test_the_sizes_of_all_files_of_the_entries_are_added(log: Path, tmp_path: Path) -> None:
    write_entry(log, "0", a_file(tmp_path, "a", 1000))
    write_entry(log, "1", a_file(tmp_path, "b c%20d", 20), a_file(tmp_path, "e", 3))
    write_entry(log, "2", a_file(tmp_path, "f", 4))

    assert bytes_of_entries(log, 1, 2) == 27
    assert bytes_of_entries(log, 0, 0) == 1000
    assert bytes_of_entries(log, 3, 2) == 0


def test_an_entry_in_a_compacted_file_cannot_be_told(log: Path, tmp_path: Path) -> None:
    write_entry(log, "9.compact", a_file(tmp_path, "a", 1000))

    assert bytes_of_entries(log, 9, 9) is None


def test_a_file_that_is_gone_is_an_error_for_the_caller(log: Path, tmp_path: Path) -> None:
    gone = a_file(tmp_path, "a", 1)
    write_entry(log, "0", gone)
    gone.unlink()

    with pytest.raises(FileNotFoundError):
        bytes_of_entries(log, 0, 0)
