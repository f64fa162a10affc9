"""From a URI to its storage, and what is special in each kind; `test_storage_port` has the rest."""

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
from jobmanager.files.storage_port import DamagedFile, Digest, StoreFailed
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
    with pytest.raises(StoreFailed, match="2 is missing"):
        files.make_durable([named("2")])


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("foo://bucket/x", "fsspec knows no foo: storage"),
        ("memory://x", "is the memory of one process"),
        ("somewhere", "is not a storage location"),
        ("simplecache::s3://bucket/x", "is not a storage location"),
        ("s3://", "is not a storage location"),
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
