"""The records of a files sink about each batch, and what a new attempt does with them.

    (nothing) ──staged, decided──▶ PENDING ──every file in place──▶ PUBLISHED
        └──staged, waits──▶ HELD ──its checkpoint completed──▶ PENDING
    HELD, PENDING, PUBLISHED ──restore goes back behind it──▶ WITHDRAWN ──▶ (nothing)

Creating the record commits the batch: a batch that has a record is never written again,
whatever the process that wrote it was doing when it died.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import assert_never

from jobmanager.core.ids import JobId, VertexId


class RecordState(StrEnum):
    HELD = "held"
    PENDING = "pending"
    PUBLISHED = "published"
    WITHDRAWN = "withdrawn"


class Recovery(StrEnum):
    """What to do with the record of one batch."""

    KEEP = "keep"
    PUBLISH = "publish"
    """Rename every file into place that is not there yet."""
    WITHDRAW = "withdraw"
    """Delete its files, then the record."""


@dataclass(frozen=True, slots=True)
class OutputFile:
    staged: str
    """Inside the sink's private directory."""
    final: str
    """Inside the sink's directory."""
    bytes: int


@dataclass(frozen=True, slots=True)
class Record:
    batch: int
    rows: int
    attempt: int
    files: tuple[OutputFile, ...]


def recoveries(
    records: Mapping[int, RecordState], last_kept: int, last_visible: int | None
) -> dict[int, Recovery]:
    """Decides what to do with each batch's record before an attempt starts.

    `last_kept` is the last batch whose output stays; `last_visible` the batch of the
    latest completed checkpoint, up to which held output may be seen.
    """
    return {
        batch: _recovery(batch, state, last_kept, last_visible)
        for batch, state in sorted(records.items())
    }


def final_name(job: JobId, sink: VertexId, batch: int, part: int, staged: str) -> str:
    """The name under which a staged file is published: never made of the attempt.

    A partition's directories (`day=1/`) and the endings (`.snappy.parquet`) stay.
    """
    path = PurePosixPath(staged)
    endings = "".join(path.suffixes)
    return str(path.with_name(f"{final_prefix(job, sink, batch)}{part:05d}{endings}"))


def final_prefix(job: JobId, sink: VertexId, batch: int) -> str:
    """What the names of all files of a batch begin with, in whatever directory they are."""
    return f"{job.hex}-{sink}-{batch:010d}-"


def _recovery(batch: int, state: RecordState, last_kept: int, last_visible: int | None) -> Recovery:
    if batch > last_kept:
        return Recovery.WITHDRAW
    match state:
        case RecordState.WITHDRAWN:
            return Recovery.WITHDRAW
        case RecordState.PENDING:
            return Recovery.PUBLISH
        case RecordState.HELD:
            is_visible = last_visible is not None and batch <= last_visible
            return Recovery.PUBLISH if is_visible else Recovery.KEEP
        case RecordState.PUBLISHED:
            return Recovery.KEEP
        case _:
            assert_never(state)
