"""One port, three stores: a file system, fsspec's memory, and one that fails."""

import hashlib
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from jobmanager.core.snapshots.manifest import SnapshotFile
from jobmanager.core.snapshots.storage_uri import (
    UnsupportedStorage,
    below,
    is_local,
    normal,
    scheme_of,
)
from jobmanager.files.open_storage import open_storage, require_shared
from jobmanager.files.storage_port import DamagedFile, Digest, Storage, StoreFailed, damage
from tests.support import stores

STATE = b"state" * 1000
KEPT = Digest(len(STATE), hashlib.sha256(STATE).hexdigest())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "1.changelog"
    path.write_bytes(STATE)
    return path


def named(location: str, kept: Digest = KEPT) -> SnapshotFile:
    return SnapshotFile("x", location, kept.bytes, kept.sha256)


def test_what_is_kept_is_found_and_is_the_same(files: Storage, source: Path) -> None:
    assert files.keep(source, "pool/out/1") == KEPT
    files.make_durable([named("pool/out/1")])

    assert files.list_files() == files.list_files("pool") == {"pool/out/1": KEPT.bytes}
    assert files.read("pool/out/1") == STATE
    assert files.digest("pool/out/1") == KEPT
    assert damage(files, named("pool/out/1")) is None


def test_what_is_kept_replaces_what_was_there(files: Storage, source: Path) -> None:
    files.write("pool/1", "an earlier try")

    files.keep(source, "pool/1")

    assert files.digest("pool/1") == KEPT


def test_what_is_kept_is_apart_from_a_source_that_is_replaced(files: Storage, source: Path) -> None:
    files.keep(source, "1")
    source.unlink()
    source.write_text("something else")

    assert files.read("1") == STATE


def test_nothing_is_in_a_place_that_does_not_exist(files: Storage) -> None:
    assert files.list_files() == {}
    assert files.list_files("nowhere") == {}
    files.delete(["nowhere/1"])
    files.delete_directory("nowhere")
    for ask in (files.read, files.digest):
        with pytest.raises(FileNotFoundError):
            ask("nowhere/1")


def test_a_directory_goes_and_its_neighbour_stays(files: Storage) -> None:
    for location in ("checkpoints/1/a", "checkpoints/1/b/c", "checkpoints/10/a"):
        files.write(location, "text")
    assert files.list_names("checkpoints") == {"1", "10"}
    assert files.list_names("checkpoints/1") == {"a", "b"}
    assert files.list_names("nowhere") == set()

    files.delete_directory("checkpoints/1")
    assert set(files.list_files()) == {"checkpoints/10/a"}
    files.delete(["checkpoints/10/a"])
    assert set(files.list_files()) == set()


def test_a_file_is_fetched_where_spark_can_use_it(
    files: Storage, source: Path, tmp_path: Path
) -> None:
    files.keep(source, "1")

    files.fetch(named("1"), tmp_path / "clone" / "state" / "1")

    assert (tmp_path / "clone" / "state" / "1").read_bytes() == STATE


def test_a_file_that_is_missing_or_truncated_is_not_fetched(files: Storage, tmp_path: Path) -> None:
    files.write("short", "abc")

    with pytest.raises(DamagedFile, match="gone is missing"):
        files.fetch(named("gone"), tmp_path / "a")
    with pytest.raises(DamagedFile, match="short has 3 bytes instead of 5000"):
        files.fetch(named("short"), tmp_path / "b")


def test_damage_is_told_in_words(files: Storage) -> None:
    files.write("short", "abc")
    files.write("other", "x" * KEPT.bytes)

    assert damage(files, named("gone")) == "is missing"
    assert damage(files, named("short")) == "has 3 bytes instead of 5000"
    assert damage(files, named("other")) == f"was altered: its SHA-256 is not {KEPT.sha256}"


def test_an_altered_file_is_noticed_while_it_is_downloaded(tmp_path: Path) -> None:
    files = open_storage(f"memory://{uuid4()}")
    files.write("other", "x" * KEPT.bytes)

    with pytest.raises(DamagedFile, match="other was altered"):
        files.fetch(named("other"), tmp_path / "a")


def test_on_a_file_system_a_file_is_kept_as_a_link(tmp_path: Path, source: Path) -> None:
    files = open_storage(str(tmp_path / "store"))

    files.keep(source, "1")

    assert (tmp_path / "store" / "1").samefile(source)
    assert files.is_same(source, "1")


def test_a_store_that_fails_says_where_and_in_its_own_words(source: Path) -> None:
    stores.forget()
    files = open_storage("moody://bucket/job")
    with (
        stores.failing(after=0),
        pytest.raises(StoreFailed, match="moody://bucket/job/1: StoreIsFull: the store is full"),
    ):
        files.keep(source, "1")

    with pytest.raises(StoreFailed, match="1 has 2500 bytes after 5000 were uploaded"):
        files.make_durable([named("1")])
    with pytest.raises(StoreFailed, match="2 is not there"):
        files.make_durable([named("2")])


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("foo://bucket/x", "fsspec knows no foo: storage"),
        ("memory://x", "is the memory of one process"),
        ("somewhere", "is not a place"),
        ("simplecache::s3://bucket/x", "is not a place"),
        ("s3://", "is not a place"),
    ],
)
def test_a_place_that_cannot_be_used_is_refused_in_words(uri: str, told: str) -> None:
    with pytest.raises(UnsupportedStorage, match=told):
        require_shared(uri)


def test_a_driver_that_is_missing_is_named_with_what_to_install() -> None:
    without_it = """
import sys
sys.modules["s3fs"] = None  # as where it is not installed
from jobmanager.files.open_storage import require_shared
require_shared("s3://bucket/x")
"""
    ended = subprocess.run(
        [sys.executable, "-c", without_it], capture_output=True, text=True, check=False
    )

    assert "UnsupportedStorage: 's3://bucket/x' cannot be used" in ended.stderr
    assert "pip install headgate[s3]" in ended.stderr


def test_a_place_is_written_in_one_way() -> None:
    assert normal("s3://bucket/x/") == "s3://bucket/x"
    assert normal("/var/x/") == "file:///var/x"
    assert below("s3://bucket/x/", "jobs", "1") == "s3://bucket/x/jobs/1"
    assert (scheme_of("s3a://b/x"), scheme_of("/x")) == ("s3a", "file")
    assert is_local("file:/x")
    assert not is_local("s3://x")
