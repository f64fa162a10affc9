"""How an attempt handles events about checkpoints: barriers, snapshots, and answers to acks."""

from dataclasses import replace
from typing import assert_never

from jobmanager.core.life.checkpoint import AckOutcome
from jobmanager.protocol.messages import (
    AttemptStoppedReport,
    CheckpointAborted,
    CheckpointCompleted,
)
from taskrunner.core.attempt import barrier_answers as barriers
from taskrunner.core.attempt import events
from taskrunner.core.attempt import transitions as go
from taskrunner.core.attempt.barrier_answers import PendingBarrier
from taskrunner.core.attempt.instructions import Instruction
from taskrunner.core.attempt.phases import AttemptState, Cancelling, Ending, Saving, Stopping
from taskrunner.core.attempt.transitions import Stepped

NO_BOUNDARY = "a batch job has no boundary to snapshot at"

# ── snapshots ─────────────────────────────────────────────────────────────────


def take_news_of_snapshots(
    state: AttemptState,
    event: events.BarrierArrived
    | events.BatchesSeen
    | events.SnapshotTaken
    | events.SnapshotFailed
    | CheckpointAborted,
) -> Stepped:
    answers = state.answers
    match event:
        case events.BarrierArrived():
            return _take_barrier(state, event)
        case events.BatchesSeen(checkpoint=checkpoint, regions=regions):
            return go.with_answers(state, barriers.see(answers, checkpoint, regions))
        case events.SnapshotTaken(acks=acks):
            return go.with_answers(state, barriers.snapshot_taken(answers, acks))
        case events.SnapshotFailed():
            return _take_failed_snapshot(state, event)
        case CheckpointAborted(checkpoint=checkpoint):
            return _take_abort(state, checkpoint)
        case _:
            assert_never(event)


def _take_barrier(state: AttemptState, arrived: events.BarrierArrived) -> Stepped:
    answers, checkpoint = state.answers, arrived.barrier.checkpoint
    if checkpoint <= answers.newest:
        return state, ()
    refusal = None
    match state.phase:
        case Ending():
            return state, ()  # its checkpoint ends with the attempt
        case Cancelling():
            refusal = "the job is being cancelled"
        case Stopping() | Saving():
            refusal = "the job is being stopped"
        case _ if not state.has_boundaries:
            refusal = NO_BOUNDARY
        case _:
            pass
    if refusal is not None:
        return go.with_answers(state, barriers.decline(answers, checkpoint, "not_running", refusal))
    pending = PendingBarrier(arrived.barrier, state.now + arrived.time_left.total_seconds())
    return go.pass_time(replace(state, answers=barriers.arrive(answers, pending)))


def _take_failed_snapshot(state: AttemptState, failed: events.SnapshotFailed) -> Stepped:
    state, instructions = go.with_answers(
        state,
        barriers.snapshot_failed(state.answers, failed.checkpoint, failed.reason, failed.detail),
    )
    more: tuple[Instruction, ...] = ()
    if instructions and failed.reason == "superseded":
        state, more = go.end_silently(state)
    elif instructions:
        state, more = _savepoint_failed(state, failed.checkpoint, failed.detail)
    return state, (*instructions, *more)


def _take_abort(state: AttemptState, checkpoint: int) -> Stepped:
    detail = "the checkpoint was aborted"
    if state.stop is not None and state.stop.stop.checkpoint == checkpoint:
        return go.give_up_stop(state, "no_boundary_in_time", detail)
    if checkpoint in state.answers.showing:
        return state, ()  # the checkpoint was completed before
    is_under_way = state.answers.snapshots or barriers.is_sending(state.answers, checkpoint)
    state, instructions = go.with_answers(state, barriers.abort(state.answers, checkpoint))
    if is_under_way:
        return state, instructions  # the answer to the acks will say so
    state, more = _savepoint_failed(state, checkpoint, detail)
    return state, (*instructions, *more)


def _savepoint_failed(state: AttemptState, checkpoint: int, why: str) -> Stepped:
    """The attempt fails if it has ended its queries for this savepoint."""
    phase = state.phase
    if not isinstance(phase, Saving) or phase.stop.checkpoint != checkpoint:
        return state, ()
    return go.fail(state, go.stop_failure(f"the savepoint was not taken: {why}"))


# ── answers ───────────────────────────────────────────────────────────────────


def take_answer(
    state: AttemptState,
    event: events.AcksAnswered
    | events.AcksNotDelivered
    | events.DeclineAnswered
    | events.OutputShown
    | events.OutputNotShown
    | CheckpointCompleted,
) -> Stepped:
    answers = state.answers
    match event:
        case events.AcksAnswered():
            return _take_answered_acks(state, event)
        case events.AcksNotDelivered(checkpoint=checkpoint, why=why):
            if not barriers.is_sending(answers, checkpoint):
                return state, ()
            state = replace(state, answers=barriers.acks_not_delivered(answers, checkpoint))
            if checkpoint in answers.showing:
                return state, ()  # the JobManager has the acks all the same
            return _savepoint_failed(state, checkpoint, f"the acks were not delivered: {why}")
        case events.DeclineAnswered(checkpoint=checkpoint, is_superseded=is_superseded):
            if is_superseded:
                return go.end_silently(state)
            return replace(state, answers=barriers.decline_answered(answers, checkpoint)), ()
        case events.OutputShown() | events.OutputNotShown():
            return _take_shown_output(state, event)
        case CheckpointCompleted(checkpoint=checkpoint):
            return go.with_answers(state, barriers.complete(answers, checkpoint))
        case _:
            assert_never(event)


def _take_answered_acks(state: AttemptState, answered: events.AcksAnswered) -> Stepped:
    checkpoint, outcome = answered.checkpoint, answered.outcome
    if not barriers.is_sending(state.answers, checkpoint):
        return state, ()
    if outcome is AckOutcome.SUPERSEDED:
        return go.end_silently(state)
    state, instructions = go.with_answers(
        state, barriers.acks_answered(state.answers, checkpoint, outcome)
    )
    if outcome is not AckOutcome.TOO_LATE or checkpoint in state.answers.showing:
        return state, instructions
    why = "the JobManager says that the acks are too late"
    state, more = _savepoint_failed(state, checkpoint, why)
    return state, (*instructions, *more)


def _take_shown_output(
    state: AttemptState, event: events.OutputShown | events.OutputNotShown
) -> Stepped:
    checkpoint = event.checkpoint
    if checkpoint not in state.answers.showing:
        return state, ()
    state = replace(state, answers=barriers.shown(state.answers, checkpoint))
    phase = state.phase
    if not isinstance(phase, Saving) or phase.stop.checkpoint != checkpoint:
        return state, ()
    if isinstance(event, events.OutputNotShown):
        why = f"the output that was held back for the savepoint was not shown: {event.why}"
        return go.fail(state, go.stop_failure(why))
    report = AttemptStoppedReport(savepoint=phase.stop.savepoint.id)
    return go.end_with(state, report, phase.stop.keep_runner)
