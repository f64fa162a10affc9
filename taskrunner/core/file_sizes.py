"""Decides with how many tasks the rows of a batch are written, so that files have about a wanted
size.

The size of a file is known only when it is written. It is estimated from the rows of the batch and
from the bytes that a row took in files that the sink wrote before: those of the batch before, or of
a sample of the first batch.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from taskrunner.core.staged_rows import StagedFile

_MOST_EXCESS = 1.5
"""A file that would be so many times as large as wanted is cut."""


@dataclass(frozen=True, slots=True)
class FileSplit:
    """How a batch is written."""

    tasks: int
    most_rows: int
    """Of one file."""


def split(rows: int, bytes_per_row: float, target: int, tasks: int) -> FileSplit:
    """The split of a batch with so many rows, which now has so many tasks. A batch is not spread
    over more tasks: larger files are cut by rows.
    """
    per_row = max(bytes_per_row, 1e-3)
    wanted = ceil(rows * per_row / target)
    most_rows = max(1, ceil(_MOST_EXCESS * target / per_row))
    return FileSplit(max(1, min(wanted, tasks)), most_rows)


def bytes_per_row(files: Iterable[StagedFile], rows: int) -> float | None:
    """What a row of a written batch took; None: the batch had no rows."""
    size = sum(one.bytes for one in files if not one.is_empty)
    return size / rows if rows > 0 and size > 0 else None
