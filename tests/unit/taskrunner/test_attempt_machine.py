"""The attempt as a machine: what it does from the start to each of its ends."""

from dataclasses import replace
from datetime import timedelta

import pytest

from jobmanager.core.life.checkpoint import AckOutcome
from jobmanager.protocol.messages import (
    AttemptCancelledReport,
    AttemptFailedReport,
    AttemptFinishedReport,
    AttemptPrepared,
    AttemptRunning,
    AttemptStoppedReport,
    CheckpointAborted,
    CheckpointCompleted,
)
from taskrunner.core.attempt import events, machine
from taskrunner.core.attempt.events import TimePassed
from taskrunner.core.attempt.instructions import (
    AskRegionsToStop,
    DrainRegions,
    End,
    Prepare,
    Report,
    SendAcks,
    SendDecline,
    ShowAllOutput,
    ShowOutput,
    StartQueries,
    StopRegionsAtOnce,
    TakeSnapshot,
)
from tests.unit.taskrunner.attempts import (
    DISMISSED,
    ENDED,
    FAILED,
    FINISHED,
    PREPARED,
    RAW,
    REGIONS,
    REPLACED,
    SAVEPOINT,
    STARTED,
    STOPPED,
    Driven,
    a_barrier,
    a_cancel,
    a_stop,
    cancelling,
    ending,
    failure,
    preparing,
    running,
    saving,
    starting,
    stopping,
    taken,
)


def stop_message(checkpoint: int = 5, **fields: bool) -> TakeSnapshot:
    return TakeSnapshot(a_stop(checkpoint, **fields).stop)


def declined(checkpoint: int, reason: str, detail: str, region: str | None = None) -> SendDecline:
    return SendDecline(checkpoint, reason, detail, region)  # type: ignore[arg-type]


def acked(checkpoint: int, outcome: AckOutcome = AckOutcome.COMPLETED) -> events.AcksAnswered:
    return events.AcksAnswered(checkpoint, outcome)


# ── from the start to the end ─────────────────────────────────────────────────


def test_an_attempt_prepares_starts_and_says_so() -> None:
    attempt = Driven()

    attempt.tell(PREPARED, STARTED)

    assert attempt.done == [
        Prepare(),
        Report(AttemptPrepared()),
        StartQueries(),
        Report(AttemptRunning(restored=[])),
    ]


def test_a_job_whose_queries_all_finish_shows_everything_before_it_says_so() -> None:
    attempt = running()

    assert attempt.tell(FINISHED[0]) == []
    assert attempt.tell(FINISHED[1]) == [StopRegionsAtOnce()]
    assert attempt.tell(STOPPED) == [ShowAllOutput()]
    assert attempt.tell(events.AllOutputShown()) == [Report(AttemptFinishedReport()), End()]


def test_a_finished_job_whose_output_cannot_be_shown_has_failed() -> None:
    attempt = running()
    attempt.tell(*FINISHED, STOPPED)

    attempt.tell(events.AllOutputNotShown(failure("no space")))

    assert attempt.endings == [AttemptFailedReport(failure=failure("no space"))]


def test_a_failure_is_reported_when_nothing_runs_any_more() -> None:
    attempt = running()

    assert attempt.tell(FAILED) == [StopRegionsAtOnce()]
    assert attempt.tell(STOPPED) == [Report(AttemptFailedReport(failure=FAILED.failure)), End()]


def test_what_cannot_be_prepared_fails_at_once_since_nothing_runs() -> None:
    attempt = preparing()

    assert attempt.tell(events.PreparationFailed(failure())) == [
        Report(AttemptFailedReport(failure=failure())),
        End(),
    ]


def test_queries_that_do_not_start_fail_the_attempt() -> None:
    attempt = starting()

    attempt.tell(events.StartFailed(failure()))

    assert attempt.endings == [AttemptFailedReport(failure=failure())]


# ── cancel ────────────────────────────────────────────────────────────────────


def test_a_cancel_lets_every_query_end_after_its_batch() -> None:
    attempt = running()

    assert attempt.tell(a_cancel()) == [AskRegionsToStop()]
    assert attempt.tell(*ENDED) == [StopRegionsAtOnce()]
    attempt.tell(STOPPED)

    detail = "out ended after its batch; raw ended after its batch"
    assert attempt.endings == [AttemptCancelledReport(detail=detail)]


def test_a_pause_ends_the_attempt_as_a_cancel_does_and_keeps_the_runner() -> None:
    attempt = running()
    pause = replace(a_cancel(), keep_for=timedelta(hours=1))

    assert attempt.tell(pause) == [AskRegionsToStop()]
    attempt.tell(*ENDED)
    *_, report, end = attempt.tell(STOPPED)

    assert isinstance(report, Report)
    assert isinstance(report.body, AttemptCancelledReport)
    assert end == End(keeps_runner=True)


