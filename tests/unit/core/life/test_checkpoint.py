from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.ids import AttemptNumber, CheckpointNumber, SubtaskRef
from jobmanager.core.life.checkpoint import (
    AbortReason,
    AckOutcome,
    AttemptEnded,
    BarrierAcked,
    BarrierDeclined,
    Checkpoint,
    CheckpointEvent,
    CheckpointExpired,
    CheckpointKind,
    CheckpointStatus,
    CheckpointTransition,
    transition,
    trigger,
)
from jobmanager.core.life.effects import (
    AnnounceCompletion,
    DiscardCheckpoint,
    SendBarrier,
    WithdrawBarrier,
)
from jobmanager.core.plan.job_plan import SnapshotKind
from tests.support.builders import NOW, a_checkpoint, a_snapshot, a_subtask, after, stored

LEFT, RIGHT, STRANGER = a_subtask(subtask=0), a_subtask(subtask=1), a_subtask("nobody")


def acked(*subtasks: SubtaskRef, attempt: int = 1) -> BarrierAcked:
    snapshots = {one: a_snapshot(f"pool/{one.vertex}/{one.subtask}") for one in subtasks}
    return BarrierAcked(after(1), AttemptNumber(attempt), snapshots, stored())


def declined(attempt: int = 1) -> BarrierDeclined:
    reason = AbortReason.DECLINED_STORAGE
    return BarrierDeclined(after(1), AttemptNumber(attempt), reason, "no space")


def feed(checkpoint: Checkpoint, *events: CheckpointEvent) -> CheckpointTransition:
    """Feed `events` in order; return the last transition."""
    result = CheckpointTransition(checkpoint)
    for event in events:
        result = transition(result.checkpoint, event)
    return result


def test_a_trigger_writes_the_awaited_set_and_sends_the_barrier() -> None:
    awaited = {LEFT: SnapshotKind.STATE, RIGHT: SnapshotKind.STATE}

    checkpoint, _, effects = trigger(
        CheckpointNumber(7), AttemptNumber(1), CheckpointKind.PERIODIC, awaited, NOW, after(60)
    )

    assert checkpoint.awaiting == awaited
    assert effects == (SendBarrier(AttemptNumber(1), CheckpointNumber(7), after(60)),)


def test_completes_when_the_last_subtask_acks() -> None:
    checkpoint, outcome, effects = feed(a_checkpoint(LEFT, RIGHT), acked(LEFT), acked(RIGHT))

    assert checkpoint.status is CheckpointStatus.COMPLETED
    assert checkpoint.stored == stored()
    assert outcome is AckOutcome.COMPLETED
    assert effects == (AnnounceCompletion(AttemptNumber(1), CheckpointNumber(7)),)


def test_a_repeated_ack_does_not_stand_in_for_a_missing_one() -> None:
    checkpoint, outcome, effects = feed(a_checkpoint(LEFT, RIGHT), acked(LEFT), acked(LEFT))

    assert checkpoint.status is CheckpointStatus.IN_PROGRESS
    assert outcome is AckOutcome.ALREADY_RECORDED
    assert effects == ()


def test_a_repeated_ack_of_a_completed_checkpoint_completes_nothing_again() -> None:
    result = feed(a_checkpoint(LEFT), acked(LEFT), acked(LEFT))

    assert result.outcome is AckOutcome.ALREADY_RECORDED
    assert result.effects == ()


def test_an_ack_of_a_subtask_that_is_not_awaited_has_no_vote() -> None:
    checkpoint, outcome, _ = feed(a_checkpoint(LEFT), acked(STRANGER))

    assert checkpoint.status is CheckpointStatus.IN_PROGRESS
    assert checkpoint.awaiting.keys() == {LEFT}
    assert outcome is AckOutcome.RECORDED


def test_an_ack_of_a_superseded_attempt_changes_nothing() -> None:
    before = a_checkpoint(LEFT, attempt=2)

    assert feed(before, acked(LEFT, attempt=1)) == CheckpointTransition(
        before, AckOutcome.SUPERSEDED
    )


def test_a_decline_aborts_and_says_why() -> None:
    checkpoint, _, effects = feed(a_checkpoint(LEFT), declined())

    assert checkpoint.status is CheckpointStatus.ABORTED
    assert checkpoint.aborted_because is AbortReason.DECLINED_STORAGE
    assert effects == (
        WithdrawBarrier(AttemptNumber(1), CheckpointNumber(7), "no space"),
        DiscardCheckpoint(CheckpointNumber(7)),
    )


def test_a_late_ack_after_a_decline_is_told_so_and_its_files_go() -> None:
    _, outcome, effects = feed(a_checkpoint(LEFT), declined(), acked(LEFT))

    assert outcome is AckOutcome.TOO_LATE
    assert effects == (DiscardCheckpoint(CheckpointNumber(7)),)


def test_expires_at_its_deadline_and_names_who_is_late() -> None:
    checkpoint, _, _ = feed(a_checkpoint(LEFT, RIGHT), acked(LEFT), CheckpointExpired(after(60)))

    assert checkpoint.aborted_because is AbortReason.EXPIRED
    assert checkpoint.detail == "no ack from revenue/1 in time"


def test_does_not_expire_before_its_deadline() -> None:
    before = a_checkpoint(LEFT)

    assert feed(before, CheckpointExpired(after(59))).checkpoint == before


def test_ends_with_its_attempt() -> None:
    checkpoint, _, _ = feed(a_checkpoint(LEFT), AttemptEnded(after(1), AttemptNumber(1), "lost"))

    assert checkpoint.aborted_because is AbortReason.ATTEMPT_ENDED


def test_does_not_end_with_another_attempt() -> None:
    before = a_checkpoint(LEFT, attempt=2)

    assert feed(before, AttemptEnded(after(1), AttemptNumber(1), "lost")).checkpoint == before


SUBTASKS = st.sampled_from([LEFT, RIGHT, a_subtask("bids"), STRANGER])
EVENTS: st.SearchStrategy[CheckpointEvent] = st.one_of(
    st.builds(
        lambda subtasks, attempt: acked(*subtasks, attempt=attempt),
        st.sets(SUBTASKS),
        st.sampled_from([1, 2]),
    ),
    st.builds(declined, st.sampled_from([1, 2])),
    st.builds(CheckpointExpired, st.sampled_from([after(1), after(60)])),
    st.builds(
        AttemptEnded, st.just(after(1)), st.sampled_from([AttemptNumber(1), AttemptNumber(2)]),
        st.just("lost"),
    ),
)  # fmt: skip


@given(st.lists(EVENTS, max_size=20))
def test_whatever_happens_it_completes_once_and_only_with_every_ack(
    events: list[CheckpointEvent],
) -> None:
    checkpoint = a_checkpoint(LEFT, RIGHT, a_subtask("bids"))
    everyone = set(checkpoint.awaiting)
    completions = 0
    for event in events:
        before = checkpoint
        checkpoint, _, effects = transition(checkpoint, event)
        completions += sum(isinstance(effect, AnnounceCompletion) for effect in effects)
        # awaited and acked together are always everyone, and nobody is in both
        assert set(checkpoint.awaiting) | set(checkpoint.snapshots) == everyone
        assert not set(checkpoint.awaiting) & set(checkpoint.snapshots)
        if before.status is not CheckpointStatus.IN_PROGRESS:
            assert checkpoint == before
    assert completions == (checkpoint.status is CheckpointStatus.COMPLETED)
    if checkpoint.status is CheckpointStatus.COMPLETED:
        assert set(checkpoint.snapshots) == everyone
