"""Segments: one file with the records of many published batches of a files sink.

The record of a published batch is needed for as long as a job can go back behind the batch, and
that is always possible: to a savepoint of any age. So old records are compacted into segments,
which forget nothing that a withdrawal needs: the batch, its attempt and the names of its files.

The name of a file is made of job, sink and batch, so the names of two batches mostly differ in the
batch only. Batches whose names differ in nothing else are a group, and a group is a few ranges of
batches: a segment of a million batches with the same number of files is as small as one of two.

Segments are read as a set: a batch that is in two segments, or in a segment and in a record of its
own, is published once. So no crash while records are compacted or segments are merged can do harm.
Batches leave a segment only by way of a segment of withdrawn batches (`sinks/record_segments.py`).
"""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from jobmanager.core.ids import JobId, VertexId
from taskrunner.core.sink_records import Record, final_prefix

_VERSION = 1
_NAME = re.compile(r"(\d+)-(\d+)-(\d+)(\.withdrawn)?\.json")
_FILES_OF_A_LEVEL = 10
_TOP_LEVEL = 6
"""Segments with so many digits of weight (some megabytes) are not merged any more."""


@dataclass(frozen=True, slots=True)
class CompactionLimits:
    """When records are compacted into segments."""

    kept: int = 1000
    """So many of the newest published batches keep a record of their own: a runner of the version
    before knows no segments.
    """
    at_once: int = 100


class FileShape(NamedTuple):
    """A file's name without job, sink and batch."""

    directory: str
    rest: str


class BatchGroup(NamedTuple):
    """What batches have in common that are recorded together."""

    attempt: int
    files: tuple[FileShape, ...]


@dataclass(frozen=True, slots=True)
class Batches:
    """A set of batches: ascending ranges, first and last, with gaps between them."""

    ranges: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of(batches: Iterable[int]) -> "Batches":
        return Batches(_joined((one, one) for one in batches))

    def __contains__(self, batch: int) -> bool:
        place = bisect_right(self.ranges, batch, key=lambda one: one[0])
        return place > 0 and batch <= self.ranges[place - 1][1]

    def __iter__(self) -> Iterator[int]:
        return (batch for first, last in self.ranges for batch in range(first, last + 1))

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __or__(self, other: "Batches") -> "Batches":
        return Batches(_joined((*self.ranges, *other.ranges)))

    def __sub__(self, other: "Batches") -> "Batches":
        left = []
        cuts = iter(other.ranges)
        cut = next(cuts, None)
        for start, last in self.ranges:
            first = start
            while cut is not None and cut[0] <= last:
                if cut[1] >= first:
                    if first < cut[0]:
                        left.append((first, cut[0] - 1))
                    first = cut[1] + 1
                if cut[1] > last:
                    break
                cut = next(cuts, None)
            if first <= last:
                left.append((first, last))
        return Batches(tuple(left))

    def after(self, batch: int) -> "Batches":
        later = [(max(first, batch + 1), last) for first, last in self.ranges if last > batch]
        return Batches(tuple(later))


@dataclass(frozen=True, slots=True)
class Segment:
    groups: Mapping[BatchGroup, Batches] = field(default_factory=dict)

    @property
    def batches(self) -> Batches:
        return Batches(_joined(pair for one in self.groups.values() for pair in one.ranges))

    def __bool__(self) -> bool:
        return any(self.groups.values())

    def __contains__(self, batch: int) -> bool:
        return any(batch in batches for batches in self.groups.values())

    def __or__(self, other: "Segment") -> "Segment":
        groups = dict(self.groups)
        for group, batches in other.groups.items():
            groups[group] = groups.get(group, Batches()) | batches
        return Segment(groups)

    def without(self, gone: Batches) -> "Segment":
        return self._each(lambda batches: batches - gone)

    def after(self, batch: int) -> "Segment":
        return self._each(lambda batches: batches.after(batch))

    def of_attempts_after(self, attempt: int) -> "Segment":
        return Segment({k: one for k, one in self.groups.items() if k.attempt > attempt})

    def finals(self, job: JobId, sink: VertexId) -> Iterator[str]:
        """The names of all files, inside the sink's directory."""
        for group, batches in self.groups.items():
            for batch in batches:
                for file in group.files:
                    name = f"{final_prefix(job, sink, batch)}{file.rest}"
                    yield str(PurePosixPath(file.directory) / name)

    def _each(self, change: Callable[[Batches], Batches]) -> "Segment":
        changed = {group: change(batches) for group, batches in self.groups.items()}
        return Segment({group: batches for group, batches in changed.items() if batches})


