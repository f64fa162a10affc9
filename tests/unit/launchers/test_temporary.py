"""Temporary directories of runners: where they are, and which ones are deleted."""

import os
import socket
import tempfile
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from jobmanager.launchers import processes, temporary
from tests.support.server import eventually

RUNNER = UUID("0123456789abcdef0123456789abcdef")
SHORT = Path("/var/lib/headgate")
LONG = Path("/srv", *["a-directory-with-a-long-name"] * 3)
LATER = 10_000_000_000.0


def test_everything_is_inside_the_data_directory() -> None:
    own = temporary.of_runner(SHORT, RUNNER)

    assert own.files == own.sockets == SHORT / "tmp" / "0123456789ab"
    assert own.environment() == {
        "HEADGATE_TEMPORARY": "/var/lib/headgate/tmp/0123456789ab",
        "SPARK_LOCAL_DIRS": "/var/lib/headgate/tmp/0123456789ab",
        "TMPDIR": "/var/lib/headgate/tmp/0123456789ab",
        "SPARK_LAUNCHER_OPTS": "-XX:+PerfDisableSharedMem",
    }


def test_sockets_of_a_long_data_directory_are_elsewhere_and_large_files_are_not() -> None:
    own = temporary.of_runner(LONG, RUNNER)

    assert own.files == LONG / "tmp" / "0123456789ab"
    assert own.environment()["TMPDIR"] != str(own.files)
    assert len(str(own.sockets)) < 64


def test_a_socket_can_be_opened_below_a_long_data_directory(tmp_path: Path) -> None:
    data = Path(tmp_path, *["a-directory-with-a-long-name"] * 3)
    own = temporary.of_runner(data, uuid4())
    own.create()
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(own.sockets / "pymp-12345678-and-a-listener-12345678"))
    finally:
        own.delete()
    assert not own.files.exists()
    assert not own.sockets.exists()


def test_a_directory_that_others_may_write_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = temporary.of_runner(tmp_path / ("x" * 100), RUNNER)
    own.sockets.parent.mkdir()
    own.sockets.parent.chmod(0o777)

    with pytest.raises(PermissionError, match="belongs to somebody else or others may write to it"):
        own.create()


def test_only_the_directories_of_runners_without_a_process_are_deleted(tmp_path: Path) -> None:
    alive, dead = uuid4(), uuid4()
    for one in (alive, dead):
        temporary.of_runner(tmp_path, one).create()
        (temporary.of_runner(tmp_path, one).files / "liblz4.so").write_text("native")
    temporary.named(tmp_path, "inspector").create()
    assert temporary.has_leftovers(tmp_path, [alive])

    assert temporary.delete_leftovers(tmp_path, [alive], LATER) == [dead.hex[:12]]

    left = sorted(one.name for one in (tmp_path / "tmp").iterdir())
    assert left == sorted([alive.hex[:12], "inspector"])
    assert not temporary.has_leftovers(tmp_path, [alive])


def test_a_directory_that_was_just_made_is_left_for_the_process_that_is_about_to_start(
    tmp_path: Path,
) -> None:
    own = temporary.of_runner(tmp_path, RUNNER)
    own.create()

    assert temporary.delete_leftovers(tmp_path, []) == []
    assert own.files.exists()


def test_runners_are_found_by_the_mark_of_any_of_their_processes() -> None:
    marked = uuid4()
    pid = os.spawnvpe(
        os.P_NOWAIT, "sleep", ["sleep", "60"], {**os.environ, processes.MARKER: str(marked)}
    )
    try:
        eventually(lambda: marked in processes.marked_runners(), within=10)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    assert marked not in processes.marked_runners()
