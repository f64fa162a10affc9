"""Decides which files of held batches become one file before readers see them.

    restore points       ▼ 3                 ▼ 7
    batches      1   2   3 │ 4   5   6   7   │ 8      a restore goes back behind a whole group,
                └─ group ──┘└──── group ─────┘        or behind nothing of it

Held batches that become visible together are one group, unless a job could be restored to a batch
between them. In a group the small files of each directory are distributed over bins of about the
wanted size; each bin becomes a file of the last batch of its group. Files that are large enough,
and a file that would be alone in its bin, stay as they are.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from jobmanager.core.ids import JobId, VertexId
from taskrunner.core.sink_records import OutputFile, Record, final_name, final_prefix

_LARGE_ENOUGH = 2 / 3
"""A file with so much of the wanted size stays as it is."""
_PART = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Bin:
    """Small files of one directory that become one file."""

    files: tuple[OutputFile, ...]

    @property
    def directory(self) -> PurePosixPath:
        """Inside the sink's directory."""
        return _directory(self.files[0])

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.files)


@dataclass(frozen=True, slots=True)
class JoinGroup:
    """Batches that a restore keeps or withdraws together."""

    records: tuple[Record, ...]
    """Of the batches with a file in a bin, in order. The last batch gets the joined files."""
    bins: tuple[Bin, ...]


@dataclass(frozen=True, slots=True)
class JoinedFile:
    """A file that was made of a bin."""

    bin: Bin
    staged: str
    """Inside the sink's private directory."""
    bytes: int


@dataclass(frozen=True, slots=True)
class JoinedRecords:
    """The records of a group after its files were joined."""

    carrier: Record
    """Of the last batch: it names the joined files."""
    left: tuple[Record, ...]
    """Of earlier batches that keep a file."""
    gone: tuple[int, ...]
    """Earlier batches that keep no file: like batches without rows, they need no record."""


def join_groups(
    records: Collection[Record],
    restore_points: Collection[int],
    target: int,
    can_join: Callable[[OutputFile], bool] = lambda file: True,
) -> list[JoinGroup]:
    """The groups in which files are to be joined, in the order of their batches.

    `restore_points` are the batches of all checkpoints and savepoints that were taken while these
    batches were written.
    """
    groups = []
    for batches in _between(records, restore_points):
        small = [
            file
            for record in batches
            for file in record.files
            if file.bytes < _LARGE_ENOUGH * target and can_join(file)
        ]
        if bins := tuple(_bins(small, target)):
            joined = _names(bins)
            touched = tuple(one for one in batches if not joined.isdisjoint(_finals(one)))
            groups.append(JoinGroup(touched, bins))
    return groups


def after_join(
    group: JoinGroup, files: Sequence[JoinedFile], job: JobId, sink: VertexId
) -> JoinedRecords:
    """The records that take the place of those of the group."""
    joined = _names(group.bins)
    *earlier, last = (_without(record, joined) for record in group.records)
    left = tuple(one for one in earlier if one.files)
    first_part = _next_part(group.records[-1], job, sink)
    named = (
        OutputFile(file.staged, _name(file, job, sink, last.batch, part), file.bytes)
        for part, file in enumerate(files, first_part)
    )
    rows = sum(one.rows for one in group.records) - sum(one.rows for one in left)
    carrier = replace(last, rows=rows, files=(*last.files, *named))
    return JoinedRecords(carrier, left, tuple(one.batch for one in earlier if not one.files))


def _between(
    records: Collection[Record], restore_points: Collection[int]
) -> Iterator[list[Record]]:
    """Batches between which there is no restore point, together."""
    points, group = sorted(restore_points), list[Record]()
    for record in sorted(records, key=lambda one: one.batch):
        # a point at the batch before counts: the next batch can be withdrawn without it
        if group and _number_before(points, group[0].batch) < _number_before(points, record.batch):
            yield group
            group = []
        group.append(record)
    if group:
        yield group


def _number_before(points: Sequence[int], batch: int) -> int:
    return bisect_left(points, batch)


def _bins(files: Sequence[OutputFile], target: int) -> Iterator[Bin]:
    directories: dict[PurePosixPath, list[OutputFile]] = {}
    for file in files:
        directories.setdefault(_directory(file), []).append(file)
    for _, found in sorted(directories.items()):
        size = sum(one.bytes for one in found)
        number = max(1, round(size / target))
        bins: list[list[OutputFile]] = [[] for _ in range(number)]
        before = 0
        for file in found:
            middle = before + file.bytes / 2
            bins[min(int(middle * number / max(size, 1)), number - 1)].append(file)
            before += file.bytes
        yield from (Bin(tuple(one)) for one in bins if len(one) > 1)


def _without(record: Record, joined: frozenset[str]) -> Record:
    """The record without joined files. Which of the rows are in them is not known: as many as
    their share of the bytes.
    """
    kept = tuple(one for one in record.files if one.final not in joined)
    if len(kept) == len(record.files):
        return record
    share = sum(one.bytes for one in kept) / max(1, sum(one.bytes for one in record.files))
    return replace(record, rows=round(record.rows * share), files=kept)


def _name(file: JoinedFile, job: JobId, sink: VertexId, batch: int, part: int) -> str:
    staged = file.bin.directory / PurePosixPath(file.staged).name
    return final_name(job, sink, batch, part, str(staged))


def _next_part(record: Record, job: JobId, sink: VertexId) -> int:
    prefix = final_prefix(job, sink, record.batch)
    names = (PurePosixPath(one.final).name.removeprefix(prefix) for one in record.files)
    parts = [int(found[0]) for name in names if (found := _PART.match(name))]
    return max(parts, default=-1) + 1


def _directory(file: OutputFile) -> PurePosixPath:
    return PurePosixPath(file.final).parent


def _finals(record: Record) -> frozenset[str]:
    return frozenset(one.final for one in record.files)


def _names(bins: Sequence[Bin]) -> frozenset[str]:
    return frozenset(file.final for one in bins for file in one.files)
