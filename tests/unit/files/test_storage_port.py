"""The conformance test of the storage port: every implementation passes every test here.

A file system, fsspec's memory, and S3 (a real server over HTTP). Another kind of storage is
another parameter of the fixture.
"""

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from jobmanager.core.ids import RegionId
from jobmanager.core.snapshots.manifest import SnapshotFile
from jobmanager.files import created_locks
from jobmanager.files.open_storage import open_storage
from jobmanager.files.storage_port import (
    DamagedFile,
    Digest,
    LockUnavailable,
    MissingFile,
    Storage,
    UnsupportedOperation,
    damage,
)
from taskrunner.snapshots.pool import SnapshotPool
from tests.support.s3 import BUCKET, an_s3_server

STATE = b"state" * 1000
KEPT = Digest(len(STATE), hashlib.sha256(STATE).hexdigest())
SOON = timedelta(milliseconds=200)
LONG = timedelta(seconds=60)
MANY = 5
OUT = RegionId("out")


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("s3")
    with pytest.MonkeyPatch.context() as patch, an_s3_server(directory) as server:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield f"s3://{BUCKET}"


@pytest.fixture(params=["file", "memory", "s3"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """Empty, of each kind there is."""
    match request.param:
        case "file":
            return open_storage((tmp_path / "store").as_uri())
        case "memory":
            return open_storage(f"memory://{uuid4()}")
        case _:
            return open_storage(f"{request.getfixturevalue('s3')}/{uuid4()}")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "1.changelog"
    path.write_bytes(STATE)
    return path


def named(location: str, kept: Digest = KEPT) -> SnapshotFile:
    return SnapshotFile("x", location, kept.bytes, kept.sha256)


def at_once(times: int) -> threading.Barrier:
    return threading.Barrier(times)


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


def test_what_is_kept_as_new_leaves_alone_what_is_there(files: Storage, source: Path) -> None:
    assert files.keep_new(source, "pool/1") == KEPT
    files.write("pool/2", "of somebody else")

    assert files.keep_new(source, "pool/1") is None
    assert files.keep_new(source, "pool/2") is None

    assert files.digest("pool/1") == KEPT
    assert files.read("pool/2") == b"of somebody else"
    assert set(files.list_files()) == {"pool/1", "pool/2"}


def test_of_many_who_keep_a_large_file_as_new_all_find_it_whole(
    files: Storage, tmp_path: Path
) -> None:
    large = tmp_path / "1.sst"
    large.write_bytes(b"rows" * 3_000_000)
    together = at_once(MANY)

    def keep(_: int) -> Digest | None:
        together.wait()
        return files.keep_new(large, "pool/1")

    with ThreadPoolExecutor(MANY) as threads:
        kept = [one for one in threads.map(keep, range(MANY)) if one is not None]

    assert files.digest("pool/1").bytes == large.stat().st_size
    assert kept
    if files.links:  # the tests' S3 server looks first and then stores, where a file is large
        assert len(kept) == 1
    assert set(files.list_files()) == {"pool/1"}


def test_a_superseded_attempt_that_wakes_changes_nothing_that_a_newer_manifest_names(
    files: Storage, tmp_path: Path
) -> None:
    """Both wrote a batch 17: the older one is frozen before its upload, and its lock is broken."""
    older, newer = tmp_path / "older", tmp_path / "newer"
    older.write_text("batch 17 of attempt 1")
    newer.write_text("batch 17 of attempt 2")
    frozen, pool = SnapshotPool(files), SnapshotPool(files)
    frozen.begin()
    pool.begin()
    named = [pool.keep(OUT, newer, "offsets/17"), pool.keep(OUT, older, "metadata")]
    files.make_durable(named)

    woken = [frozen.keep(OUT, older, "offsets/17"), frozen.keep(OUT, older, "metadata")]

    assert [damage(files, file) for file in named] == [None, None]
    assert files.read(named[0].location) == b"batch 17 of attempt 2"
    assert files.read(woken[0].location) == b"batch 17 of attempt 1"
    assert woken[1].location == named[1].location, "the same content has one place"
    assert frozen.new_bytes == older.stat().st_size


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

    with pytest.raises(MissingFile, match="gone is missing"):
        files.fetch(named("gone"), tmp_path / "a")
    with pytest.raises(DamagedFile, match="short has 3 bytes instead of 5000"):
        files.fetch(named("short"), tmp_path / "b")


def test_damage_is_told_in_words(files: Storage) -> None:
    files.write("short", "abc")
    files.write("other", "x" * KEPT.bytes)

    assert damage(files, named("gone")) == "is missing"
    assert damage(files, named("short")) == "has 3 bytes instead of 5000"
    assert damage(files, named("other")) == f"was altered: its SHA-256 is not {KEPT.sha256}"


def test_a_directory_of_it_is_storage_too(files: Storage) -> None:
    inside = files.inside("jobs/1")
    inside.write("epoch", "7")

    assert inside.uri == f"{files.uri}/jobs/1"
    assert files.read("jobs/1/epoch") == inside.read("epoch") == b"7"
    assert set(files.list_files()) == {"jobs/1/epoch"}
    assert set(inside.list_files()) == inside.list_names() == {"epoch"}


def test_a_write_replaces_and_may_be_repeated(files: Storage) -> None:
    for content in ("one", "one", b"two\xff"):
        files.write("checkpoints/1/manifest.json", content)

    assert files.read("checkpoints/1/manifest.json") == b"two\xff"
    assert files.list_names("checkpoints/1") == {"manifest.json"}


def test_readers_see_the_old_file_or_the_new_one(files: Storage) -> None:
    sizes = [1 << 16, 1 << 18]
    files.write("x", b"a" * sizes[0])
    done = threading.Event()

    def read() -> set[tuple[int, int]]:
        seen = set()
        while not done.is_set():
            content = files.read("x")
            seen.add((len(content), len(set(content))))
        return seen

    with ThreadPoolExecutor() as readers:
        reading = readers.submit(read)
        for turn in range(10):
            files.write("x", b"ab"[turn % 2 : turn % 2 + 1] * sizes[turn % 2])
        done.set()
        seen = reading.result(60)

    assert seen <= {(sizes[0], 1), (sizes[1], 1)}


def test_a_file_is_created_once_and_then_left_alone(files: Storage) -> None:
    assert files.create("a/b", "first")
    assert not files.create("a/b", "second")
    assert files.read("a/b") == b"first"
    assert files.list_names("a") == {"b"}


def test_of_many_who_create_one_file_one_succeeds(files: Storage) -> None:
    together = at_once(MANY)

    def create(number: int) -> bool:
        together.wait()
        return files.create("epoch", str(number))

    with ThreadPoolExecutor(MANY) as others:
        created = list(others.map(create, range(MANY)))

    assert created.count(True) == 1
    assert files.read("epoch") == str(created.index(True)).encode()


def test_a_directory_gets_its_name_in_one_step_or_the_storage_says_that_it_cannot(
    files: Storage,
) -> None:
    for location in ("savepoints/.x.draft/out/1", "savepoints/.x.draft/manifest.json"):
        files.write(location, location)
    if not files.renames:
        with pytest.raises(UnsupportedOperation, match="cannot be renamed"):
            files.rename("savepoints/.x.draft", "savepoints/x")
        return

    files.rename("savepoints/.x.draft", "savepoints/x")

    assert set(files.list_files()) == {"savepoints/x/out/1", "savepoints/x/manifest.json"}
    with pytest.raises(FileNotFoundError):
        files.rename("savepoints/.x.draft", "savepoints/y")
    files.write("savepoints/.z.draft/1", "new")
    with pytest.raises(FileExistsError):  # what has the name keeps it
        files.rename("savepoints/.z.draft", "savepoints/x")
    files.write("savepoints/file", "old")
    with pytest.raises(FileExistsError):
        files.rename("savepoints/.z.draft/1", "savepoints/file")
    assert (files.read("savepoints/.z.draft/1"), files.read("savepoints/file")) == (b"new", b"old")
    assert set(files.list_files("savepoints/x")) == {
        "savepoints/x/out/1",
        "savepoints/x/manifest.json",
    }


def test_what_is_not_there_or_was_cut_off_cannot_be_made_durable(
    files: Storage, source: Path
) -> None:
    files.keep(source, "pool/1")
    files.make_durable([named("pool/1")] * 2)

    with pytest.raises(OSError, match="pool/1"):
        files.make_durable([named("pool/1", Digest(KEPT.bytes + 1, KEPT.sha256))])
    with pytest.raises(OSError, match="pool/2"):
        files.make_durable([named("pool/2")])


def test_what_is_deleted_may_be_deleted_again(files: Storage) -> None:
    files.write("a/1", "x")
    files.write("a/2", "x")
    for _ in range(2):
        files.delete(["a/1", "a/3"])
        assert set(files.list_files()) == {"a/2"}
    for _ in range(2):
        files.delete_directory("a")
        assert files.list_files() == {}


def test_a_lock_is_held_by_one_at_a_time(files: Storage) -> None:
    together, inside, most = at_once(MANY), [0], []

    def work(number: int) -> None:
        together.wait()
        with files.lock("jobs/1/pool.lock", LONG):
            inside[0] += 1
            most.append(inside[0])
            files.write("who", str(number))
            assert files.read("who") == str(number).encode()
            inside[0] -= 1

    with ThreadPoolExecutor(MANY) as others:
        list(others.map(work, range(MANY)))

    assert most == [1] * MANY


def test_a_lock_that_is_held_is_waited_for_no_longer_than_said(files: Storage) -> None:
    with (
        files.lock("pool.lock"),
        pytest.raises(LockUnavailable, match=r"pool\.lock has been locked by another process"),
        files.lock("pool.lock", SOON),
    ):
        raise AssertionError("two have it")
    with files.lock("pool.lock", SOON), files.lock("epoch.lock", SOON):
        pass


def test_a_lock_is_free_after_an_error_in_its_block(files: Storage) -> None:
    with pytest.raises(ZeroDivisionError), files.lock("pool.lock"):
        raise ZeroDivisionError

    with files.lock("pool.lock", SOON):
        pass


def test_a_lock_that_is_broken_can_be_had_by_one_at_a_time(files: Storage) -> None:
    with files.lock("pool.lock"):  # whose holder is frozen
        files.break_lock("pool.lock", SOON)
        with (
            files.lock("pool.lock", SOON),
            pytest.raises(LockUnavailable),
            files.lock("pool.lock", SOON),
        ):
            raise AssertionError("two have it")
    with files.lock("pool.lock", SOON):  # the frozen holder has let go of what it lost
        pass


def test_a_holder_that_gives_no_sign_of_life_is_taken_for_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where locks are made of files; on a file system the operating system frees them."""
    files = open_storage(f"memory://{uuid4()}")
    monkeypatch.setattr(created_locks, "DEAD_AFTER", timedelta(seconds=1))
    monkeypatch.setattr(created_locks, "_SIGN_OF_LIFE", LONG)

    with files.lock("pool.lock"), files.lock("pool.lock", LONG):
        pass

    monkeypatch.setattr(created_locks, "_SIGN_OF_LIFE", timedelta(milliseconds=100))
    with (
        files.lock("pool.lock"),
        pytest.raises(LockUnavailable),
        files.lock("pool.lock", timedelta(seconds=3)),
    ):
        raise AssertionError("a holder that is alive has lost its lock")
    assert len(files.list_names()) <= 4, "the traces of earlier holders are deleted"
