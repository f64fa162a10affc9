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

# another file system, a file system without links, a file of another user, or too many links
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def write(path: Path, content: str | bytes) -> None:
    """Write or replace `path` atomically."""
    temporary = _write_aside(path, content)
    temporary.replace(path)
    sync(path.parent)


def create(path: Path, content: str | bytes) -> bool:
    """Write `path` atomically if it does not exist; False: it exists, and is left unchanged.

    On a file system without links, two processes that do so at the same time may both get True.
    """
    temporary = _write_aside(path, content)
    if not _named(temporary, path):
        return False
    sync(path.parent)
    return True


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


def link_or_copy_new(source: Path, target: Path) -> bool:
    """Link or copy atomically if `target` does not exist; False: it exists, and is left unchanged.

    On a file system without links, two processes that do so at the same time may both get True.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(temporary_name(target.name, uuid4().hex))
    link_or_copy(source, aside)
    return _named(aside, target)


def move(source: Path, target: Path) -> None:
    """Rename the synced file `source` atomically, also to another file system. An existing file is
    replaced. May be repeated after a crash. The parent is not synced.
    """
    try:
        source.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        aside = target.with_name(temporary_name(target.name, "moved"))
        shutil.copyfile(source, aside)
        sync(aside)
        aside.replace(target)
        source.unlink()


def sync(path: Path) -> None:
    """Force a file, or the names in a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(paths: Iterable[Path], inside: Path) -> None:
    """Sync files, then their directories up to and including `inside`, each once."""
    directories = {inside}
    for path in paths:
        sync(path)
        directories.update(one for one in path.parents if one.is_relative_to(inside))
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


def _named(temporary: Path, path: Path) -> bool:
    """Rename a temporary file if `path` does not exist, else delete it; False: `path` exists."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        if path.exists():
            return False
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)
    return True
