"""The state machine of an attempt in its runner: events go in, instructions come out.

    PREPARING ──▶ STARTING ──▶ RUNNING ──stop asked──▶ STOPPING ──at a boundary──▶ SAVING
        │            │            │                        │                         │
        │            └────────────┴─────cancel asked───────┴─────────────────────────┤
        │                                    ▼                                       │
        │ failed,                       CANCELLING                    the savepoint  │
        │ cancelled                          │ every query ended,     is confirmed,  │
        │                                    ▼ or the grace is over   or cannot be   │
        └────────────────────────────────▶ ENDING ◀──────────────────────────────────┘
             every query finished, one failed │  nothing runs, the last answers are out
                                              ▼
    any ──replaced, dismissed──▶ ENDED (says nothing)      ENDED (has reported, once)

`begin()` returns the first state with the first instruction. `step(state, event)` returns the next
state with the instructions that follow. `next_deadline(state)` is the latest time for the next
`TimePassed`. There is no clock, no thread and no I/O in here.

The precedence, in every phase:

1. `Replaced`, or an answer that says so: ENDED at once, without a report.
2. An ending already decided (ENDING): no order or failure changes it, and it is reported.
3. `Dismissed`: ENDED at once, without a report.
4. `CancelAsked`: precedes a start and a stop. Queries that fail meanwhile do not make the
   cancellation a failure. A pause is a cancellation after which the runner stays.
5. A failure: precedes a stop, whose savepoint is declined.
6. `StopAsked`: the first one counts. Before RUNNING it is kept; if it is aborted or expires before
   any query was asked to end, it is declined and the job keeps running.

Barriers are answered independently (`barrier_answers`): kept before RUNNING; begun, one at a time,
in RUNNING, and in CANCELLING if they had arrived before; declined if they arrive during a stop or a
cancellation, and when the attempt ends. A snapshot that is under way is answered before the ending
is reported. A failure does not wait for the snapshot: the upload is broken off, and its outcome is
ignored. So no ack follows the report of an ending.

A job whose input has ended finishes at once, unless output waits for a checkpoint. Then the attempt
says that its input has ended and stays RUNNING: it answers barriers until it is told that a
checkpoint is complete that covers all output, the final checkpoint. Output that is shown without
such a checkpoint would be withdrawn if the runner were lost before the JobManager had heard of the
end, and the next attempt went back behind it: because a rescale or an upgrade is rolled back, or
because the directory of this attempt is damaged or not trusted.

Where a sink cannot be fenced, the attempt fails when no heartbeat was answered for its fence time
(`fence_time`): from PREPARING it does not start, in CANCELLING it is cancelled. If its queries have
not stopped shortly after, the process is killed, in every phase: `KillProcess`.

Events (`events`), and the instructions they answer:

TimePassed(at)                     precedes the events of that time; also at `next_deadline`
HeartbeatAnswered                  puts the fence time off
    StopAsked, CancelAsked,            orders: directives, signals; `Replaced` also from the fence,
      Replaced, Dismissed              from heartbeats and from the answers to reports
    BarrierArrived                     directive
    CheckpointCompleted, …Aborted      directives, the protocol's messages
    Prepared | PreparationFailed       Prepare
    QueriesStarted | StartFailed       StartQueries
    QueryFinished, QueryFailed         whenever it happens, from StartQueries on
    QueryEnded | QueryFailed |         AskRegionsToStop, for each region
      QueryCannotStop
    RegionsDrained | QueryFailed       DrainRegions
    RegionsStopped                     StopRegionsAtOnce
    BatchesSeen, … | SnapshotFailed    WatchBatches, until StopWatching
    SnapshotTaken | SnapshotFailed     TakeSnapshot
    AcksAnswered | AcksNotDelivered    SendAcks
    DeclineAnswered                    SendDecline
    OutputShown | OutputNotShown       ShowOutput
    AllOutputShown | AllOutputNotShown ShowAllOutput

Instructions without an answer: StopWatching, BreakOffSnapshot, Report, End, KillProcess. An
instruction that is under way when another comes for the same thread may be abandoned without an
answer where `instructions` says that it can be interrupted. A thread that carries out an
instruction may find out that the attempt was superseded (then `Replaced` comes instead of the
answer) or the runner dismissed (then `Dismissed` comes before the answer, which is that nothing was
delivered).
"""

from dataclasses import replace

