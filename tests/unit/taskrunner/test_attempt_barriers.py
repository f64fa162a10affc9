"""How an attempt answers barriers: while it runs, and on its way to an end."""

import pytest

from jobmanager.core.life.checkpoint import AckOutcome
from jobmanager.protocol.messages import (
    AttemptCancelledReport,
    AttemptFailedReport,
    Barrier,
    CheckpointAborted,
    CheckpointCompleted,
    SavepointTarget,
)
from taskrunner.core.attempt import events, machine
from taskrunner.core.attempt.events import BatchesOfRegion, BatchesSeen, TimePassed
from taskrunner.core.attempt.instructions import (
    AskRegionsToStop,
    BreakOffSnapshot,
    End,
    SendAcks,
    SendDecline,
    ShowOutput,
    StopRegionsAtOnce,
    StopWatching,
    TakeSnapshot,
    WatchBatches,
)
from tests.unit.taskrunner.attempts import (
    ENDED,
    FAILED,
    NEVER,
    OUT,
    PREPARED,
    RAW,
    REPLACED,
    SAVEPOINT,
    STARTED,
    STOPPED,
    a_barrier,
    a_cancel,
    a_stop,
    acks,
    batches_seen,
    ending,
    preparing,
    running,
    saving,
    seen,
    stopping,
    taken,
)


def stop_message(checkpoint: int = 5, **fields: bool) -> TakeSnapshot:
    return TakeSnapshot(a_stop(checkpoint, **fields).stop)


def declined(checkpoint: int, reason: str, detail: str, region: str | None = None) -> SendDecline:
    return SendDecline(checkpoint, reason, detail, region)  # type: ignore[arg-type]


def acked(checkpoint: int, outcome: AckOutcome = AckOutcome.COMPLETED) -> events.AcksAnswered:
    return events.AcksAnswered(checkpoint, outcome)


# ── barriers ──────────────────────────────────────────────────────────────────


def test_a_barrier_is_met_by_the_commit_of_the_batch_that_was_under_way() -> None:
    attempt = running()

    assert attempt.tell(a_barrier(1)) == [WatchBatches(1)]
    assert attempt.tell(seen(1, begun=4, committed=3)) == []
    assert attempt.tell(seen(1, begun=5, committed=4)) == [
        StopWatching(1),
        TakeSnapshot(Barrier(checkpoint=1, expires_at=NEVER)),
    ]
    assert attempt.tell(taken(1)) == [SendAcks(acks(1), deadline=60)]
    assert attempt.tell(acked(1)) == [ShowOutput(1, {"out": 7, "raw": 7})]


@pytest.mark.parametrize(("begun", "committed"), [(None, None), (3, 3)])
def test_a_barrier_is_met_at_once_where_no_batch_is_under_way(
    begun: int | None, committed: int | None
) -> None:
    attempt = running()
    attempt.tell(a_barrier(1))

    assert len(attempt.tell(seen(1, begun, committed))) == 2


def test_a_barrier_waits_for_every_region() -> None:
    attempt = running()
    attempt.tell(a_barrier(1))
    done, busy = BatchesOfRegion(3, 3, is_alive=True), BatchesOfRegion(3, 2, is_alive=True)

    assert attempt.tell(batches_seen(1, {OUT: done, RAW: busy})) == []


def test_a_barrier_that_awaits_a_new_batch_waits_for_it_in_every_region() -> None:
    attempt = running()
    assert attempt.tell(a_barrier(1, awaits_new_batch=True)) == [WatchBatches(1, True)]

    def seen_by(out: BatchesOfRegion) -> BatchesSeen:
        return batches_seen(1, {OUT: out, RAW: no_input})

    no_input = BatchesOfRegion(3, 3, is_alive=True, has_new_batch=True)
    restored = BatchesOfRegion(3, 3, is_alive=True)
    committed = BatchesOfRegion(3, 4, is_alive=True, has_new_batch=True)
    assert attempt.tell(seen_by(restored)) == []
    assert len(attempt.tell(seen_by(committed))) == 2
    [send] = attempt.tell(taken(1))
    assert isinstance(send, SendAcks)
    assert send.acks.has_new_batches


def test_a_barrier_that_awaits_a_new_batch_is_declined_when_a_query_ends_without_one() -> None:
    attempt = running()
    attempt.tell(a_barrier(1, awaits_new_batch=True))

    assert attempt.tell(seen(1, begun=3, committed=3, is_alive=False)) == [
        StopWatching(1),
        declined(1, "not_running", "the query has ended in a batch", "out"),
    ]