class SegmentName(NamedTuple):
    """The name of a segment's file: which batches are in it at most, and how much it holds."""

    first: int
    last: int
    weight: int
    is_withdrawn: bool = False

    def __str__(self) -> str:
        ending = ".withdrawn.json" if self.is_withdrawn else ".json"
        return f"{self.first}-{self.last}-{self.weight}{ending}"


def parse_name(name: str) -> SegmentName | None:
    """None: some other file."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return SegmentName(int(found[1]), int(found[2]), int(found[3]), found[4] is not None)


def name_of(segment: Segment, *, is_withdrawn: bool = False) -> SegmentName:
    """The name of a segment that is not empty."""
    ranges = segment.batches.ranges
    weight = sum(len(group.files) + len(one.ranges) for group, one in segment.groups.items())
    return SegmentName(ranges[0][0], ranges[-1][1], weight, is_withdrawn)


def compacted(job: JobId, sink: VertexId, records: Collection[Record]) -> Segment:
    """The records as a segment, without those whose files are not named after their batch."""
    shapes = [(one, _shape(job, sink, one)) for one in records]
    groups: dict[BatchGroup, list[int]] = {}
    for record, shape in shapes:
        if shape is not None:
            groups.setdefault(BatchGroup(record.attempt, shape), []).append(record.batch)
    return Segment({group: Batches.of(batches) for group, batches in groups.items()})


def found_by_names(job: JobId, sink: VertexId, finals: Iterable[str], name: SegmentName) -> Segment:
    """What a damaged segment must have contained, of the files that are still there."""
    pattern = re.compile(rf"{re.escape(f'{job.hex}-{sink}-')}(\d{{10,}})-(.+)")
    files: dict[int, list[FileShape]] = {}
    for final in sorted(finals):
        path = PurePosixPath(final)
        match = pattern.fullmatch(path.name)
        if match and name.first <= int(match[1]) <= name.last:
            files.setdefault(int(match[1]), []).append(FileShape(_directory(path), match[2]))
    found = Segment()
    for shape, batches in groupby(sorted(files, key=lambda one: files[one]), key=files.__getitem__):
        found |= Segment({BatchGroup(0, tuple(shape)): Batches.of(batches)})
    return found


def to_merge(names: Collection[SegmentName]) -> Sequence[SegmentName]:
    """The segments to make one segment of, or none. Segments of about the same weight are merged,
    so that a batch is written to a few segments in its life, however many batches there are.
    """
    levels: dict[int, list[SegmentName]] = {}
    for name in sorted(names):
        if not name.is_withdrawn:
            levels.setdefault(len(str(name.weight)), []).append(name)
    full = [
        (level, found)
        for level, found in sorted(levels.items())
        if level < _TOP_LEVEL and len(found) >= _FILES_OF_A_LEVEL
    ]
    return full[0][1] if full else ()


def to_text(segment: Segment) -> str:
    groups = [
        {"attempt": group.attempt, "files": group.files, "batches": batches.ranges}
        for group, batches in segment.groups.items()
    ]
    return json.dumps({"version": _VERSION, "groups": groups}, separators=(",", ":"))


def from_text(text: str) -> Segment:
    """Raises `ValueError`, `KeyError` or `TypeError` if the text is damaged."""
    document: Mapping[str, Any] = json.loads(text)
    if document["version"] != _VERSION:
        raise ValueError(f"its version is {document['version']}, and {_VERSION} is known")
    groups = {}
    for one in document["groups"]:
        files = tuple(FileShape(directory, rest) for directory, rest in one["files"])
        ranges = _joined((int(first), int(last)) for first, last in one["batches"])
        groups[BatchGroup(int(one["attempt"]), files)] = Batches(ranges)
    return Segment(groups)


def _shape(job: JobId, sink: VertexId, record: Record) -> tuple[FileShape, ...] | None:
    prefix = final_prefix(job, sink, record.batch)
    paths = [PurePosixPath(file.final) for file in record.files]
    if not all(path.name.startswith(prefix) for path in paths):
        return None
    return tuple(FileShape(_directory(path), path.name.removeprefix(prefix)) for path in paths)


def _directory(path: PurePosixPath) -> str:
    return "" if str(path.parent) == "." else str(path.parent)


def _joined(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return tuple(joined)