from jobmanager.protocol.messages import (
    AttemptFailedReport,
    AttemptFinishedReport,
    AttemptPrepared,
    AttemptRunning,
    CheckpointAborted,
)
from taskrunner.core.attempt import barrier_answers as barriers
from taskrunner.core.attempt import checkpoint_events, events
from taskrunner.core.attempt import transitions as go
from taskrunner.core.attempt.checkpoint_events import NO_BOUNDARY
from taskrunner.core.attempt.instructions import (
    AskRegionsToStop,
    Instruction,
    Prepare,
    Report,
    StartQueries,
    StopRegionsAtOnce,
)
from taskrunner.core.attempt.phases import (
    AttemptState,
    Cancelling,
    Ended,
    Ending,
    PendingStop,
    Preparing,
    Running,
    Saving,
    Starting,
    Stopping,
    StopStep,
)
from taskrunner.core.attempt.transitions import Stepped
from taskrunner.core.fence_time import FenceTime

_CANNOT_STOP = "this Spark cannot end a query after its batch"


def begin(at: float = 0.0, fence: FenceTime | None = None) -> Stepped:
    """The first state of an attempt, and its first instruction. None: it has no fence time."""
    return AttemptState(now=at, fence=fence or FenceTime(at)), (Prepare(),)


def step(state: AttemptState, event: events.Event) -> Stepped:
    """The next state of the attempt, and the instructions to carry out, in order."""
    if isinstance(state.phase, Ended):
        return state, ()
    state, instructions = _take(state, event)
    state, more = go.advance(state)
    return state, (*instructions, *more)


def next_deadline(state: AttemptState) -> float | None:
    """The time of the next deadline; None: there is none."""
    if isinstance(state.phase, Ended):
        return None
    deadlines = state.answers.deadlines
    if state.stop is not None:
        deadlines.append(state.stop.deadline)
    if isinstance(state.phase, Cancelling) or (
        isinstance(state.phase, Saving) and not go.is_shown_soon(state, state.phase)
    ):
        deadlines.append(state.phase.deadline)
    if state.may_trespass:
        is_ending = isinstance(state.phase, Ending)
        fenced_at = state.fence.kill_at if is_ending else state.fence.stop_at
        if fenced_at is not None:
            deadlines.append(fenced_at)
    return min(deadlines, default=None)


def ends_joins(state: AttemptState, instruction: Instruction) -> bool:
    """Whether held files are not joined any more from this instruction on, which follows from
    `state`: the attempt ends before it has read all input, and nobody waits for joins.
    """
    match instruction:
        case AskRegionsToStop():
            return True
        case StopRegionsAtOnce():
            phase = state.phase
            return not (
                isinstance(phase, Ending) and isinstance(phase.report, AttemptFinishedReport)
            )
        case _:
            return False


def _take(state: AttemptState, event: events.Event) -> Stepped:
    match event:
        case events.TimePassed(at=at):
            return go.pass_time(replace(state, now=max(state.now, at)))
        case events.HeartbeatAnswered(sent_at=sent_at):
            return replace(state, fence=state.fence.heard(sent_at)), ()
        case events.StopAsked() | events.CancelAsked() | events.Replaced() | events.Dismissed():
            return _obey(state, event)
        case (
            events.Prepared()
            | events.PreparationFailed()
            | events.AllQueriesStarted()
            | events.StartFailed()
            | events.AllOutputShown()
            | events.AllOutputNotShown()
        ):
            return _take_news_of_job(state, event)
        case (
            events.QueryFinished()
            | events.QueryFailed()
            | events.QueryCannotStop()
            | events.QueryEnded()
            | events.RegionsDrained()
            | events.RegionsStopped()
        ):
            return _take_news_of_queries(state, event)
        case (
            events.BarrierArrived()
            | events.BatchesSeen()
            | events.SnapshotTaken()
            | events.SnapshotFailed()
            | CheckpointAborted()
        ):
            return checkpoint_events.take_news_of_snapshots(state, event)
        case _:
            return checkpoint_events.take_answer(state, event)


# ── time and orders ───────────────────────────────────────────────────────────


def _obey(
    state: AttemptState,
    order: events.StopAsked | events.CancelAsked | events.Replaced | events.Dismissed,
) -> Stepped:
    is_decided = isinstance(state.phase, Ending)
    match order:
        case events.Replaced():
            return go.end_silently(state)
        case events.Dismissed() if not is_decided:
            return go.end_silently(state)
        case events.CancelAsked(grace=grace) if not isinstance(state.phase, Cancelling | Ending):
            keeps_runner = order.keep_for is not None
            return go.cancel(state, grace.total_seconds(), keeps_runner=keeps_runner)
        case events.StopAsked() if not is_decided and order.stop.checkpoint > state.answers.newest:
            return _take_stop(state, order)
        case _:
            return state, ()


def _take_stop(state: AttemptState, asked: events.StopAsked) -> Stepped:
    refusal = None
    if isinstance(state.phase, Cancelling):
        refusal = "the job is being cancelled"
    elif isinstance(state.phase, Stopping | Saving) or state.stop is not None:
        refusal = "the job is being stopped already"
    elif not state.has_boundaries:
        refusal = NO_BOUNDARY
    checkpoint = asked.stop.checkpoint
    if refusal is not None:
        return go.with_answers(
            state, barriers.decline(state.answers, checkpoint, "not_running", refusal)
        )
    pending = PendingStop(asked.stop, state.now + asked.time_left.total_seconds())
    kept = replace(state, stop=pending, answers=barriers.hear_of(state.answers, checkpoint))
    return go.pass_time(kept)