def test_a_query_that_ends_in_its_batch_declines_the_barrier() -> None:
    attempt = running()
    attempt.tell(a_barrier(1), seen(1, begun=4, committed=3))

    assert attempt.tell(seen(1, begun=4, committed=3, is_alive=False)) == [
        StopWatching(1),
        declined(1, "not_running", "the query has ended in a batch", "out"),
    ]


def test_a_query_that_has_ended_after_its_batch_meets_the_barrier() -> None:
    attempt = running()
    attempt.tell(a_barrier(1), seen(1, begun=4, committed=3))

    assert len(attempt.tell(seen(1, begun=4, committed=4, is_alive=False))) == 2


def test_barriers_before_the_start_are_kept_until_the_queries_run() -> None:
    attempt = preparing()
    attempt.tell(a_barrier(1), a_barrier(2))

    attempt.tell(PREPARED)
    assert attempt.tell(STARTED)[-1] == WatchBatches(1)


def test_barriers_are_answered_one_after_the_other() -> None:
    attempt = running()
    attempt.tell(a_barrier(1))
    assert attempt.tell(a_barrier(2)) == []
    assert attempt.tell(seen(1, 3, 3), a_barrier(3)) == []
    assert attempt.tell(taken(1)) == [SendAcks(acks(1), deadline=60)]

    assert attempt.tell(events.AcksNotDelivered(1, "no route")) == [WatchBatches(2)]


def test_a_barrier_that_is_repeated_is_answered_once() -> None:
    attempt = running()
    attempt.tell(a_barrier(1), seen(1, 3, 3), taken(1), acked(1))

    assert attempt.tell(a_barrier(1)) == []


def test_a_barrier_that_expires_is_declined_whether_it_waits_for_a_batch_or_its_turn() -> None:
    attempt = running()
    attempt.tell(a_barrier(1, seconds=10), a_barrier(2, seconds=10), a_barrier(3, seconds=20))
    assert machine.next_deadline(attempt.state) == 10

    assert attempt.tell(TimePassed(10)) == [
        StopWatching(1),
        declined(1, "no_boundary_in_time", "a batch took longer than the checkpoint may"),
        declined(2, "no_boundary_in_time", "the checkpoint expired before its turn came"),
        WatchBatches(3),
    ]
    assert machine.next_deadline(attempt.state) == 20


def test_a_barrier_that_is_aborted_is_declined() -> None:
    attempt = running()
    attempt.tell(a_barrier(1), a_barrier(2))

    assert attempt.tell(CheckpointAborted(checkpoint=2, reason="declined")) == [
        declined(2, "no_boundary_in_time", "the checkpoint was aborted")
    ]
    assert attempt.tell(CheckpointAborted(checkpoint=1, reason="declined")) == [
        StopWatching(1),
        declined(1, "no_boundary_in_time", "the checkpoint was aborted"),
    ]


def test_a_snapshot_whose_checkpoint_is_aborted_is_broken_off_and_the_next_is_begun() -> None:
    attempt = running()
    attempt.tell(a_barrier(1), seen(1, 3, 3), a_barrier(2))

    aborted = CheckpointAborted(checkpoint=1, reason="expired")
    assert attempt.tell(aborted) == [BreakOffSnapshot(1)]
    broken_off = events.SnapshotFailed(1, "no_boundary_in_time", "broken off")
    assert attempt.tell(broken_off) == [
        declined(1, "no_boundary_in_time", "broken off"),
        WatchBatches(2),
    ]


def test_a_checkpoint_that_is_aborted_while_another_is_uploaded_breaks_nothing_off() -> None:
    attempt = running()
    attempt.tell(a_barrier(1), seen(1, 3, 3), a_barrier(2))

    (decline,) = attempt.tell(CheckpointAborted(checkpoint=2, reason="expired"))
    assert isinstance(decline, SendDecline)


def test_a_snapshot_that_was_just_done_when_it_was_to_be_broken_off_is_acked_too_late() -> None:
    attempt = running()
    attempt.tell(a_barrier(1), seen(1, 3, 3))

    attempt.tell(CheckpointAborted(checkpoint=1, reason="expired"))
    assert attempt.tell(taken(1)) == [SendAcks(acks(1), deadline=60)]
    assert attempt.tell(acked(1, AckOutcome.TOO_LATE)) == []
    assert attempt.tell(CheckpointCompleted(checkpoint=1)) == []


