"""How the machines of a job play together: stories of whole lives, without any I/O."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from jobmanager.core.errors import (
    CheckpointNotFound,
    IdempotencyKeyReused,
    JobHasEnded,
    JobNotFound,
    JobNotRunning,
    NothingToChange,
    StopUnderWay,
    UnsupportedRequest,
)
from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId
from jobmanager.core.life import effects, events
from jobmanager.core.life.attempt import (
    AttemptCancelled,
    AttemptFailed,
    AttemptFinished,
    AttemptStopped,
    GraceEnded,
    InputEnded,
    QueriesStarted,
    RunnerRegistered,
    RunnerWentSilent,
)
from jobmanager.core.life.change import Revision
from jobmanager.core.life.checkpoint import (
    AbortReason,
    AckOutcome,
    BarrierDeclined,
    CheckpointExpired,
    CheckpointStatus,
)
from jobmanager.core.life.health import Health, HealthLimits
from jobmanager.core.life.job import (
    JobCancelRequested,
    JobPauseRequested,
    JobResumeRequested,
    JobStatus,
    RestartDue,
)
from jobmanager.core.life.life import Announcement
from jobmanager.core.life.operation import OperationKind, OperationStatus
from jobmanager.core.life.records import HistoryEntry, RestorePoint, StoredOperation
from jobmanager.core.life.request_rules import check_repetition
from jobmanager.core.life.savepoint import SavepointStatus
from jobmanager.core.progress import RegionProgress, RestoredRegion
from tests.support.builders import a_document, a_failure, after
from tests.support.lives import Story, a_running_story, a_story, an_ack, of_type

LIMITS = HealthLimits(timedelta(seconds=60), timedelta(seconds=10))


def decline(number: int, at: float, reason: AbortReason, attempt: int = 1) -> events.CheckpointNews:
    said = BarrierDeclined(after(at), AttemptNumber(attempt), reason, "no space")
    return events.CheckpointNews(CheckpointNumber(number), said)


def the_operation(story: Story) -> StoredOperation:
    (found,) = story.life.operations.values()
    return found


# ── start, failure, restart, cancellation ─────────────────────────────────────


def test_a_submitted_job_asks_for_a_runner() -> None:
    story = a_story()

    assert story.effects == [
        effects.LaunchAttempt(AttemptNumber(1)),
        effects.StartAttempt(AttemptNumber(1)),
    ]
    assert story.kinds() == ["job_submitted", "attempt_launching"]
    assert story.status is JobStatus.STARTING


def test_a_job_runs_when_its_queries_do_and_its_first_checkpoint_is_due_an_interval_later() -> None:
    story = a_running_story()

    assert story.status is JobStatus.RUNNING
    assert story.life.job.next_checkpoint_at == after(11)
    assert story.kinds()[2:] == ["attempt_starting", "attempt_running", "job_running"]


def test_a_heartbeat_with_progress_starts_a_job_whose_report_was_lost() -> None:
    story = a_running_story()
    started = a_story().hears(RunnerRegistered(after(1)))

    assert started.commits(at=2).life.job.job.status is JobStatus.RUNNING
    assert story.commits(at=2).life.attempt.progress_at == after(2)


def test_a_failed_attempt_aborts_its_checkpoints_and_the_job_starts_again_when_due() -> None:
    story = a_running_story().then(events.CheckpointDue(after(11)))
    story.hears(AttemptFailed(after(12), a_failure()))

    assert story.status is JobStatus.RESTARTING
    assert story.life.checkpoints[CheckpointNumber(1)].status is CheckpointStatus.ABORTED
    assert story.life.job.next_checkpoint_at is None

    story.then(RestartDue(after(12.1)))
    assert story.attempt == 1
    story.then(RestartDue(after(60)))
    assert (story.attempt, story.life.job.job.status) == (2, JobStatus.STARTING)
    assert of_type(story.effects, effects.LaunchAttempt)[-1].attempt == 2


def test_history_says_where_a_later_attempt_went_on_and_why_also_after_a_heartbeat() -> None:
    story = a_running_story().hears(AttemptFailed(after(2), a_failure())).then(RestartDue(after(9)))
    why = "checkpoint 1 is at batch 2; attempt 1 is not usable: commits/5 is empty"
    restored = RestoredRegion("out", "checkpoint", batch=2, source=1, why=why)

    story.hears(RunnerRegistered(after(10)), attempt=2)
    story.hears(QueriesStarted(after(11)), attempt=2)  # by a heartbeat, which says nothing of it
    for _ in range(2):
        story.hears(QueriesStarted(after(12), [restored]), attempt=2)

    entries = [one for one in story.history if isinstance(one, HistoryEntry)]
    [entry] = [one for one in entries if one.kind == "attempt_restored"]
    assert (entry.cause, entry.attempt) == (f"out: {why}", 2)
    assert entry.detail["regions"]["out"]["origin"] == "checkpoint"


def test_what_is_said_of_an_attempt_that_was_replaced_changes_nothing() -> None:
    story = a_running_story().hears(AttemptFailed(after(2), a_failure())).then(RestartDue(after(9)))
    before = story.life

    story.hears(QueriesStarted(after(10)), attempt=1)
    story.hears(AttemptFailed(after(10), a_failure()), attempt=1)

    assert story.life == before


def test_news_of_an_attempt_that_never_was_is_refused() -> None:
    with pytest.raises(JobNotFound, match="has no attempt 7"):
        a_running_story().hears(AttemptFinished(after(2)), attempt=7)


def test_a_cancelled_job_ends_with_its_attempt_or_when_the_grace_has_ended() -> None:
    willing = a_running_story().then(JobCancelRequested(after(2), "enough"))
    assert willing.status is JobStatus.CANCELLING
    assert of_type(willing.effects, effects.CancelAttempt)
    assert willing.hears(AttemptCancelled(after(3))).status is JobStatus.CANCELLED

    stubborn = a_running_story().then(JobCancelRequested(after(2), "enough"))
    assert stubborn.hears(GraceEnded(after(41))).status is JobStatus.CANCELLING
    assert stubborn.hears(GraceEnded(after(43))).status is JobStatus.CANCELLED
    assert of_type(stubborn.effects, effects.KillRunner)


def a_paused_story() -> Story:
    story = a_running_story().then(JobPauseRequested(after(2), "a deployment"))
    return story.hears(AttemptCancelled(after(3)))


def test_a_paused_job_keeps_its_runner_and_continues_on_it() -> None:
    story = a_paused_story()
    first, second = AttemptNumber(1), AttemptNumber(2)

    assert of_type(story.effects, effects.PauseAttempt)
    assert story.status is JobStatus.PAUSED
    assert not of_type(story.effects, effects.ReleaseRunner)

    resumed = story.then(JobResumeRequested(after(60), "done"))

    assert resumed.status is JobStatus.STARTING
    assert effects.HandOverRunner(first, second) in story.effects
    assert effects.LaunchAttempt(second) not in story.effects
    assert effects.StartAttempt(second) in story.effects


def test_a_paused_job_whose_runner_is_gone_stays_paused_and_continues_on_another() -> None:
    story = a_paused_story()

    story.then(events.RunnerLeft(after(4), AttemptNumber(1), "killed by signal 9"))
    story.then(RestartDue(after(60)))

    assert story.status is JobStatus.PAUSED
    story.then(JobResumeRequested(after(61), "done"))
    assert effects.LaunchAttempt(AttemptNumber(2)) in story.effects
    assert not of_type(story.effects, effects.HandOverRunner)


def test_a_runner_that_was_killed_while_it_paused_is_not_used_again() -> None:
    story = a_running_story().then(JobPauseRequested(after(2), "a deployment"))

    story.hears(GraceEnded(after(1000)))

    assert story.status is JobStatus.PAUSED
    story.then(JobResumeRequested(after(1001), "done"))
    assert effects.LaunchAttempt(AttemptNumber(2)) in story.effects


def test_the_runner_of_a_paused_job_that_is_cancelled_is_let_go() -> None:
    story = a_paused_story().then(JobCancelRequested(after(5), "enough"))

    assert story.status is JobStatus.CANCELLED
    assert of_type(story.effects, effects.ReleaseRunner)


def test_a_job_is_not_paused_while_an_operation_is_under_way() -> None:
    story = a_running_story().asks(OperationKind.STOP, at=2)

    with pytest.raises(StopUnderWay):
        story.then(JobPauseRequested(after(3), "a deployment"))


def test_an_ended_job_is_neither_paused_nor_resumed() -> None:
    story = a_running_story().hears(AttemptFinished(after(2)))

    for event in (JobPauseRequested, JobResumeRequested):
        with pytest.raises(JobHasEnded):
            story.then(event(after(3), "enough"))


def test_a_job_that_finished_is_not_cancelled() -> None:
    story = a_running_story().hears(AttemptFinished(after(2)))

    assert effects.DiscardAttempts(AttemptNumber(2)) in story.effects
    with pytest.raises(JobHasEnded):
        story.then(JobCancelRequested(after(3), "enough"))


def test_a_runner_that_left_counts_by_its_last_word() -> None:
    word = events.AttemptNews(AttemptNumber(1), AttemptFinished(after(2)))
    story = a_running_story().then(events.RunnerLeft(after(3), AttemptNumber(1), "exit 0", word))

    assert story.status is JobStatus.FINISHED
    assert effects.DismissRunner(AttemptNumber(1), "exit 0") in story.effects
    assert not story.life.has_live_runner


def test_a_runner_that_left_without_a_word_fails_its_attempt() -> None:
    story = a_running_story().then(events.RunnerLeft(after(3), AttemptNumber(1), "SIGKILL"))

    failure = story.life.attempt.attempt.failure
    assert failure is not None
    assert failure.message == "the runner's process ended: SIGKILL"


def test_a_launch_that_fails_is_a_failure_of_the_attempt() -> None:
    story = a_story().then(events.LaunchFailed(after(1), AttemptNumber(1), "no memory"))

    assert story.status is JobStatus.RESTARTING
    assert story.life.job.job.reason == "no runner could be started: no memory"


def test_only_a_runner_whose_attempt_has_ended_is_given_up() -> None:
    given_up = events.RunnerGivenUp(after(2), AttemptNumber(1), "far")
    story = a_running_story()

    assert story.then(given_up).last == (story.life, (), (), None)
    story.hears(RunnerWentSilent(after(2), timedelta(seconds=30))).then(given_up)
    assert of_type(story.effects, effects.DismissRunner)


# ── checkpoints ───────────────────────────────────────────────────────────────


def test_a_periodic_checkpoint_is_taken_when_due_and_not_while_one_is_under_way() -> None:
    story = a_running_story().then(events.CheckpointDue(after(10)))
    assert not story.life.checkpoints

    story.then(events.CheckpointDue(after(11)), events.CheckpointDue(after(31)))
    assert list(story.life.checkpoints) == [1]
    assert len(story.life.checkpoints[CheckpointNumber(1)].awaiting) == 4
    assert story.life.job.next_checkpoint_at == after(21)
    assert isinstance(story.history[-1], Announcement)


def test_the_final_checkpoint_of_a_job_whose_input_has_ended_is_due_at_once() -> None:
    story = a_running_story().hears(InputEnded(after(3))).then(events.CheckpointDue(after(3)))
    assert list(story.life.checkpoints) == [1]

    late = a_running_story().then(events.CheckpointDue(after(11))).hears(InputEnded(after(12)))
    late.then(events.CheckpointDue(after(12)))
    assert list(late.life.checkpoints) == [1]  # one at a time
    late.acks(at=13).then(events.CheckpointDue(after(13)))
    assert list(late.life.checkpoints) == [1, 2]


def test_the_end_of_the_input_of_a_replaced_attempt_or_a_job_on_its_way_out_means_nothing() -> None:
    replaced = a_running_story().hears(AttemptFailed(after(2), a_failure()))
    replaced.then(RestartDue(after(9))).hears(InputEnded(after(10)), attempt=1)
    cancelled = a_running_story().then(JobCancelRequested(after(2), "enough"))
    cancelled.hears(InputEnded(after(3)))

    for story in (replaced, cancelled):
        assert story.life.job.next_checkpoint_at is None


def test_a_checkpoint_completes_once() -> None:
    story = a_running_story().then(events.CheckpointDue(after(11))).acks(at=12)
    assert story.last is not None
    assert story.last.outcome is AckOutcome.COMPLETED
    assert story.life.restorable == (1,)

    again = story.acks(at=13, number=1).last
    assert again is not None
    assert (again.outcome, again.effects) == (AckOutcome.ALREADY_RECORDED, ())


def test_old_checkpoints_go_but_not_what_another_job_starts_from() -> None:
    story = a_running_story()
    story.life = replace(story.life, pinned=frozenset([CheckpointNumber(1)]))
    for number in (1, 2, 3, 4):
        story.then(events.CheckpointRequested(after(10 * number))).acks(at=10 * number + 1)

    assert story.life.restorable == (1, 3, 4)
    assert of_type(story.effects, effects.DiscardCheckpoint) == [
        effects.DiscardCheckpoint(CheckpointNumber(2), was_completed=True)
    ]


def test_checkpoints_are_in_the_order_of_time_whoever_read_the_clock_first() -> None:
    story = a_running_story().then(events.CheckpointDue(after(20)))
    story.asks(OperationKind.SAVEPOINT, at=19.9)  # waited for the lock of the job
    first, second = (story.life.checkpoints[CheckpointNumber(number)] for number in (1, 2))

    assert first.triggered_at == second.triggered_at == after(20)
    running_at = story.life.attempt.attempt.running_at
    assert running_at is not None
    early = a_running_story().then(events.CheckpointRequested(running_at - timedelta(seconds=1)))
    assert early.life.checkpoints[CheckpointNumber(1)].triggered_at == running_at


def test_checkpoints_that_fail_again_and_again_fail_the_attempt() -> None:
    document = a_document(checkpointing={"interval": "10s", "tolerable_failures": 1})
    story = a_running_story(document).then(events.CheckpointDue(after(11)))
    story.then(decline(1, 12, AbortReason.DECLINED_STORAGE), events.CheckpointDue(after(31)))
    assert story.life.job.failed_checkpoints == 1

    expired = events.CheckpointNews(CheckpointNumber(2), CheckpointExpired(after(700)))
    story.then(expired)
    assert story.status is JobStatus.RESTARTING
    assert "(1 failures are tolerated)" in story.life.job.job.reason


def test_a_decline_that_is_news_of_the_attempt_does_not_count() -> None:
    story = a_running_story().then(events.CheckpointDue(after(11)))
    story.then(decline(1, 12, AbortReason.DECLINED_NOT_RUNNING))

    assert story.life.job.failed_checkpoints == 0


def test_requests_that_the_state_forbids_are_refused() -> None:
    with pytest.raises(JobNotRunning):
        a_story().then(events.CheckpointRequested(after(1)))
    with pytest.raises(CheckpointNotFound):
        a_running_story().then(decline(9, 1, AbortReason.DECLINED_STORAGE))
    with pytest.raises(NothingToChange):
        a_running_story().asks(OperationKind.RESCALE, at=2, parallelism=2)
    with pytest.raises(StopUnderWay, match="is being stopped already"):
        a_running_story().asks(OperationKind.STOP, at=2).asks(OperationKind.RESCALE, at=3)
    with pytest.raises(UnsupportedRequest):
        a_running_story(a_batch_document()).asks(OperationKind.SAVEPOINT, at=2)


def a_batch_document() -> dict[str, object]:
    document = a_document(mode="batch")
    document["vertices"][0]["rows"] = 100
    return document


# ── savepoints and stops ──────────────────────────────────────────────────────


def test_a_savepoint_is_complete_with_its_checkpoint_and_retention_leaves_it_alone() -> None:
    story = a_running_story().asks(OperationKind.SAVEPOINT, at=2).acks(at=3)

    (savepoint,) = story.life.savepoints.values()
    assert savepoint.status is SavepointStatus.COMPLETED
    assert the_operation(story).operation.status is OperationStatus.COMPLETED
    assert story.life.restorable == ()
    assert story.status is JobStatus.RUNNING


def test_an_ack_of_a_savepoint_that_failed_deletes_it() -> None:
    story = a_running_story().asks(OperationKind.SAVEPOINT, at=2)
    story.then(decline(1, 3, AbortReason.DECLINED_STORAGE)).acks(at=4, number=1)

    (savepoint,) = story.life.savepoints.values()
    assert savepoint.status is SavepointStatus.FAILED
    assert effects.DisposeSavepoint(savepoint.directory) in story.effects


def test_a_stop_ends_the_job_however_the_attempt_ends_after_its_savepoint() -> None:
    for ended in (AttemptStopped(after(4), "x"), AttemptFailed(after(4), a_failure())):
        story = a_running_story().asks(OperationKind.STOP, at=2).acks(at=3).hears(ended)

        assert story.status is JobStatus.FINISHED
        assert the_operation(story).operation.status is OperationStatus.COMPLETED


def test_a_stop_whose_attempt_fails_before_the_savepoint_has_failed_and_the_job_restarts() -> None:
    story = a_running_story().asks(OperationKind.STOP, at=2)
    story.hears(AttemptFailed(after(3), a_failure()))

    assert the_operation(story).operation.status is OperationStatus.FAILED
    assert story.status is JobStatus.RESTARTING


def test_no_periodic_checkpoint_is_taken_of_a_job_on_its_way_out() -> None:
    story = a_running_story().asks(OperationKind.STOP, at=2).acks(at=3)
    story.then(events.CheckpointDue(after(99)))

    assert list(story.life.checkpoints) == [1]


# ── rescale and upgrade ───────────────────────────────────────────────────────


def a_rescaled_story() -> Story:
    """Stopped with its savepoint, and started with parallelism 4."""
    return a_running_story().asks(OperationKind.RESCALE, at=2).acks(at=3).stops(at=4)


def test_a_rescale_keeps_the_runner_and_is_complete_with_its_first_checkpoint() -> None:
    story = a_rescaled_story()
    assert (story.attempt, story.life.job.parallelism, story.life.job.base_attempt) == (2, 4, 2)
    assert effects.HandOverRunner(AttemptNumber(1), AttemptNumber(2)) in story.effects
    assert not of_type(story.effects, effects.ReleaseRunner)

    story.restores(at=5).commits(at=6).then(events.CheckpointDue(after(6))).acks(at=7)
    assert the_operation(story).operation.status is OperationStatus.COMPLETED
    (savepoint,) = story.life.savepoints.values()
    assert savepoint.status is SavepointStatus.DISPOSED  # the job claimed it
    assert story.life.job.restore_point is not None
    assert not story.life.job.restore_point.claim


def test_a_rescaled_job_that_has_committed_nothing_has_proved_nothing() -> None:
    story = a_rescaled_story().restores(at=5).then(events.CheckpointDue(after(6))).acks(at=7)

    assert the_operation(story).operation.status is OperationStatus.IN_PROGRESS
    assert story.life.job.next_checkpoint_at == after(8)


def test_a_rescaled_job_proves_itself_by_a_checkpoint_after_its_first_batch() -> None:
    story = a_rescaled_story().restores(at=5).then(events.CheckpointDue(after(5)))
    [barrier] = [one for one in of_type(story.effects, effects.SendBarrier) if one.attempt == 2]
    assert barrier.awaits_new_batch

    number = story.life.checkpoints_under_way[0].number
    ack = an_ack(story.life, number, after(6), has_new_batches=True)
    assert outcome_of(story.then(ack)) is AckOutcome.COMPLETED
    assert the_operation(story).operation.status is OperationStatus.COMPLETED


def test_a_periodic_checkpoint_of_a_job_that_was_not_changed_awaits_no_batch() -> None:
    story = a_running_story().then(events.CheckpointDue(after(11)))
    [barrier] = of_type(story.effects, effects.SendBarrier)
    assert not barrier.awaits_new_batch


def test_output_that_a_roll_back_would_withdraw_is_not_shown_yet() -> None:
    story = a_rescaled_story().restores(at=5).then(events.CheckpointDue(after(6)))
    told = len(story.effects)
    assert outcome_of(story.acks(at=7)) is AckOutcome.RECORDED
    assert not of_type(story.effects[told:], effects.AnnounceCompletion)

    story.commits(at=8).then(events.CheckpointDue(after(8)))
    assert outcome_of(story.acks(at=9)) is AckOutcome.COMPLETED
    assert of_type(story.effects[told:], effects.AnnounceCompletion)


def test_a_rescaled_job_whose_regions_have_no_input_left_has_proved_itself() -> None:
    story = a_rescaled_story().restores(at=5).hears(InputEnded(after(6)), attempt=2)
    read = RegionProgress(region="out", batch=3, batches=0, is_active=False, is_idle=True)
    attempt = AttemptNumber(2)
    story.then(events.HeartbeatReceived(after(7), attempt, attempt, [read]))

    story.then(events.CheckpointDue(after(7)))

    assert outcome_of(story.acks(at=8)) is AckOutcome.COMPLETED
    assert the_operation(story).operation.status is OperationStatus.COMPLETED


def outcome_of(story: Story) -> AckOutcome | None:
    assert story.last is not None
    return story.last.outcome


def test_a_rescale_that_fails_goes_back_and_its_savepoint_stays() -> None:
    for moment in (AttemptFailed(after(5), a_failure("no space")),):
        story = a_rescaled_story().hears(moment)

        assert (story.attempt, story.life.job.parallelism) == (3, 2)
        assert story.status is JobStatus.STARTING
        assert story.life.job.base_attempt == 3
        assert story.life.job.job.reason == "rescale rolled back: no space"
        assert the_operation(story).operation.status is OperationStatus.ROLLED_BACK
        (savepoint,) = story.life.savepoints.values()
        assert savepoint.status is SavepointStatus.COMPLETED
        assert story.life.job.restore_point is not None
        assert story.life.job.restore_point.root == savepoint.directory


def test_a_runner_that_died_after_its_stop_is_not_given_the_next_attempt() -> None:
    story = a_running_story().asks(OperationKind.RESCALE, at=2).acks(at=3)
    word = events.AttemptNews(AttemptNumber(1), AttemptStopped(after(4), "stopped"))
    story.then(events.RunnerLeft(after(5), AttemptNumber(1), "SIGKILL", word))

    assert (story.attempt, story.life.job.parallelism) == (2, 4)
    assert not of_type(story.effects, effects.HandOverRunner)
    assert effects.LaunchAttempt(AttemptNumber(2)) in story.effects


def test_a_rescale_that_waits_for_too_long_is_ended() -> None:
    story = a_rescaled_story()
    overdue = events.OperationOverdue(after(100_000), the_operation(story).id)
    story.then(replace(overdue, at=after(5)))
    assert story.attempt == 2
    story.then(overdue)

    assert the_operation(story).operation.status is OperationStatus.ROLLED_BACK
    assert story.attempt == 3


def test_a_job_that_is_cancelled_gives_its_rescale_up() -> None:
    story = a_rescaled_story().restores(at=5).then(JobCancelRequested(after(6), "enough"))
    story.hears(AttemptCancelled(after(7)))

    assert the_operation(story).operation.status is OperationStatus.FAILED
    assert story.status is JobStatus.CANCELLED


def test_an_upgrade_goes_on_as_the_next_revision_and_leaves_the_savepoint_to_the_user() -> None:
    wanted = a_document(name="better", checkpointing={"interval": "10s"})
    story = a_running_story().asks(OperationKind.UPGRADE, at=2, document=wanted)
    story.acks(at=3).stops(at=4).restores(at=5).commits(at=6)
    story.then(events.CheckpointDue(after(6))).acks(at=7)

    assert (story.life.job.revision, story.life.job.graph.name) == (2, "better")
    assert the_operation(story).operation.status is OperationStatus.COMPLETED
    (savepoint,) = story.life.savepoints.values()
    assert savepoint.status is SavepointStatus.COMPLETED


def test_an_upgrade_to_another_kind_of_runner_does_not_keep_the_runner() -> None:
    wanted = a_document(execution={"runner": "shared"})
    story = a_running_story().asks(OperationKind.UPGRADE, at=2, document=wanted)
    story.acks(at=3).stops(at=4)

    assert story.attempt == 2
    assert not of_type(story.effects, effects.HandOverRunner)
    assert effects.LaunchAttempt(AttemptNumber(2)) in story.effects
    [stop] = of_type(story.effects, effects.StopAttempt)
    assert not stop.keep_runner


def test_a_change_of_a_job_that_has_no_more_input_is_complete() -> None:
    story = a_rescaled_story().hears(AttemptFinished(after(5)))

    assert the_operation(story).operation.status is OperationStatus.COMPLETED
    assert story.status is JobStatus.FINISHED


def test_a_request_with_a_known_id_is_the_same_request_or_refused() -> None:
    story = a_running_story().asks(OperationKind.RESCALE, at=2)
    known, job = the_operation(story), story.life.job
    check_repetition(known, job.id, OperationKind.RESCALE, Revision(1, job.document, 4))

    with pytest.raises(IdempotencyKeyReused, match="another rescale"):
        check_repetition(known, job.id, OperationKind.RESCALE, Revision(1, job.document, 8))
    with pytest.raises(IdempotencyKeyReused, match="another request"):
        check_repetition(known, job.id, OperationKind.STOP)


# ── what a job was started from ───────────────────────────────────────────────

CLAIMED = RestorePoint(
    "file:///other", "m", "checkpoint 3", JobId(UUID(int=9)).hex, checkpoint=3, claim=True
)


def test_a_claimed_checkpoint_of_another_job_goes_with_the_first_checkpoint() -> None:
    story = a_running_story(restore_point=CLAIMED).then(events.CheckpointRequested(after(2)))
    story.acks(at=3)

    let_go = effects.LetRestorePointGo(CLAIMED.root, JobId(UUID(int=9)).hex, CheckpointNumber(3))
    assert of_type(story.effects, effects.LetRestorePointGo) == [let_go]
    assert story.life.job.restore_point == replace(CLAIMED, claim=False)


def test_what_another_job_needs_too_stays() -> None:
    story = a_running_story(restore_point=CLAIMED)
    story.life = replace(story.life, shares_restore_point=True)
    story.then(events.CheckpointRequested(after(2))).acks(at=3)

    assert not of_type(story.effects, effects.LetRestorePointGo)
    assert story.life.job.restore_point == CLAIMED


# ── health ────────────────────────────────────────────────────────────────────


def test_the_health_of_a_running_job_is_noted_when_it_changes() -> None:
    story = a_running_story()
    examined = events.HealthExamined(after(30), LIMITS, after(0), after(2), None)
    story.then(examined, replace(examined, at=after(31)))

    assert (story.life.job.health, story.life.job.health_since) == (Health.DEGRADED, after(30))
    assert story.kinds().count("job_degraded") == 1
    story.then(replace(examined, at=after(32), heartbeat_at=after(32)))
    assert story.kinds()[-1] == "job_healthy"


def test_only_a_running_job_has_a_health() -> None:
    story = a_story().then(events.HealthExamined(after(99), LIMITS, after(0), None, None))

    assert story.life.job.health is Health.HEALTHY
