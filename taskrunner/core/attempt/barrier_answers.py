"""The answers to barriers, one barrier at a time: acks or a decline, never both.

    waiting ──▶ AwaitingBoundary ──every region committed──▶ TakingSnapshot ──▶ SendingAcks
       │               │                                            │               │
       │               │ expired, aborted, refused,                 │ failed        │ answered, or
       │               │ a query ended in its batch                 │               │ not delivered
       └───────────────┴─────────────────────┬──────────────────────┘               ▼
                                             ▼                          output visible when
                                          declined                      the checkpoint is complete

A barrier waits for the next batch boundary of every region: the commit of the batch that was under
way when the barrier's turn came, or the last commit if no batch was under way. A barrier with
`awaits_new_batch` also waits for the first commit of this attempt in each region that is not idle.
The queries are not paused. A stop joins at `TakingSnapshot`, once its queries have ended at a
boundary.

A snapshot under way is broken off when its checkpoint is aborted; the decline waits for the
snapshot's outcome. When the attempt fails, nothing waits for the snapshot: the JobManager aborts
the checkpoints of a failed attempt by itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from jobmanager.core.ids import RegionId
from jobmanager.core.life.checkpoint import AckOutcome
from jobmanager.protocol.messages import Barrier, BarrierAcks, DeclineReason, Stop
from taskrunner.core.attempt.events import BatchesOfRegion
from taskrunner.core.attempt.instructions import (
    BreakOffSnapshot,
    Instruction,
    SendAcks,
    SendDecline,
    ShowOutput,
    StopWatching,
    TakeSnapshot,
    WatchBatches,
)


@dataclass(frozen=True, slots=True)
class PendingBarrier:
    """A barrier that has to be answered; a stop counts as a barrier too."""

    barrier: Barrier | Stop
    deadline: float

    @property
    def checkpoint(self) -> int:
        return self.barrier.checkpoint

    @property
    def awaits_new_batch(self) -> bool:
        return isinstance(self.barrier, Barrier) and self.barrier.awaits_new_batch

    @property
    def shows_output(self) -> bool:
        """Whether output that waits for a checkpoint may be seen when this one is complete: if no
        recovery goes back behind it. A savepoint that the job runs on from is the user's, to
        move or delete, and no recovery looks at it.
        """
        return isinstance(self.barrier, Stop) or self.barrier.savepoint is None


@dataclass(frozen=True, slots=True)
class AwaitingBoundary:
    pending: PendingBarrier
    begun: Mapping[RegionId, int | None] | None = None
    """The batch that has to be committed in each region; None: not known yet."""


@dataclass(frozen=True, slots=True)
class TakingSnapshot:
    pending: PendingBarrier


@dataclass(frozen=True, slots=True)
class SendingAcks:
    pending: PendingBarrier


@dataclass(frozen=True, slots=True)
class BarrierAnswers:
    """Every barrier of an attempt that is not yet answered, and what follows from the answers."""

    waiting: tuple[PendingBarrier, ...] = ()
    current: AwaitingBoundary | TakingSnapshot | SendingAcks | None = None
    declining: frozenset[int] = frozenset()
    """Checkpoints whose decline is being sent."""
    showing: frozenset[int] = frozenset()
    """Checkpoints whose output is being published."""
    batches: Mapping[int, Mapping[str, int | None]] = field(default_factory=dict)
    """For each checkpoint that may still complete, and shows output then: the batches up to which
    output may be seen."""
    newest: int = 0
    """The newest checkpoint of any barrier. Numbers ascend, so a barrier that is not newer is a
    repetition."""
    begun: int = 0
    """The newest checkpoint whose snapshot was begun."""
    completed: int = 0
    """The newest checkpoint that is known to be complete, and shows output."""

    @property
    def is_idle(self) -> bool:
        """Whether no answer and no publication is under way."""
        return not (self.current or self.declining or self.showing)

    @property
    def snapshots(self) -> bool:
        """Whether a snapshot is under way."""
        return isinstance(self.current, TakingSnapshot)

    @property
    def deadlines(self) -> list[float]:
        """The times at which unanswered barriers expire."""
        found = [one.deadline for one in self.waiting]
        if isinstance(self.current, AwaitingBoundary):
            found.append(self.current.pending.deadline)
        return found


Answered = tuple[BarrierAnswers, tuple[Instruction, ...]]


def arrive(answers: BarrierAnswers, pending: PendingBarrier) -> BarrierAnswers:
    """Keeps a barrier until its turn comes."""
    heard = hear_of(answers, pending.checkpoint)
    return replace(heard, waiting=(*answers.waiting, pending))


def hear_of(answers: BarrierAnswers, checkpoint: int) -> BarrierAnswers:
    return replace(answers, newest=max(answers.newest, checkpoint))


def begin_next(answers: BarrierAnswers) -> Answered:
    """Begins with the barrier that has waited longest, if no other is under way."""
    if answers.current is not None or not answers.waiting:
        return answers, ()
    first, *others = answers.waiting
    begun = replace(answers, current=AwaitingBoundary(first), waiting=tuple(others))
    return begun, (WatchBatches(first.checkpoint, first.awaits_new_batch),)


def see(
    answers: BarrierAnswers, checkpoint: int, regions: Mapping[RegionId, BatchesOfRegion]
) -> Answered:
    """Whether every region has committed the batch it was in."""
    current = answers.current
    if not isinstance(current, AwaitingBoundary) or current.pending.checkpoint != checkpoint:
        return answers, ()
    begun = current.begun
    if begun is None:
        begun = {region: one.begun for region, one in regions.items()}
    awaits_new_batch = current.pending.awaits_new_batch
    missing = [
        region
        for region, one in regions.items()
        if not one.has_reached(begun.get(region))
        or (awaits_new_batch and not (one.has_new_batch or one.is_finished))
    ]
    if not missing:
        taking, instructions = take(replace(answers, current=None), current.pending)
        return taking, (StopWatching(checkpoint), *instructions)
    for region in missing:
        if not regions[region].is_alive:
            return _give_up(answers, "not_running", "the query has ended in a batch", region)
    return replace(answers, current=replace(current, begun=begun)), ()


def take(answers: BarrierAnswers, pending: PendingBarrier) -> Answered:
    """Takes the snapshot; no other answer is under way."""
    assert answers.current is None
    taking = replace(answers, current=TakingSnapshot(pending), begun=pending.checkpoint)
    return taking, (TakeSnapshot(pending.barrier),)


def break_off(answers: BarrierAnswers, checkpoint: int) -> tuple[Instruction, ...]:
    """Ends the snapshot of this checkpoint early, if that is under way. Its outcome is told."""
    is_under_way = answers.snapshots and _current_checkpoint(answers) == checkpoint
    return (BreakOffSnapshot(checkpoint),) if is_under_way else ()


def abandon(answers: BarrierAnswers) -> Answered:
    """Breaks off the snapshot under way, if there is one. Then nothing is answered any more: what
    the thread would say has to wait until the file that it uploads is done.
    """
    current = answers.current
    if not isinstance(current, TakingSnapshot):
        return answers, ()
    nothing = BarrierAnswers(newest=answers.newest)
    return nothing, (BreakOffSnapshot(current.pending.checkpoint),)


def snapshot_taken(answers: BarrierAnswers, acks: BarrierAcks) -> Answered:
    current = answers.current
    if not isinstance(current, TakingSnapshot) or current.pending.checkpoint != acks.checkpoint:
        return answers, ()
    batches = dict(answers.batches)
    if current.pending.shows_output:
        batches[acks.checkpoint] = acks.batches
    sending = replace(answers, current=SendingAcks(current.pending), batches=batches)
    if current.pending.awaits_new_batch:
        acks = acks.model_copy(update={"has_new_batches": True})
    return sending, (SendAcks(acks, current.pending.deadline),)


def snapshot_failed(
    answers: BarrierAnswers, checkpoint: int, reason: DeclineReason, detail: str
) -> Answered:
    """The snapshot could not be taken, or how far the queries are could not be read."""
    if _current_checkpoint(answers) != checkpoint:
        return answers, ()
    match answers.current:
        case AwaitingBoundary():
            return _give_up(answers, reason, detail, None)
        case TakingSnapshot():
            return decline(replace(answers, current=None), checkpoint, reason, detail)
        case _:
            return answers, ()


def acks_answered(answers: BarrierAnswers, checkpoint: int, outcome: AckOutcome) -> Answered:
    if not is_sending(answers, checkpoint):
        return answers, ()
    answered = replace(answers, current=None)
    match outcome:
        case AckOutcome.COMPLETED | AckOutcome.ALREADY_RECORDED:
            return complete(answered, checkpoint)
        case AckOutcome.RECORDED:
            return answered, ()  # all acks were in one message, so `CheckpointCompleted` follows
        case AckOutcome.TOO_LATE | AckOutcome.SUPERSEDED:
            return _forget(answered, checkpoint), ()


def acks_not_delivered(answers: BarrierAnswers, checkpoint: int) -> BarrierAnswers:
    """The acks may have arrived, and only the answer was lost: `CheckpointCompleted` may follow."""
    return replace(answers, current=None) if is_sending(answers, checkpoint) else answers


def is_sending(answers: BarrierAnswers, checkpoint: int) -> bool:
    return isinstance(answers.current, SendingAcks) and _current_checkpoint(answers) == checkpoint


def complete(answers: BarrierAnswers, checkpoint: int) -> Answered:
    """Publishes the output held for a checkpoint, which includes that of older checkpoints."""
    batches = answers.batches.get(checkpoint)
    if batches is None:
        return answers, ()
    kept = {number: one for number, one in answers.batches.items() if number > checkpoint}
    showing = replace(
        answers,
        batches=kept,
        showing=answers.showing | {checkpoint},
        completed=max(answers.completed, checkpoint),
    )
    return showing, (ShowOutput(checkpoint, batches),)


def shown(answers: BarrierAnswers, checkpoint: int) -> BarrierAnswers:
    return replace(answers, showing=answers.showing - {checkpoint})


def abort(answers: BarrierAnswers, checkpoint: int) -> Answered:
    """The JobManager has aborted the checkpoint."""
    details = {checkpoint: "the checkpoint was aborted"}
    return _decline_where(_forget(answers, checkpoint), details, "no_boundary_in_time")


def expire(answers: BarrierAnswers, now: float) -> Answered:
    late = {
        one.checkpoint: "the checkpoint expired before its turn came"
        for one in answers.waiting
        if one.deadline <= now
    }
    current = answers.current
    if isinstance(current, AwaitingBoundary) and current.pending.deadline <= now:
        late[current.pending.checkpoint] = "a batch took longer than the checkpoint may"
    return _decline_where(answers, late, "no_boundary_in_time")


def refuse(answers: BarrierAnswers, detail: str) -> Answered:
    """Declines every barrier that has no snapshot under way."""
    numbers = [one.checkpoint for one in answers.waiting]
    if isinstance(answers.current, AwaitingBoundary):
        numbers.append(answers.current.pending.checkpoint)
    return _decline_where(answers, dict.fromkeys(numbers, detail), "not_running")


def decline(
    answers: BarrierAnswers,
    checkpoint: int,
    reason: DeclineReason,
    detail: str,
    region: str | None = None,
) -> Answered:
    declining = replace(hear_of(answers, checkpoint), declining=answers.declining | {checkpoint})
    return declining, (SendDecline(checkpoint, reason, detail, region),)


def decline_answered(answers: BarrierAnswers, checkpoint: int) -> BarrierAnswers:
    return replace(answers, declining=answers.declining - {checkpoint})


def _decline_where(
    answers: BarrierAnswers, details: Mapping[int, str], reason: DeclineReason
) -> Answered:
    """Declines those barriers of these checkpoints that wait for their turn or for a boundary."""
    instructions: tuple[Instruction, ...] = ()
    current = answers.current
    if isinstance(current, AwaitingBoundary) and current.pending.checkpoint in details:
        detail = details[current.pending.checkpoint]
        answers, instructions = _give_up(answers, reason, detail, None)
    for one in answers.waiting:
        if one.checkpoint in details:
            left = tuple(other for other in answers.waiting if other != one)
            answers, more = decline(
                replace(answers, waiting=left), one.checkpoint, reason, details[one.checkpoint]
            )
            instructions += more
    return answers, instructions


def _give_up(
    answers: BarrierAnswers, reason: DeclineReason, detail: str, region: RegionId | None
) -> Answered:
    """Declines the barrier that waits for its boundary."""
    assert isinstance(answers.current, AwaitingBoundary)
    checkpoint = answers.current.pending.checkpoint
    declined, instructions = decline(
        replace(answers, current=None), checkpoint, reason, detail, region
    )
    return declined, (StopWatching(checkpoint), *instructions)


def _forget(answers: BarrierAnswers, checkpoint: int) -> BarrierAnswers:
    kept = {number: one for number, one in answers.batches.items() if number != checkpoint}
    return replace(answers, batches=kept)


def _current_checkpoint(answers: BarrierAnswers) -> int | None:
    return answers.current.pending.checkpoint if answers.current else None