def test_a_snapshot_that_fails_declines_the_barrier_and_the_next_is_begun() -> None:
    attempt = running()
    attempt.tell(a_barrier(1), seen(1, 3, 3), a_barrier(2))

    assert attempt.tell(events.SnapshotFailed(1, "storage", "no space")) == [
        declined(1, "storage", "no space"),
        WatchBatches(2),
    ]


def test_a_log_that_cannot_be_read_declines_the_barrier() -> None:
    attempt = running()
    attempt.tell(a_barrier(1))

    assert attempt.tell(events.SnapshotFailed(1, "storage", "no such file")) == [
        StopWatching(1),
        declined(1, "storage", "no such file"),
    ]


def test_acks_that_were_not_delivered_may_have_been_and_then_their_output_is_shown() -> None:
    attempt = running()
    attempt.tell(a_barrier(1), seen(1, 3, 3), taken(1), events.AcksNotDelivered(1, "no route"))

    assert attempt.tell(CheckpointCompleted(checkpoint=1)) == [ShowOutput(1, {"out": 7, "raw": 7})]
    assert attempt.tell(CheckpointCompleted(checkpoint=1)) == []


def test_output_is_shown_once_though_answer_and_directive_both_say_that_it_may_be() -> None:
    attempt = running()
    attempt.tell(a_barrier(1), seen(1, 3, 3), taken(1))

    assert len(attempt.tell(CheckpointCompleted(checkpoint=1))) == 1
    assert attempt.tell(acked(1)) == []


def test_a_completed_checkpoint_leaves_nothing_of_older_ones_to_show() -> None:
    attempt = running()
    attempt.tell(a_barrier(1), seen(1, 3, 3), taken(1, 3), acked(1, AckOutcome.RECORDED))
    attempt.tell(a_barrier(2), seen(2, 4, 4), taken(2, 4), acked(2, AckOutcome.COMPLETED))

    assert attempt.tell(CheckpointCompleted(checkpoint=1)) == []


@pytest.mark.parametrize(
    "answer", [acked(1, AckOutcome.SUPERSEDED), events.Replaced("the fence says so")]
)
def test_acks_that_are_superseded_end_the_attempt_without_a_word(answer: events.Event) -> None:
    attempt = running()
    attempt.tell(a_barrier(1), seen(1, 3, 3), taken(1))

    assert attempt.tell(answer) == [StopRegionsAtOnce(), End()]


def test_a_decline_that_is_superseded_ends_the_attempt_without_a_word() -> None:
    attempt = stopping()
    attempt.tell(a_barrier(6))

    assert attempt.tell(events.DeclineAnswered(6, is_superseded=True)) == [
        StopRegionsAtOnce(),
        End(),
    ]


def test_a_snapshot_that_the_fence_forbids_is_declined_and_ends_the_attempt() -> None:
    attempt = running()
    attempt.tell(a_barrier(1), seen(1, 3, 3))

    assert attempt.tell(events.SnapshotFailed(1, "superseded", "by attempt 2")) == [
        declined(1, "superseded", "by attempt 2"),
        StopRegionsAtOnce(),
        End(),
    ]
    assert attempt.endings == []


# ── barriers and endings ──────────────────────────────────────────────────────


def test_a_barrier_that_waits_is_declined_by_a_stop_and_so_is_any_that_comes() -> None:
    attempt = running()
    attempt.tell(a_barrier(1), a_barrier(2))

    assert attempt.tell(a_stop(3)) == [
        StopWatching(1),
        declined(1, "not_running", "the job is being stopped"),
        declined(2, "not_running", "the job is being stopped"),
        AskRegionsToStop(),
    ]
    assert attempt.tell(a_barrier(4)) == [declined(4, "not_running", "the job is being stopped")]


def test_a_stop_lets_a_snapshot_finish_before_it_touches_a_query() -> None:
    attempt = running()
    attempt.tell(a_barrier(1), seen(1, 3, 3))

    assert attempt.tell(a_stop(5, drain=True)) == []
    assert attempt.tell(taken(1)) == [SendAcks(acks(1), deadline=60), AskRegionsToStop()]
    attempt.tell(*ENDED, events.RegionsDrained())
    assert attempt.tell(STOPPED) == [], "one answer after the other"
    assert attempt.tell(acked(1))[1:] == [stop_message(drain=True)]


def test_a_stop_that_expires_while_it_waits_for_a_snapshot_leaves_the_job_alone() -> None:
    attempt = running()
    attempt.tell(a_barrier(1), seen(1, 3, 3), a_stop(5, seconds=10))

    (decline,) = attempt.tell(TimePassed(10))

    assert isinstance(decline, SendDecline)
    assert attempt.phase == "Running"


