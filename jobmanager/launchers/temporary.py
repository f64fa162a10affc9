"""Temporary directories: each runner has its own, which is deleted when its processes are gone.

Spark's JVM unpacks native libraries, shuffle files and artifacts into its temporary directory and
leaves them there when it is killed. So every process of a runner gets a directory inside the data
directory of its server instead of the machine's:

    <data directory>/tmp/<12 digits of the runner's id>    SPARK_LOCAL_DIRS, java.io.tmpdir, TMPDIR

The name is short because users' Python code may open Unix sockets in TMPDIR, and the whole path of
a socket has at most 107 bytes. If the data directory's own path is too long for that, TMPDIR is a
directory below the machine's temporary directory, which is deleted together with the other.
"""

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

_LONGEST = 107
"""Bytes in the path of a Unix socket."""
_SOCKET = len("/pymp-12345678/listener-12345678") + 12
"""What Python's multiprocessing appends to TMPDIR, or Spark for a socket of its own."""
_DIGITS = 12
_SETTLED_SECONDS = 60.0
"""A directory that changed more recently may belong to a process that is about to start."""


@dataclass(frozen=True, slots=True)
class Temporary:
    """The temporary directory of one runner, or of the inspector."""

    files: Path
    """For the JVM: on the disk of the data directory, as large as that."""
    sockets: Path
    """TMPDIR; usually the same directory."""

    def create(self) -> None:
        self.files.mkdir(parents=True, exist_ok=True)
        if self.sockets == self.files:
            return
        while not self.sockets.is_dir():
            # another runner that ends at this moment may delete the directory above it
            with contextlib.suppress(FileNotFoundError):
                _private(self.sockets.parent)
                self.sockets.mkdir(mode=0o700, exist_ok=True)

    def delete(self) -> None:
        shutil.rmtree(self.files, ignore_errors=True)
        if self.sockets != self.files:
            shutil.rmtree(self.sockets, ignore_errors=True)
            with contextlib.suppress(OSError):  # other runners have directories there
                self.sockets.parent.rmdir()

    def environment(self) -> dict[str, str]:
        return {
            "HEADGATE_TEMPORARY": str(self.files),  # taskrunner/spark/session/java_options.py
            "SPARK_LOCAL_DIRS": str(self.files),
            "TMPDIR": str(self.sockets),
            # spark-class starts a short JVM before Spark's own
            "SPARK_LAUNCHER_OPTS": "-XX:+PerfDisableSharedMem",
        }


def of_runner(data: Path, runner_id: UUID) -> Temporary:
    return named(data, runner_id.hex[:_DIGITS])


def named(data: Path, name: str) -> Temporary:
    files = data / "tmp" / name
    return Temporary(files, files if _has_room(files) else _short_root(data) / name)


def delete_leftovers(data: Path, alive: Collection[UUID], now: float | None = None) -> list[str]:
    """Deletes the directories of runners that have no process any more; returns their names."""
    now = time.time() if now is None else now
    living = {one.hex[:_DIGITS] for one in alive}
    gone: list[str] = []
    for directory in _directories(data):
        if directory.name not in living and _is_settled(directory, now):
            named(data, directory.name).delete()
            gone.append(directory.name)
    return sorted(set(gone))


def has_leftovers(data: Path, alive: Collection[UUID]) -> bool:
    """Whether there is a directory of a runner other than these."""
    living = {one.hex[:_DIGITS] for one in alive}
    return any(directory.name not in living for directory in _directories(data))


def _directories(data: Path) -> list[Path]:
    found: list[Path] = []
    for root in (data / "tmp", _short_root(data)):
        with contextlib.suppress(OSError):  # there is none, or it belongs to another user
            found += [one for one in root.iterdir() if _is_runners(one.name)]
    return found


def _is_runners(name: str) -> bool:
    return len(name) == _DIGITS and set(name) <= set("0123456789abcdef")


def _is_settled(directory: Path, now: float) -> bool:
    try:
        return now - directory.stat().st_mtime > _SETTLED_SECONDS
    except OSError:
        return False


def _has_room(directory: Path) -> bool:
    return len(os.fsencode(directory)) + _SOCKET <= _LONGEST


def _short_root(data: Path) -> Path:
    mark = hashlib.sha256(os.fsencode(data)).hexdigest()[:8]
    return Path(tempfile.gettempdir(), f"headgate-{os.getuid()}-{mark}")


def _private(directory: Path) -> None:
    """Creates a directory in a place where everybody may write, and makes sure that it is ours."""
    directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.lstat()
    if directory.is_symlink() or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(
            f"{directory} belongs to somebody else or others may write to it: delete it, or choose "
            "a data directory with a shorter path"
        )
