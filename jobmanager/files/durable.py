"""Writes to a file system so that files are complete after a crash.

A file appears under its name only when its whole content is on disk, and a name is on disk only
when its directory was synced.
"""

import errno
import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

from jobmanager.core.snapshots.layout import temporary_name

# another file system, a file system without links, or too many links
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)


def write(path: Path, content: str | bytes) -> None:
    """Write or replace `path` atomically."""
    temporary = _write_aside(path, content)
    temporary.replace(path)
    sync(path.parent)


def create(path: Path, content: str | bytes) -> bool:
    """Write `path` atomically if it does not exist; False: it exists, and is left unchanged."""
    temporary = _write_aside(path, content)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    sync(path.parent)
    return True


def link(source: Path, target: Path) -> None:
    """Make `target` another name of the file `source`. The parent is not synced."""
    target.parent.mkdir(parents=True, exist_ok=True)
    os.link(source, target)


def link_or_copy(source: Path, target: Path) -> None:
    """Make `target` a link to `source`, or a synced copy where links are not possible."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        shutil.copyfile(source, target)
        sync(target)


def sync(path: Path) -> None:
    """Force a file, or the names in a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(paths: Iterable[Path]) -> None:
    """Sync files, then their directories, each once."""
    directories: set[Path] = set()
    for path in paths:
        sync(path)
        directories.add(path.parent)
    for directory in directories:
        sync(directory)


def make_directory(path: Path) -> None:
    """Make a directory and its parents, durably."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for one in reversed(missing):
        one.mkdir(exist_ok=True)
        sync(one.parent)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_aside(path: Path, content: str | bytes) -> Path:
    make_directory(path.parent)
    temporary = path.with_name(temporary_name(path.name, uuid4().hex))
    with temporary.open("wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    return temporary
