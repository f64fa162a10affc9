"""Decides what in storage is garbage, and why. Pure: callers list and delete files.

Files that are newer than the facts are never garbage. So the order is: list the checkpoints that
have directories; ask the database about them; then list again, with `pool.lock` held, and judge the
files by what the database said. A directory that was not in the first list is newer, and is kept,
with all files that its manifest names.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from jobmanager.core.durations import render
from jobmanager.core.ids import CheckpointNumber
from jobmanager.core.life.checkpoint import Checkpoint, CheckpointStatus
from jobmanager.core.life.job import JobStatus
from jobmanager.core.snapshots import layout

_UNKNOWN_JOBS = "--unknown-jobs deletes it, if no other server has it"


class GarbageKind(StrEnum):
    CHECKPOINT = "checkpoint"
    POOL_FILE = "pool_file"
    ATTEMPT = "attempt"
    SAVEPOINT_DRAFT = "savepoint_draft"
    UNKNOWN_JOB = "unknown_job"
    UNKNOWN_ARTIFACT = "unknown_artifact"


@dataclass(frozen=True, slots=True)
class Garbage:
    path: str
    """A location in the job's directory, or a URI."""
    kind: GarbageKind
    bytes: int
    why: str


@dataclass(frozen=True, slots=True)
class Judgement:
    garbage: tuple[Garbage, ...] = ()
    left: tuple[Garbage, ...] = ()
    """What is deliberately kept, with the option that would delete it."""
    kept: Mapping[str, int] = field(default_factory=dict)
    """How many of each kind are needed."""


@dataclass(frozen=True, slots=True)
class GarbageLimits:
    """What the caller allows to be deleted in addition to what is certainly not needed."""

    now: datetime
    older_than: timedelta | None = None
    """Delete attempts of jobs that failed or were cancelled longer ago. None: keep them."""
    unknown_jobs: bool = False


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What the database says about a job."""

    status: JobStatus
    ended_at: datetime | None
    has_runner: bool
    """Whether a process of the job may still exist, whatever the status is."""
    over: Mapping[CheckpointNumber, str]
    """Checkpoints that are not needed any more, each with the reason."""


@dataclass(frozen=True, slots=True)
class CheckpointFound:
    bytes: int
    """Of its own files."""
    names: Set[str] | None
    """The pool files that the checkpoint's manifest names. None: it has no manifest."""


@dataclass(frozen=True, slots=True)
class JobFound:
    """What was found in a job's directories."""

    checkpoints: Mapping[CheckpointNumber, CheckpointFound]
    pool: Mapping[str, int]
    """Size of each file, by location."""
    attempts: Mapping[int, int]
    """Size of each working directory, by attempt."""


def judge(facts: JobFacts, found: JobFound, limits: GarbageLimits) -> Judgement:
    """Decide which files of a job can be deleted; never those that a kept checkpoint names."""
    gone = [number for number in sorted(found.checkpoints) if number in facts.over]
    named: set[str] = set()
    for number, checkpoint in found.checkpoints.items():
        if number not in facts.over:
            named |= checkpoint.names or set()
    garbage = [
        Garbage(
            layout.checkpoint_directory(number),
            GarbageKind.CHECKPOINT,
            found.checkpoints[number].bytes,
            facts.over[number],
        )
        for number in gone
    ]
    garbage += [
        Garbage(location, GarbageKind.POOL_FILE, size, "no retained checkpoint refers to this file")
        for location, size in sorted(found.pool.items())
        if location not in named
    ]
    attempts = _attempts(facts, found, limits)
    kept = {
        "checkpoints": len(found.checkpoints) - len(gone),
        "pool_files": sum(location in named for location in found.pool),
        "attempts": len(found.attempts) - len(attempts.garbage),
    }
    return Judgement((*garbage, *attempts.garbage), attempts.left, kept)


def why_over(checkpoint: Checkpoint, discarded_at: datetime | None) -> str | None:
    """Return why the files of a checkpoint are not needed any more. None: they are needed."""
    if checkpoint.status is CheckpointStatus.ABORTED:
        return f"the checkpoint was aborted: {checkpoint.aborted_because}"
    if discarded_at is not None:
        return f"retention released the checkpoint at {discarded_at:%Y-%m-%d %H:%M} UTC"
    return None


def judge_unknown_draft(path: str, size: int, limits: GarbageLimits) -> Judgement:
    """Judge a draft of an unknown savepoint, which another server may be writing."""
    why = "the database has no such savepoint"
    if limits.unknown_jobs:
        return Judgement((Garbage(path, GarbageKind.SAVEPOINT_DRAFT, size, why),))
    why += f": {_UNKNOWN_JOBS}"
    return Judgement(left=(Garbage(path, GarbageKind.SAVEPOINT_DRAFT, size, why),))


def judge_unknown_artifact(path: str, size: int, limits: GarbageLimits) -> Judgement:
    """Judge the file of an unknown artifact, which was deleted or belongs to another server."""
    why = "the database has no such artifact"
    if limits.unknown_jobs:
        return Judgement((Garbage(path, GarbageKind.UNKNOWN_ARTIFACT, size, why),))
    why += f": {_UNKNOWN_JOBS}"
    return Judgement(left=(Garbage(path, GarbageKind.UNKNOWN_ARTIFACT, size, why),))


def judge_unknown_job(path: str, size: int, is_needed: bool, limits: GarbageLimits) -> Judgement:
    """Judge a directory of an unknown job, which may be a job of another server."""
    why = "the database has no such job"
    if is_needed:
        why += ", but something that is kept is in its directory"
    elif limits.unknown_jobs:
        return Judgement((Garbage(path, GarbageKind.UNKNOWN_JOB, size, why),))
    else:
        why += f": {_UNKNOWN_JOBS}"
    return Judgement(left=(Garbage(path, GarbageKind.UNKNOWN_JOB, size, why),))


def together(judgements: Iterable[Judgement]) -> Judgement:
    garbage: list[Garbage] = []
    left: list[Garbage] = []
    kept: Counter[str] = Counter()
    for one in judgements:
        garbage += one.garbage
        left += one.left
        kept.update(one.kept)
    return Judgement(tuple(garbage), tuple(left), dict(kept))


def _attempts(facts: JobFacts, found: JobFound, limits: GarbageLimits) -> Judgement:
    """Judge the working directories. A failed job's directory may hold its newest state."""
    if not facts.status.is_terminal or facts.has_runner:
        return Judgement()
    ended, age = facts.ended_at or limits.now, limits.older_than
    is_old = age is not None and ended <= limits.now - age
    verb = "failed" if facts.status is JobStatus.FAILED else f"was {facts.status}"
    how = f"the job {verb} at {ended:%Y-%m-%d %H:%M} UTC"
    if facts.status is JobStatus.FINISHED:
        why, goes = "the job has finished, and no job continues from this state", True
    elif is_old and age is not None:
        why, goes = f"{how}, more than {render(age)} ago", True
    else:
        why, goes = f"{how}; it may hold the newest state: --older-than deletes it", False
    attempts = tuple(
        Garbage(layout.attempt(number), GarbageKind.ATTEMPT, size, why)
        for number, size in sorted(found.attempts.items())
    )
    return Judgement(garbage=attempts) if goes else Judgement(left=attempts)
