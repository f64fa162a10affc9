"""Decides whether the files of a batch hold the rows that Spark counted while it wrote them.

An executor that does not see the driver's directory writes to a disk of its own, without an
error: Spark then counts rows that no reader will ever find.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

_PART = re.compile(r"part-(\d+)")
_MOST_NAMED = 5


class BatchIncomplete(Exception):
    """The staged files of a batch do not hold the rows that Spark wrote: it is not committed."""


class OutputFileChanged(Exception):
    """A file that a batch's record names is missing, or its size differs from the record, or the
    record itself is damaged."""


@dataclass(frozen=True, slots=True)
class BatchCount:
    """Spark's count of the rows that it wrote."""

    rows: int
    partitions: frozenset[int] | None = None
    """The partitions with at least one row. None: not counted."""
    files: int | None = None
    """The files that the tasks wrote, empty ones too. None: not counted."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    path: PurePosixPath
    """Inside the directory of the batch's staged files."""
    bytes: int
    rows: int | None = None
    """None: in this format rows can only be counted by reading the whole file."""

    @property
    def is_empty(self) -> bool:
        return self.bytes == 0 or self.rows == 0

    @property
    def partition(self) -> int | None:
        """The partition that the file was written from: Spark puts its number into the name."""
        found = _PART.match(self.path.name)
        return int(found[1]) if found else None


def contradiction(count: BatchCount, files: Sequence[StagedFile]) -> str | None:
    """Describes how a batch's files contradict Spark's count; None: they agree."""
    filled = [one for one in files if not one.is_empty]
    told = [one.rows for one in filled if one.rows is not None]
    if len(told) == len(filled) and sum(told) != count.rows:
        return f"{_files(len(filled))} found, with {sum(told)} rows in all" if told else _NO_FILE
    if count.rows > 0 and not filled:
        return _NO_FILE
    if count.files is not None and len(files) != count.files:
        return f"{_files(len(files))} found, and Spark's tasks wrote {_files(count.files)}"
    missing = sorted((count.partitions or frozenset()) - {one.partition for one in filled})
    if count.rows > 0 and missing:
        named = ", ".join(map(str, missing[:_MOST_NAMED]))
        more = ", …" if len(missing) > _MOST_NAMED else ""
        return f"{_files(len(filled))} found, and none of these partitions with rows: {named}{more}"
    return None


_NO_FILE = "no file with rows was found"


def _files(number: int) -> str:
    return "1 file" if number == 1 else f"{number} files"