def test_a_cancel_cuts_a_batch_off_when_the_grace_is_over() -> None:
    attempt = running()
    attempt.tell(TimePassed(100), a_cancel(seconds=30), ENDED[0])
    assert machine.next_deadline(attempt.state) == 130

    assert attempt.tell(TimePassed(129.9)) == []
    assert attempt.tell(TimePassed(130)) == [StopRegionsAtOnce()]
    attempt.tell(STOPPED)

    detail = "out ended after its batch; raw was stopped in the middle of a batch"
    assert attempt.endings == [AttemptCancelledReport(detail=detail)]


def test_a_cancel_does_not_wait_for_what_cannot_end_after_its_batch() -> None:
    attempt = cancelling()

    attempt.tell(ENDED[0], events.QueryCannotStop(RAW), STOPPED)

    detail = "out ended after its batch; raw was stopped in the middle of a batch"
    assert attempt.endings == [AttemptCancelledReport(detail=detail)]


def test_a_query_that_fails_while_the_job_is_cancelled_makes_no_failure_of_it() -> None:
    attempt = cancelling()

    attempt.tell(FAILED, ENDED[1], STOPPED)

    detail = "out was stopped in the middle of a batch; raw ended after its batch"
    assert attempt.endings == [AttemptCancelledReport(detail=detail)]


def test_a_job_that_is_cancelled_before_it_started_has_nothing_to_wait_for() -> None:
    attempt = preparing()

    assert attempt.tell(a_cancel()) == [
        Report(AttemptCancelledReport(detail="no query had started")),
        End(),
    ]


def test_a_job_that_is_cancelled_while_its_queries_start_waits_for_them() -> None:
    attempt = starting()

    assert attempt.tell(a_cancel()) == [AskRegionsToStop()]
    assert attempt.tell(STARTED) == []
    attempt.tell(*ENDED, STOPPED)

    assert isinstance(attempt.endings[0], AttemptCancelledReport)


# ── stop ──────────────────────────────────────────────────────────────────────


def test_a_stop_ends_the_queries_takes_the_savepoint_shows_its_output_and_says_so() -> None:
    attempt = running()

    assert attempt.tell(a_stop(keep_runner=True)) == [AskRegionsToStop()]
    assert attempt.tell(*ENDED) == [StopRegionsAtOnce()]
    assert attempt.tell(STOPPED) == [stop_message(keep_runner=True)]
    (send,) = attempt.tell(taken(5))
    assert isinstance(send, SendAcks)
    assert attempt.tell(acked(5)) == [ShowOutput(5, {"out": 7, "raw": 7})]
    assert attempt.tell(events.OutputShown(5)) == [
        Report(AttemptStoppedReport(savepoint=SAVEPOINT)),
        End(keeps_runner=True),
    ]


def test_a_stop_with_a_drain_empties_the_windows_at_the_boundary() -> None:
    attempt = running()

    attempt.tell(a_stop(drain=True))
    assert attempt.tell(*ENDED) == [DrainRegions()]
    assert attempt.tell(events.RegionsDrained()) == [StopRegionsAtOnce()]
    assert attempt.tell(STOPPED) == [stop_message(drain=True)]


def test_a_savepoint_that_was_only_recorded_waits_for_its_completion() -> None:
    attempt = saving()

    assert attempt.tell(taken(5), acked(5, AckOutcome.RECORDED)) == []
    assert attempt.tell(CheckpointCompleted(checkpoint=4)) == []
    assert attempt.tell(CheckpointCompleted(checkpoint=5)) == [ShowOutput(5, {"out": 7, "raw": 7})]
    attempt.tell(events.OutputShown(5))

    assert attempt.endings == [AttemptStoppedReport(savepoint=SAVEPOINT)]


def test_a_completion_counts_though_the_answer_to_the_acks_is_lost() -> None:
    attempt = saving()
    attempt.tell(taken(5), CheckpointCompleted(checkpoint=5))

    attempt.tell(events.AcksNotDelivered(5, "no route"), events.OutputShown(5))

    assert attempt.endings == [AttemptStoppedReport(savepoint=SAVEPOINT)]


def test_a_stop_is_not_said_to_be_done_while_its_acks_are_on_the_way() -> None:
    attempt = saving()
    attempt.tell(taken(5), CheckpointCompleted(checkpoint=5), events.OutputShown(5))
    assert attempt.endings == []

    attempt.tell(events.AcksNotDelivered(5, "no route"))

    assert attempt.endings == [AttemptStoppedReport(savepoint=SAVEPOINT)]


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        (
            (events.SnapshotFailed(5, "storage", "OSError: no space"), events.DeclineAnswered(5)),
            "the savepoint was not taken: OSError: no space",
        ),
        (
            (taken(5), acked(5, AckOutcome.TOO_LATE)),
            "the savepoint was not taken: the JobManager says that the acks are too late",
        ),
        (
            (taken(5), events.AcksNotDelivered(5, "no route")),
            "the savepoint was not taken: the acks were not delivered: no route",
        ),
        (
            (
                taken(5),
                acked(5, AckOutcome.RECORDED),
                CheckpointAborted(checkpoint=5, reason="expired"),
            ),
            "the savepoint was not taken: the checkpoint was aborted",
        ),
        (
            (taken(5), acked(5, AckOutcome.RECORDED), TimePassed(90)),
            "the savepoint was not confirmed in time",
        ),
        (
            (taken(5), acked(5), events.OutputNotShown(5, "OSError: no space")),
            "the output that was held back for the savepoint was not shown: OSError: no space",
        ),
    ],
)
def test_a_stop_without_a_savepoint_has_failed(outcome: tuple[events.Event, ...], why: str) -> None:
    attempt = saving()

    attempt.tell(*outcome)

    (ending_report,) = attempt.endings
    assert isinstance(ending_report, AttemptFailedReport)
    assert ending_report.failure.is_restartable
    assert (
        ending_report.failure.message == f"the stop failed, and the job goes on where it was: {why}"
    )