# ── the job as a whole ────────────────────────────────────────────────────────


def _take_news_of_job(
    state: AttemptState,
    event: events.Prepared
    | events.PreparationFailed
    | events.AllQueriesStarted
    | events.StartFailed
    | events.AllOutputShown
    | events.AllOutputNotShown,
) -> Stepped:
    match state.phase, event:
        case Preparing(), events.Prepared():
            return _start(state, event)
        case Preparing(), events.PreparationFailed(failure=failure):
            return go.fail(state, failure)
        case Starting(), events.AllQueriesStarted(restored=restored):
            return go.enter(state, Running()), (Report(AttemptRunning(restored=list(restored))),)
        case Starting(), events.StartFailed(failure=failure):
            return go.fail(replace(state, has_queries=False), failure)
        case Cancelling() as phase, events.StartFailed():
            cut = replace(phase, cut=frozenset(state.regions))
            return replace(state, has_queries=False, phase=cut), ()
        case Ending(), events.StartFailed():
            return replace(state, has_queries=False), ()
        case Ending(report=report, shows_output=True), events.AllOutputShown():
            return go.leave(state, report)
        case Ending(shows_output=True), events.AllOutputNotShown(failure=failure):
            return go.leave(state, AttemptFailedReport(failure=failure))
        case _:
            return state, ()


def _start(state: AttemptState, prepared: events.Prepared) -> Stepped:
    state = replace(state, unfenced=prepared.unfenced)
    if state.unfenced and state.fence.is_over(state.now):
        return go.fail(state, go.fence_failure(state))
    state = replace(
        state,
        phase=Starting(),
        regions=prepared.regions,
        has_boundaries=prepared.has_boundaries,
        has_queries=True,
        holds_output=prepared.holds_output and prepared.has_boundaries,
    )
    refusals: tuple[Instruction, ...] = ()
    if not prepared.has_boundaries:
        state, refusals = go.with_answers(state, barriers.refuse(state.answers, NO_BOUNDARY))
        state, declines = go.decline_stop(state, "not_running", NO_BOUNDARY)
        refusals += declines
    report = AttemptPrepared(repartitioned=list(prepared.repartitioned))
    return state, (*refusals, Report(report), StartQueries())


# ── queries ───────────────────────────────────────────────────────────────────


def _take_news_of_queries(
    state: AttemptState,
    event: events.QueryFinished
    | events.QueryFailed
    | events.QueryCannotStop
    | events.QueryEnded
    | events.RegionsDrained
    | events.RegionsStopped,
) -> Stepped:
    match event:
        case events.QueryFinished(region=region) if state.has_queries:
            return replace(state, finished=state.finished | {region}), ()
        case events.RegionsStopped():
            return _take_regions_stopped(state)
        case _:
            pass
    match state.phase, event:
        case Starting() | Running(), events.QueryFailed(failure=failure):
            return go.fail(state, failure)
        case Stopping(), events.QueryFailed(region=region, failure=failure):
            detail = f"the query has failed: {failure.message}"
            state, declines = go.decline_stop(state, "not_running", detail, region)
            state, instructions = go.fail(state, failure)
            return state, (*declines, *instructions)
        case Stopping(), events.QueryCannotStop(region=region):
            state, declines = go.decline_stop(state, "not_running", _CANNOT_STOP, region)
            failure = go.stop_failure(f"region {region}: {_CANNOT_STOP}")
            state, instructions = go.fail(state, failure)
            return state, (*declines, *instructions)
        case Stopping(step=StopStep.LAST_BATCH) as phase, events.QueryEnded(region=region):
            return go.enter(state, replace(phase, ended=phase.ended | {region})), ()
        case Stopping(step=StopStep.DRAINING) as phase, events.RegionsDrained():
            return go.close_regions(state, phase)
        case Cancelling() as phase, events.QueryEnded(region=region):
            return go.enter(state, replace(phase, ended=phase.ended | {region})), ()
        case Cancelling() as phase, events.QueryFailed(region=region) | events.QueryCannotStop(
            region=region
        ):
            return go.enter(state, replace(phase, cut=phase.cut | {region})), ()
        case _:
            return state, ()


def _take_regions_stopped(state: AttemptState) -> Stepped:
    phase = state.phase
    if isinstance(phase, Stopping) and phase.step is StopStep.CLOSING:
        state = go.enter(state, replace(phase, step=StopStep.CLOSED))
    return replace(state, has_queries=False), ()
