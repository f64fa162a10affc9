"""Where the records and the staged files of an output directory are, out of readers' sight."""

import errno
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from taskrunner.snapshots import durable

_INSIDE = ".headgate"
_NO_RENAME = (errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS)


def private_directory(directory: Path) -> Path:
    """The directory with the records of all jobs that write into `directory`."""
    inside = directory / _INSIDE
    return inside if inside.is_dir() else directory.parent / f".{directory.name}{_INSIDE}"


def make_private_directory(directory: Path) -> Path:
    """Makes the private directory before a job first writes into `directory`: next to it, or inside
    it if files cannot be renamed from its parent. Later jobs use the same private directory.
    """
    found = private_directory(directory)
    if not found.is_dir():
        if directory.is_dir() and not _can_rename_into(directory):
            found = directory / _INSIDE
        durable.make_directory(found)
    return found


def is_inside(directory: Path, private: Path) -> bool:
    return private == directory / _INSIDE


def _can_rename_into(directory: Path) -> bool:
    """Tests it with a file: two mounts of one device have the same device number."""
    name = f"{_INSIDE}-{uuid4().hex}"
    beside, inside = directory.parent / name, directory / name
    try:
        beside.touch()
        beside.rename(inside)
    except OSError as error:
        if error.errno not in _NO_RENAME:
            raise
        return False
    finally:
        for one in (beside, inside):
            with suppress(OSError):
                one.unlink(missing_ok=True)
    return True
