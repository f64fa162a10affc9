"""The life of a job: one pure function of the life so far and an event.

    step(life, event) -> Step(life, effects, history, outcome)
    begin(submitted)  -> the same, for the first event

A `Life` (`draft.py`) is the job with its pacing and restore point, its newest attempt, the
operations, savepoints and checkpoints under way, and what can be restored. The machines of each
(`job.py`, `attempt.py`, `operation.py`, `checkpoint.py`, `savepoint.py`) know nothing of each
other; the rules (`attempt_rules.py`, `checkpoint_rules.py`, `operation_rules.py`,
`request_rules.py`, `health_rules.py`) connect them. No clock, no I/O, no randomness: times and new
ids are part of the events. The use cases load a life, step, save and commit, under the job's lock;
a step that was not committed has no effect, so it may be repeated.

Events (`events.py`)
  Submitted              only for `begin`: a job was accepted
  AttemptNews            attempt number, and an event of the attempt machine: RunnerRegistered,
                         StatePrepared, QueriesStarted, AttemptFinished, AttemptStopped,
                         AttemptCancelled, AttemptFailed (all reported by the runner),
                         RunnerWentSilent, GraceEnded (noticed by the JobManager)
  LaunchFailed           no runner could be started
  RunnerLeft             the runner's process has ended, perhaps with a last report
  RunnerGivenUp          a runner out of reach, whose attempt has ended, counts as exited
  HeartbeatReceived      a runner's heartbeat, with the progress of its regions
  JobCancelRequested     a user wants the job to end, without a savepoint
  JobPauseRequested      a user wants the job to rest at a batch boundary, its runner kept
  JobResumeRequested     a user wants a paused job to continue
  RestartDue             check whether it is time to restart a failed job
  CheckpointDue          check whether the periodic checkpoint is due
  CheckpointRequested    a user wants a checkpoint now
  CheckpointNews         checkpoint number, and BarrierAcked, BarrierDeclined or CheckpointExpired
  SavepointRequested     a user wants a savepoint, or a stop or cancellation with a savepoint
  RescaleRequested       a user wants another parallelism
  UpgradeRequested       a user wants another graph
  OperationOverdue       check whether a rescale or upgrade has waited too long
  HealthExamined         check the health of the job

An event that is late, repeated, or of an attempt that was replaced changes nothing. A request
that the present state forbids raises an error of `core.errors`, and so does an event of an attempt
or checkpoint that never existed.

Effects (`effects.py`)
  for the JobManager     LaunchAttempt, KillRunner, DiscardCheckpoint, DiscardAttempts,
                         DisposeSavepoint, LetRestorePointGo
  for the runner         StartAttempt, SendBarrier, StopAttempt, AnnounceCompletion,
                         WithdrawBarrier, CancelAttempt, PauseAttempt, ReleaseRunner
  for the store          HandOverRunner (the next attempt gets the runner of the last attempt),
                         DismissRunner (the runner has exited, and its directives are dropped)

Effects for the JobManager and the runner are carried out at least once, later; effects for the
store are part of the step's own transaction.
"""

from typing import assert_never

from jobmanager.core.errors import JobHasEnded
from jobmanager.core.ids import CheckpointNumber
from jobmanager.core.life import (
    attempt_rules,
    checkpoint_rules,
    health_rules,
    request_rules,
)
from jobmanager.core.life import job as job_machine
from jobmanager.core.life.draft import Announcement as Announcement
from jobmanager.core.life.draft import Draft
from jobmanager.core.life.draft import Life as Life
from jobmanager.core.life.draft import Step as Step
from jobmanager.core.life.events import (
    AttemptNews,
    CheckpointDue,
    CheckpointNews,
    CheckpointRequested,
    HealthExamined,
    HeartbeatReceived,
    LaunchFailed,
    LifeEvent,
    OperationOverdue,
    RescaleRequested,
    RunnerGivenUp,
    RunnerLeft,
    SavepointRequested,
    Submitted,
    UpgradeRequested,
)
from jobmanager.core.life.job import (
    JobCancelRequested,
    JobPauseRequested,
    JobResumeRequested,
    JobStatus,
    RestartDue,
)
from jobmanager.core.life.records import HistoryEntry, StoredJob


def begin(event: Submitted) -> Step:
    """Begin the life of a job that was just accepted."""
    job, _ = job_machine.submit(event.graph.restart, event.at)
    stored = StoredJob(
        id=event.job_id,
        job=job,
        document=event.document,
        graph=event.graph,
        revision=1,
        parallelism=event.parallelism,
        submitted_at=event.at,
        ended_at=None,
        status_times={job.status: int(event.at.timestamp() * 1000)},
        next_checkpoint=CheckpointNumber(1),
        next_checkpoint_at=None,
        failed_checkpoints=0,
        restore_point=event.restore_point,
    )
    draft = Draft(Life(stored, attempts={}))
    point = event.restore_point
    cause = f"started from {point.name}" if point else "submitted by a client"
    draft.history.append(HistoryEntry(event.at, "job_submitted", cause))
    attempt_rules.launch_attempt(draft, event.at)
    return draft.result()


def step(life: Life, event: LifeEvent) -> Step:
    """Return the life after the event, with effects and history."""
    draft = Draft(life)
    match event:
        case AttemptNews():
            attempt_rules.move_attempt(draft, event.attempt, event.event)
        case LaunchFailed():
            attempt_rules.fail_launch(draft, event)
        case RunnerLeft():
            attempt_rules.lose_runner(draft, event)
        case RunnerGivenUp():
            attempt_rules.give_runner_up(draft, event)
        case HeartbeatReceived():
            attempt_rules.take_heartbeat(draft, event)
        case JobCancelRequested():
            _check_not_ended(life)
            attempt_rules.move_job(draft, event)
        case JobPauseRequested():
            request_rules.check_pause(life)
            attempt_rules.move_job(draft, event)
        case JobResumeRequested():
            request_rules.check_resume(life)
            attempt_rules.resume_job(draft, event)
        case RestartDue():
            attempt_rules.move_job(draft, event)
        case CheckpointDue():
            checkpoint_rules.take_due(draft, event)
        case CheckpointRequested():
            checkpoint_rules.take_requested(draft, event)
        case CheckpointNews():
            return draft.result(checkpoint_rules.take_news(draft, event))
        case SavepointRequested():
            request_rules.begin_savepoint(draft, event)
        case RescaleRequested():
            request_rules.begin_rescale(draft, event)
        case UpgradeRequested():
            request_rules.begin_upgrade(draft, event)
        case OperationOverdue():
            request_rules.end_overdue(draft, event)
        case HealthExamined():
            health_rules.note_health(draft, event)
        case _:
            assert_never(event)
    return draft.result()


def _check_not_ended(life: Life) -> None:
    job = life.job
    if job.job.status in (JobStatus.FINISHED, JobStatus.FAILED):
        raise JobHasEnded(f"job {job.id.hex} cannot be cancelled: it is {job.job.status}")