def test_a_failure_is_reported_before_the_upload_under_way_has_ended() -> None:
    attempt = running()
    attempt.tell(a_barrier(1), seen(1, 3, 3), a_barrier(2))

    assert attempt.tell(FAILED) == [BreakOffSnapshot(1), StopRegionsAtOnce()]
    assert attempt.endings == []  # something may still run
    attempt.tell(STOPPED)

    assert attempt.endings == [AttemptFailedReport(failure=FAILED.failure)]
    assert attempt.tell(taken(1)) == []  # nothing is acked after that


def test_acks_that_are_being_sent_go_before_a_failure() -> None:
    attempt = running()
    attempt.tell(a_barrier(1), seen(1, 3, 3), taken(1), a_barrier(2))

    assert attempt.tell(FAILED) == [
        declined(2, "not_running", "the attempt is ending"),
        StopRegionsAtOnce(),
    ]
    attempt.tell(STOPPED, events.DeclineAnswered(2), acked(1))
    assert attempt.endings == []
    attempt.tell(events.OutputShown(1))

    assert attempt.endings == [AttemptFailedReport(failure=FAILED.failure)]


def test_who_is_replaced_breaks_off_what_it_uploads() -> None:
    attempt = running()
    attempt.tell(a_barrier(1), seen(1, 3, 3))

    assert attempt.tell(REPLACED) == [BreakOffSnapshot(1), StopRegionsAtOnce(), End()]


def test_a_savepoint_that_is_not_confirmed_in_time_is_not_uploaded_any_longer() -> None:
    attempt = saving()

    late = attempt.tell(TimePassed(1_000))
    assert BreakOffSnapshot(5) in late
    assert isinstance(attempt.endings[0], AttemptFailedReport)


def test_a_barrier_that_comes_when_the_ending_is_decided_is_left_to_the_jobmanager() -> None:
    assert ending().tell(a_barrier(1)) == []


def test_a_barrier_that_had_come_before_a_cancel_is_still_met() -> None:
    attempt = running()
    attempt.tell(a_barrier(1), a_barrier(2), seen(1, 4, 3), a_cancel())

    assert len(attempt.tell(seen(1, 4, 4, is_alive=False))) == 2
    assert attempt.tell(a_barrier(3)) == [declined(3, "not_running", "the job is being cancelled")]
    assert attempt.tell(taken(1), acked(1))[-1] == WatchBatches(2)


def test_a_cancel_goes_before_a_stop_whose_savepoint_is_not_begun() -> None:
    attempt = stopping()

    assert attempt.tell(a_cancel()) == [
        declined(5, "not_running", "the job is being cancelled"),
        AskRegionsToStop(),
    ]


def test_a_cancel_lets_a_savepoint_that_is_begun_be_answered() -> None:
    attempt = saving()

    assert attempt.tell(a_cancel()) == [AskRegionsToStop()]
    assert attempt.tell(taken(5)) == [SendAcks(acks(5), deadline=60)]
    attempt.tell(*ENDED, acked(5), events.OutputShown(5))

    (report,) = attempt.endings
    assert isinstance(report, AttemptCancelledReport)


# ── what a savepoint shows ────────────────────────────────────────────────────


def a_savepoint(checkpoint: int) -> events.BarrierArrived:
    """A savepoint that the job runs on from."""
    arrived = a_barrier(checkpoint)
    target = SavepointTarget(id=SAVEPOINT, directory="file:/savepoints/one")
    savepoint = arrived.barrier.model_copy(update={"savepoint": target})
    return events.BarrierArrived(savepoint, arrived.time_left)


def test_a_savepoint_that_the_job_runs_on_from_shows_nothing() -> None:
    """No recovery looks at it: one that goes back behind it would withdraw what was shown."""
    attempt = running()
    attempt.tell(a_savepoint(1), seen(1, 3, 3), taken(1))
    assert attempt.tell(acked(1)) == []
    assert attempt.tell(CheckpointCompleted(checkpoint=1)) == []


def test_a_checkpoint_that_is_confirmed_after_a_later_savepoint_still_shows() -> None:
    attempt = running()
    attempt.tell(a_barrier(1), seen(1, 3, 3), taken(1, 3))
    attempt.tell(events.AcksNotDelivered(1, "the answer was lost"))
    attempt.tell(a_savepoint(2), seen(2, 7, 7), taken(2, 7), acked(2))
    shown = attempt.tell(CheckpointCompleted(checkpoint=1))
    assert shown == [ShowOutput(1, {"out": 3, "raw": 3})]
