"""The end of the input, where output waits for a checkpoint: the final checkpoint comes first."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobmanager.core.life.checkpoint import AckOutcome
from jobmanager.protocol.messages import (
    AttemptCancelledReport,
    AttemptFinishedReport,
    AttemptInputEnded,
    AttemptStoppedReport,
    Barrier,
    CheckpointAborted,
    CheckpointCompleted,
    SavepointTarget,
)
from taskrunner.core.attempt import events, machine
from taskrunner.core.attempt.events import BatchesOfRegion
from taskrunner.core.attempt.instructions import (
    End,
    Instruction,
    Report,
    SendDecline,
    ShowAllOutput,
    ShowOutput,
    StopRegionsAtOnce,
    TakeSnapshot,
    WatchBatches,
)
from tests.unit.taskrunner.attempts import (
    ENDED,
    FAILED,
    FINISHED,
    HOLDS_OUTPUT,
    NEVER,
    REGIONS,
    REPLACED,
    SAVEPOINT,
    STARTED,
    STOPPED,
    Driven,
    a_barrier,
    a_cancel,
    a_stop,
    answers_to,
    batches_seen,
    seen,
    taken,
)

INPUT_ENDED = Report(AttemptInputEnded())


def holding_output() -> Driven:
    driven = Driven()
    driven.tell(HOLDS_OUTPUT, STARTED)
    return driven


def at_end_of_input() -> Driven:
    driven = holding_output()
    driven.tell(*FINISHED)
    return driven


def acked(checkpoint: int, outcome: AckOutcome = AckOutcome.COMPLETED) -> events.AcksAnswered:
    return events.AcksAnswered(checkpoint, outcome)


def takes_snapshot(attempt: Driven, checkpoint: int) -> None:
    """The queries have ended, so every batch that was begun is committed."""
    assert attempt.tell(a_barrier(checkpoint)) == [WatchBatches(checkpoint)]
    attempt.tell(seen(checkpoint, begun=7, committed=7, is_alive=False), taken(checkpoint))


def test_output_that_waits_for_a_checkpoint_is_not_shown_at_the_end_of_the_input() -> None:
    attempt = holding_output()

    assert attempt.tell(FINISHED[0]) == []
    assert attempt.tell(FINISHED[1]) == [INPUT_ENDED]
    assert attempt.phase == "Running"


def test_the_final_checkpoint_shows_the_output_and_then_the_job_has_finished() -> None:
    attempt = at_end_of_input()
    takes_snapshot(attempt, 1)

    batches = {"out": 7, "raw": 7}
    assert attempt.tell(acked(1)) == [ShowOutput(1, batches), StopRegionsAtOnce()]
    assert attempt.tell(STOPPED) == []
    assert attempt.tell(events.OutputShown(1)) == [ShowAllOutput()]
    assert attempt.tell(events.AllOutputShown()) == [Report(AttemptFinishedReport()), End()]


def test_files_are_joined_at_the_end_of_the_input_and_not_when_somebody_waits() -> None:
    def ends_joins(attempt: Driven, *told: events.Event) -> bool:
        return any(machine.ends_joins(attempt.state, one) for one in attempt.tell(*told))

    finishing = at_end_of_input()
    takes_snapshot(finishing, 1)
    assert not ends_joins(finishing, acked(1))
    assert not ends_joins(finishing, STOPPED)
    assert not ends_joins(holding_output(), a_barrier(1))
    assert ends_joins(holding_output(), a_cancel())
    assert ends_joins(holding_output(), a_stop())
    assert ends_joins(holding_output(), FAILED)
    assert ends_joins(holding_output(), REPLACED)


def test_the_completion_may_be_told_later() -> None:
    attempt = at_end_of_input()
    takes_snapshot(attempt, 1)

    attempt.tell(events.AcksNotDelivered(1, "no route"))
    assert attempt.phase == "Running"
    attempt.tell(CheckpointCompleted(checkpoint=1))

    assert attempt.phase == "Ending"


def test_a_checkpoint_that_does_not_prove_a_rescale_is_not_the_final_one() -> None:
    attempt = at_end_of_input()
    takes_snapshot(attempt, 1)
    assert attempt.tell(acked(1, AckOutcome.RECORDED)) == []
    assert attempt.phase == "Running"

    takes_snapshot(attempt, 2)
    attempt.tell(acked(2))

    assert attempt.phase == "Ending"


def test_a_snapshot_that_was_begun_before_the_end_does_not_cover_all_output() -> None:
    attempt = holding_output()
    attempt.tell(a_barrier(1), seen(1, begun=3, committed=3), *FINISHED, taken(1, batch=3))

    assert attempt.tell(acked(1)) == [ShowOutput(1, {"out": 3, "raw": 3})]
    assert attempt.phase == "Running"
    takes_snapshot(attempt, 2)
    attempt.tell(acked(2))

    assert attempt.phase == "Ending"


def test_a_barrier_that_waits_for_its_boundary_when_the_input_ends_is_the_final_one() -> None:
    attempt = holding_output()
    attempt.tell(a_barrier(1), seen(1, begun=4, committed=3), *FINISHED)

    attempt.tell(seen(1, begun=4, committed=4, is_alive=False), taken(1), acked(1))

    assert attempt.phase == "Ending"


def test_a_batch_that_spark_planned_after_the_last_row_is_not_waited_for() -> None:
    attempt = at_end_of_input()
    attempt.tell(a_barrier(1))
    done = BatchesOfRegion(begun=5, committed=4, is_alive=False, is_finished=True)

    assert len(attempt.tell(batches_seen(1, dict.fromkeys(REGIONS, done)))) == 2


def test_a_savepoint_that_the_user_may_delete_is_not_the_final_checkpoint() -> None:
    attempt = at_end_of_input()
    target = SavepointTarget(id=SAVEPOINT, directory="file:/savepoints/one")
    barrier = Barrier(checkpoint=1, expires_at=NEVER, savepoint=target)
    attempt.tell(events.BarrierArrived(barrier, a_barrier().time_left))
    attempt.tell(seen(1, begun=7, committed=7, is_alive=False), taken(1))

    assert attempt.tell(acked(1)) == []
    assert attempt.phase == "Running"


def test_a_snapshot_that_fails_is_declined_and_the_next_barrier_is_answered() -> None:
    attempt = at_end_of_input()
    attempt.tell(a_barrier(1), seen(1, begun=7, committed=7, is_alive=False))

    assert attempt.tell(events.SnapshotFailed(1, "storage", "no space")) == [
        SendDecline(1, "storage", "no space")
    ]
    takes_snapshot(attempt, 2)
    attempt.tell(CheckpointAborted(checkpoint=2, reason="expired"))
    attempt.tell(acked(2, AckOutcome.TOO_LATE))
    assert attempt.phase == "Running"
    takes_snapshot(attempt, 3)
    attempt.tell(acked(3))

    assert attempt.phase == "Ending"


def test_a_job_that_is_cancelled_meanwhile_does_not_show_what_no_checkpoint_covers() -> None:
    attempt = at_end_of_input()
    attempt.tell(a_cancel(), *ENDED, STOPPED)

    (ending,) = attempt.endings
    assert isinstance(ending, AttemptCancelledReport)
    assert not [one for one in attempt.done if isinstance(one, ShowAllOutput | ShowOutput)]


def test_a_stop_meanwhile_ends_the_job_with_its_savepoint_which_shows_the_output() -> None:
    attempt = at_end_of_input()
    attempt.tell(a_stop(4), *ENDED, STOPPED, taken(4))

    assert attempt.tell(acked(4)) == [ShowOutput(4, {"out": 7, "raw": 7})]
    attempt.tell(events.OutputShown(4))
    assert attempt.endings == [AttemptStoppedReport(savepoint=SAVEPOINT)]


def test_an_attempt_that_is_replaced_meanwhile_shows_nothing() -> None:
    attempt = at_end_of_input()
    takes_snapshot(attempt, 1)
    attempt.tell(REPLACED, CheckpointCompleted(checkpoint=1))

    assert attempt.phase == "Ended"
    assert not [one for one in attempt.done if isinstance(one, ShowAllOutput | ShowOutput)]


@pytest.mark.parametrize(
    "prepared",
    [
        events.Prepared(REGIONS, has_boundaries=True),
        events.Prepared(REGIONS, has_boundaries=False, holds_output=True),
    ],
    ids=["nothing is held", "a batch job has no checkpoints"],
)
def test_other_jobs_finish_at_once(prepared: events.Prepared) -> None:
    attempt = Driven()
    attempt.tell(prepared, STARTED, *FINISHED)

    assert attempt.phase == "Ending"
    assert INPUT_ENDED not in attempt.done


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.just("barrier"),
            st.just("input ends"),
            st.tuples(st.just("answer"), st.sampled_from([*AckOutcome, None])),
            st.tuples(st.just("completed"), st.integers(1, 6)),
            st.just("snapshot fails"),
        ),
        max_size=40,
    )
)
def test_whatever_happens_nothing_is_shown_at_the_end_but_what_a_checkpoint_covers(
    deeds: list[str | tuple[str, object]],
) -> None:
    attempt = holding_output()
    newest, has_input = 0, True
    covering: set[int] = set()
    """Checkpoints whose snapshot was begun after the end of the input."""
    to_do: list[Instruction] = []
    for deed in deeds:
        told: list[events.Event] = []
        match deed:
            case "barrier":
                newest += 1
                told = [a_barrier(newest)]
            case "input ends":
                has_input = False
                told = list(FINISHED)
            case "snapshot fails":
                told = [events.SnapshotFailed(newest, "storage", "no space")]
            case "completed", int(number):
                told = [CheckpointCompleted(checkpoint=number)]
            case "answer", outcome if to_do:
                told = answers_to(to_do.pop(0))
                if isinstance(told[0], events.AcksAnswered) and isinstance(outcome, AckOutcome):
                    told = [acked(told[0].checkpoint, outcome)]
            case _:
                pass
        for event in told:
            given_now = attempt.tell(event)
            for one in given_now:
                if isinstance(one, TakeSnapshot) and not has_input:
                    covering.add(one.barrier.checkpoint)
            to_do += [one for one in given_now if answers_to(one)]
    shown = [one.checkpoint for one in attempt.done if isinstance(one, ShowOutput)]
    if [one for one in attempt.done if isinstance(one, ShowAllOutput)] or attempt.endings:
        assert covering & set(shown), "shown at the end, and covered by no checkpoint"
        assert attempt.done.count(INPUT_ENDED) == 1
