"""The transitions between the phases of an attempt. `machine` decides which one is taken."""

from dataclasses import replace

from jobmanager.core.ids import RegionId
from jobmanager.protocol.messages import (
    AttemptCancelledReport,
    AttemptFailedReport,
    AttemptFinishedReport,
    AttemptInputEnded,
    DeclineReason,
    EndingReport,
    FailureReport,
)
from taskrunner.core.attempt import barrier_answers as barriers
from taskrunner.core.attempt.barrier_answers import Answered, PendingBarrier
from taskrunner.core.attempt.instructions import (
    AskRegionsToStop,
    DrainRegions,
    End,
    Instruction,
    KillProcess,
    Report,
    ShowAllOutput,
    StopRegionsAtOnce,
)
from taskrunner.core.attempt.phases import (
    AttemptState,
    Cancelling,
    Ended,
    Ending,
    Phase,
    Preparing,
    Running,
    Saving,
    Stopping,
    StopStep,
)
from taskrunner.core.fence_time import lost_message

CONFIRMATION_SECONDS = 30.0
"""How long after the deadline of a stop its savepoint may still be confirmed."""

Stepped = tuple[AttemptState, tuple[Instruction, ...]]


def enter(state: AttemptState, phase: Phase) -> AttemptState:
    return replace(state, phase=phase)


def with_answers(state: AttemptState, answered: Answered) -> Stepped:
    answers, instructions = answered
    return replace(state, answers=answers), instructions


# ── ends ──────────────────────────────────────────────────────────────────────


def end_silently(state: AttemptState) -> Stepped:
    state, broken_off = with_answers(state, barriers.abandon(state.answers))
    stopping = (StopRegionsAtOnce(),) if state.has_queries else ()
    return enter(state, Ended(None)), (*broken_off, *stopping, End())


def end_with(state: AttemptState, report: EndingReport, keeps_runner: bool = False) -> Stepped:
    """Decides the ending: stops running queries and declines waiting barriers."""
    state, declines = decline_stop(state, "not_running", "the attempt is ending")
    state, refusals = with_answers(state, barriers.refuse(state.answers, "the attempt is ending"))
    stopping = (StopRegionsAtOnce(),) if state.has_queries else ()
    ending = enter(state, Ending(report, keeps_runner))
    return ending, (*declines, *refusals, *stopping)


def fail(state: AttemptState, failure: FailureReport) -> Stepped:
    """A failure is reported as soon as nothing runs: no upload delays the next attempt."""
    state, broken_off = with_answers(state, barriers.abandon(state.answers))
    if broken_off:
        state = replace(state, stop=None)
    state, instructions = end_with(state, AttemptFailedReport(failure=failure))
    return state, (*broken_off, *instructions)


# ── cancel ────────────────────────────────────────────────────────────────────


def cancel(state: AttemptState, grace_seconds: float, *, keeps_runner: bool = False) -> Stepped:
    """Ends the attempt; `keeps_runner`: the job is paused, and its next attempt follows here."""
    if isinstance(state.phase, Preparing):
        return end_with(state, AttemptCancelledReport(detail="no query had started"), keeps_runner)
    doing = "paused" if keeps_runner else "cancelled"
    state, declines = decline_stop(state, "not_running", f"the job is being {doing}")
    cancelling = enter(state, Cancelling(state.now + grace_seconds, keeps_runner=keeps_runner))
    return cancelling, (*declines, AskRegionsToStop())


def cancelled(state: AttemptState, phase: Cancelling) -> Stepped:
    """Every query has ended, or the grace is over."""
    details = [
        f"{region} ended after its batch"
        if region in phase.ended
        else f"{region} was stopped in the middle of a batch"
        for region in state.regions
    ]
    report = AttemptCancelledReport(detail="; ".join(details))
    return end_with(state, report, phase.keeps_runner)


# ── stop ──────────────────────────────────────────────────────────────────────


def begin_stop(state: AttemptState) -> Stepped:
    """Begins a stop. From now on no barrier is begun: later state must not be restored."""
    stopping = enter(state, Stopping())
    return with_answers(stopping, barriers.refuse(state.answers, "the job is being stopped"))


def close_regions(state: AttemptState, phase: Stopping) -> Stepped:
    return enter(state, replace(phase, step=StopStep.CLOSING)), (StopRegionsAtOnce(),)


def give_up_stop(state: AttemptState, reason: DeclineReason, detail: str) -> Stepped:
    """Gives up a stop without a savepoint. If no query was asked to end, the job keeps running."""
    phase = state.phase
    state, declines = decline_stop(state, reason, detail)
    if not isinstance(phase, Stopping):
        return state, declines
    if phase.step is StopStep.SNAPSHOT_UNDER_WAY:
        return enter(state, Running()), declines
    ended, instructions = fail(state, stop_failure(detail))
    return ended, (*declines, *instructions)


def decline_stop(
    state: AttemptState, reason: DeclineReason, detail: str, region: RegionId | None = None
) -> Stepped:
    """Declines the stop, if there is one without a snapshot."""
    if state.stop is None:
        return state, ()
    checkpoint = state.stop.stop.checkpoint
    return with_answers(
        replace(state, stop=None),
        barriers.decline(state.answers, checkpoint, reason, detail, region),
    )