def test_a_stop_that_reaches_no_boundary_in_time_is_declined_and_fails() -> None:
    attempt = stopping()

    assert attempt.tell(TimePassed(60)) == [
        declined(5, "no_boundary_in_time", "no boundary was reached in time"),
        StopRegionsAtOnce(),
    ]
    attempt.tell(STOPPED)
    assert attempt.endings == [], "the JobManager is to hear of the decline first"
    attempt.tell(events.DeclineAnswered(5))

    assert isinstance(attempt.endings[0], AttemptFailedReport)


def test_a_query_that_fails_in_its_last_batch_declines_the_stop_and_is_the_failure() -> None:
    attempt = stopping()

    assert attempt.tell(FAILED) == [
        declined(5, "not_running", "the query has failed: a value was divided by zero", "out"),
        StopRegionsAtOnce(),
    ]
    attempt.tell(STOPPED, events.DeclineAnswered(5))

    assert attempt.endings == [AttemptFailedReport(failure=FAILED.failure)]


def test_a_query_that_cannot_end_after_its_batch_fails_the_stop() -> None:
    attempt = stopping()

    attempt.tell(events.QueryCannotStop(RAW), STOPPED, events.DeclineAnswered(5))

    (report,) = attempt.endings
    assert isinstance(report, AttemptFailedReport)
    assert report.failure.message.endswith(
        "region raw: this Spark cannot end a query after its batch"
    )


def test_a_stop_that_comes_before_the_queries_run_is_kept() -> None:
    attempt = preparing()
    assert attempt.tell(a_stop()) == []

    attempt.tell(PREPARED)
    assert attempt.tell(STARTED) == [Report(AttemptRunning(restored=[])), AskRegionsToStop()]


@pytest.mark.parametrize(
    "gone", [TimePassed(60), CheckpointAborted(checkpoint=5, reason="expired")]
)
def test_a_stop_that_is_over_before_the_queries_know_of_it_leaves_the_job_alone(
    gone: events.Event,
) -> None:
    attempt = starting()
    attempt.tell(a_stop())

    (decline,) = attempt.tell(gone)
    attempt.tell(STARTED)

    assert isinstance(decline, SendDecline)
    assert (attempt.phase, attempt.endings) == ("Running", [])


def test_a_stop_that_comes_too_late_is_declined_and_leaves_the_job_alone() -> None:
    attempt = running()

    assert attempt.tell(a_stop(seconds=0)) == [
        declined(5, "no_boundary_in_time", "no boundary was reached in time")
    ]
    assert attempt.phase == "Running"


def test_a_second_stop_is_declined() -> None:
    attempt = stopping()

    assert attempt.tell(a_stop(6)) == [
        declined(6, "not_running", "the job is being stopped already")
    ]


def test_a_batch_job_declines_stops_and_barriers_and_runs_on() -> None:
    attempt = Driven()
    attempt.tell(a_barrier(1), a_stop(2))

    attempt.tell(events.Prepared(REGIONS, has_boundaries=False), STARTED, a_barrier(3), a_stop(4))

    declines = [one for one in attempt.done if isinstance(one, SendDecline)]
    assert [one.checkpoint for one in declines] == [1, 2, 3, 4]
    assert {one.detail for one in declines} == {"a batch job has no boundary to snapshot at"}
    assert attempt.phase == "Running"


def test_a_runner_that_is_dismissed_when_its_ending_is_decided_still_leaves_it() -> None:
    attempt = ending()
    attempt.tell(DISMISSED, STOPPED)

    assert len(attempt.endings) == 1


def test_an_attempt_that_is_replaced_when_its_ending_is_decided_says_nothing() -> None:
    attempt = ending()

    assert attempt.tell(REPLACED) == [StopRegionsAtOnce(), End()]
    assert attempt.tell(STOPPED) == []
    assert attempt.endings == []


def test_nothing_leaves_the_end() -> None:
    attempt = running()
    attempt.tell(REPLACED)
    before = attempt.state

    everything: tuple[events.Event, ...] = (
        a_barrier(1),
        a_stop(2),
        a_cancel(),
        FAILED,
        *FINISHED,
        TimePassed(1e6),
        DISMISSED,
    )
    assert all(attempt.tell(event) == [] for event in everything)
    assert attempt.state == before
    assert machine.next_deadline(before) is None
