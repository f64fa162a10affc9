"""Effects: what the core asks the shell to do, as plain data that can be compared and stored.

Effects are written to the outbox in the transaction that decided them, and may be carried out
twice. Some are for the JobManager itself, the others are directives that a runner fetches. A few
are only for the store, which carries them out in the same transaction that saves the life.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from jobmanager.core.ids import AttemptNumber, CheckpointNumber


@dataclass(frozen=True, slots=True)
class LaunchAttempt:
    """Get a runner for this attempt."""

    attempt: AttemptNumber


@dataclass(frozen=True, slots=True)
class KillRunner:
    """Kill the attempt's runner with its whole process group."""

    attempt: AttemptNumber
    reason: str


@dataclass(frozen=True, slots=True)
class DiscardCheckpoint:
    """Delete the manifest, then the files that no other manifest names."""

    checkpoint: CheckpointNumber
    was_completed: bool = False
    """Whether the manifest was written before: then no runner will write it any more. Of an aborted
    checkpoint a runner may still write files, and has to learn that it was discarded.
    """


@dataclass(frozen=True, slots=True)
class DiscardAttempts:
    """Delete the working directories of the attempts before this one."""

    before: AttemptNumber


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """To the runner: run the job."""

    attempt: AttemptNumber


@dataclass(frozen=True, slots=True)
class SendBarrier:
    attempt: AttemptNumber
    checkpoint: CheckpointNumber
    expires_at: datetime
    savepoint: str | None = None
    """For a savepoint: its id, 32 hexadecimal digits."""
    directory: str | None = None
    """For a savepoint: the URI of its directory."""
    awaits_new_batch: bool = False
    """Whether the runner answers only when each region has committed a batch in this attempt, or
    has found no input.
    """


@dataclass(frozen=True, slots=True)
class StopAttempt:
    """To the runner: finish the batch, write the savepoint, end."""

    attempt: AttemptNumber
    checkpoint: CheckpointNumber
    expires_at: datetime
    savepoint: str
    directory: str
    drain: bool
    keep_runner: bool = False
    """Whether the runner stays for the next attempt."""


@dataclass(frozen=True, slots=True)
class DisposeSavepoint:
    """Delete the directory: the manifest first."""

    directory: str


@dataclass(frozen=True, slots=True)
class AnnounceCompletion:
    attempt: AttemptNumber
    checkpoint: CheckpointNumber


@dataclass(frozen=True, slots=True)
class WithdrawBarrier:
    attempt: AttemptNumber
    checkpoint: CheckpointNumber
    reason: str


@dataclass(frozen=True, slots=True)
class CancelAttempt:
    attempt: AttemptNumber
    grace: timedelta


@dataclass(frozen=True, slots=True)
class PauseAttempt:
    """To the runner: finish the batch, end the attempt, and wait for the next."""

    attempt: AttemptNumber
    grace: timedelta
    keep_for: timedelta


@dataclass(frozen=True, slots=True)
class ReleaseRunner:
    """To the runner: the attempt has ended, exit."""

    attempt: AttemptNumber


@dataclass(frozen=True, slots=True)
class HandOverRunner:
    """Give the runner of an attempt that has ended to the next attempt. Directives of the old
    attempt that the runner has not fetched are dropped.
    """

    attempt: AttemptNumber
    to: AttemptNumber


@dataclass(frozen=True, slots=True)
class DismissRunner:
    """The runner of this attempt has exited: note how, and drop its remaining directives."""

    attempt: AttemptNumber
    description: str


@dataclass(frozen=True, slots=True)
class LetRestorePointGo:
    """Delete what this job has claimed of another job and no longer needs, unless a third job
    needs it by now. Not part of the step: whether that is so can be told only under the lock of
    the job that wrote it, which whoever accepts a third job holds too.
    """

    root: str
    """Of a savepoint: its directory."""
    job: str
    """Who wrote it, 32 hexadecimal digits."""
    checkpoint: CheckpointNumber | None
    """None: it is a savepoint."""


ForJobManager = (
    LaunchAttempt
    | KillRunner
    | DiscardCheckpoint
    | DiscardAttempts
    | DisposeSavepoint
    | LetRestorePointGo
)
ForRunner = (
    StartAttempt
    | SendBarrier
    | StopAttempt
    | AnnounceCompletion
    | WithdrawBarrier
    | CancelAttempt
    | PauseAttempt
    | ReleaseRunner
)
Effect = ForJobManager | ForRunner
"""The effects that are written to the outbox."""
ForStore = HandOverRunner | DismissRunner