def stop_failure(why: str) -> FailureReport:
    return FailureReport(
        kind="infrastructure",
        is_restartable=True,
        message=f"the stop failed, and the job goes on where it was: {why}",
        stack="",
    )


def fence_failure(state: AttemptState) -> FailureReport:
    return FailureReport(
        kind="infrastructure",
        is_restartable=True,
        message=lost_message(state.fence, state.unfenced),
        stack="",
    )


# ── time ──────────────────────────────────────────────────────────────────────


def pass_time(state: AttemptState) -> Stepped:
    if state.may_trespass and state.fence.is_over(state.now):
        return _pass_fence_time(state)
    return _pass_deadlines(state)


def _pass_fence_time(state: AttemptState) -> Stepped:
    """Another attempt may be about to take this one's place."""
    kill_at = state.fence.kill_at
    if kill_at is not None and state.now >= kill_at:
        return enter(state, Ended(None)), (KillProcess(fence_failure(state).message),)
    match state.phase:
        case Ending():
            return _pass_deadlines(state)
        case Cancelling() as phase:
            return cancelled(state, phase)
        case _:
            return fail(state, fence_failure(state))


def _pass_deadlines(state: AttemptState) -> Stepped:
    state, instructions = with_answers(state, barriers.expire(state.answers, state.now))
    more: tuple[Instruction, ...] = ()
    phase = state.phase
    if state.stop is not None and state.stop.deadline <= state.now:
        detail = "no boundary was reached in time"
        state, more = give_up_stop(state, "no_boundary_in_time", detail)
    elif isinstance(phase, Cancelling) and phase.deadline <= state.now:
        state, more = cancelled(state, phase)
    elif (
        isinstance(phase, Saving)
        and phase.deadline <= state.now
        and not is_shown_soon(state, phase)
    ):
        state, more = fail(state, stop_failure("the savepoint was not confirmed in time"))
    return state, (*instructions, *more)


def is_shown_soon(state: AttemptState, phase: Saving) -> bool:
    """Whether the savepoint is complete, and only its output has to be published."""
    return phase.stop.checkpoint in state.answers.showing


# ── what follows by itself ────────────────────────────────────────────────────


def advance(state: AttemptState) -> Stepped:
    """Makes all transitions that need no further event."""
    instructions: tuple[Instruction, ...] = ()
    while True:
        after, more = _advance_once(state)
        if after == state and not more:
            return state, instructions
        state, instructions = after, (*instructions, *more)


def _advance_once(state: AttemptState) -> Stepped:
    match state.phase:
        case Running():
            return _advance_running(state)
        case Stopping() as phase:
            return _advance_stopping(state, phase)
        case Cancelling() as phase:
            if phase.ended | phase.cut >= frozenset(state.regions):
                return cancelled(state, phase)
            return with_answers(state, barriers.begin_next(state.answers))
        case Ending() as phase:
            return _advance_ending(state, phase)
        case _:
            return state, ()


def _advance_running(state: AttemptState) -> Stepped:
    if state.finished >= frozenset(state.regions):
        if state.is_complete:
            return end_with(state, AttemptFinishedReport())
        if state.final_after is None:
            ended = replace(state, final_after=state.answers.begun)
            return ended, (Report(AttemptInputEnded()),)
    if state.stop is not None:
        return begin_stop(state)
    return with_answers(state, barriers.begin_next(state.answers))


def _advance_stopping(state: AttemptState, phase: Stopping) -> Stepped:
    assert state.stop is not None
    stop, deadline = state.stop.stop, state.stop.deadline
    match phase.step:
        case StopStep.SNAPSHOT_UNDER_WAY if not state.answers.snapshots:
            asked = replace(phase, step=StopStep.LAST_BATCH)
            return enter(state, asked), (AskRegionsToStop(),)
        case StopStep.LAST_BATCH if phase.ended >= frozenset(state.regions):
            if stop.drain:
                return enter(state, replace(phase, step=StopStep.DRAINING)), (DrainRegions(),)
            return close_regions(state, phase)
        case StopStep.CLOSED if state.answers.current is None:
            saving = enter(state, Saving(stop, deadline + CONFIRMATION_SECONDS))
            return with_answers(
                replace(saving, stop=None),
                barriers.take(state.answers, PendingBarrier(stop, deadline)),
            )
        case _:
            return state, ()


def _advance_ending(state: AttemptState, phase: Ending) -> Stepped:
    if state.has_queries or phase.shows_output or not state.answers.is_idle:
        return state, ()
    if isinstance(phase.report, AttemptFinishedReport):
        return enter(state, replace(phase, shows_output=True)), (ShowAllOutput(),)
    return leave(state, phase.report, phase.keeps_runner)


def leave(state: AttemptState, report: EndingReport, keeps_runner: bool = False) -> Stepped:
    """Reports the outcome and ends; no query runs and no answer is under way."""
    return enter(state, Ended(report)), (Report(report), End(keeps_runner))
