"""Random events against whole lives: what must hold after every step, whatever happens."""

from collections import Counter
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobmanager.core.errors import DomainError
from jobmanager.core.ids import AttemptNumber, CheckpointNumber
from jobmanager.core.life import effects, events
from jobmanager.core.life.checkpoint import (
    AckOutcome,
    CheckpointStatus,
)
from jobmanager.core.life.draft import is_under_way
from jobmanager.core.life.life import Life, Step, begin, step
from jobmanager.core.life.operation import OperationKind
from jobmanager.core.life.records import HistoryEntry
from jobmanager.core.life.savepoint import SavepointStatus
from tests.support.builders import NOW
from tests.support.chance import Chance
from tests.support.lives import a_submission


class Witness:
    """Has seen a whole life, and says what must never be."""

    def __init__(self, first: Step) -> None:
        self.life = first.life
        self._completions: Counter[CheckpointNumber] = Counter()
        self._launched = [AttemptNumber(1)]
        self._ended_at: datetime | None = None

    def see(self, event: events.LifeEvent, after: Step) -> None:
        before, life = self.life, after.life
        self._nothing_leaves_a_terminal_state(before, after)
        self._checkpoints_complete_once(event, after)
        self._savepoints_are_kept(before, life)
        self._attempts_ascend(after)
        self._the_parts_agree(life)
        self.life = life

    def _nothing_leaves_a_terminal_state(self, before: Life, after: Step) -> None:
        life = after.life
        if before.job.job.status.is_terminal:
            assert life.job.job == before.job.job
            assert not [one for one in after.effects if isinstance(one, effects.LaunchAttempt)]
        for number, attempt in before.attempts.items():
            if attempt.attempt.status.is_terminal:
                assert life.attempts[number].attempt == attempt.attempt
        for checkpoint in before.checkpoints.values():
            if checkpoint.status is not CheckpointStatus.IN_PROGRESS:
                assert life.checkpoints[checkpoint.number] == checkpoint
        for key, operation in before.operations.items():
            if not is_under_way(operation):
                assert life.operations[key] == operation

    def _checkpoints_complete_once(self, event: events.LifeEvent, after: Step) -> None:
        announced = [e for e in after.effects if isinstance(e, effects.AnnounceCompletion)]
        self._completions.update(one.checkpoint for one in announced)
        assert all(count == 1 for count in self._completions.values())
        assert (after.outcome is AckOutcome.COMPLETED) == bool(announced)
        for one in announced:
            completed = after.life.checkpoints[one.checkpoint]
            assert not completed.awaiting
            assert completed.status is CheckpointStatus.COMPLETED

    def _savepoints_are_kept(self, before: Life, life: Life) -> None:
        for key, savepoint in before.savepoints.items():
            if savepoint.status is not SavepointStatus.COMPLETED:
                continue
            is_kept = life.savepoints[key].status is SavepointStatus.COMPLETED
            # only the savepoint of a rescale goes by itself, when the rescaled job is safe
            is_claimed = savepoint.labels.get("taken_by") == OperationKind.RESCALE
            assert is_kept or (is_claimed and len(life.restorable) > 0)

    def _attempts_ascend(self, after: Step) -> None:
        for one in after.history:
            if isinstance(one, HistoryEntry) and one.kind == "attempt_launching":
                assert one.attempt == self._launched[-1] + 1
                self._launched.append(one.attempt)
        assert after.life.job.job.attempt == self._launched[-1]

    def _the_parts_agree(self, life: Life) -> None:
        job, attempt = life.job.job, life.attempt.attempt
        under_way = [one for one in life.operations.values() if is_under_way(one)]
        assert sum(one.operation.kind is not OperationKind.SAVEPOINT for one in under_way) <= 1
        assert life.job.base_attempt <= job.attempt
        alive = [a for a in life.attempts.values() if not a.attempt.status.is_terminal]
        assert len(alive) <= 1
        assert attempt.number == job.attempt
        if job.status.is_terminal or job.status == "restarting":
            assert not alive
            assert not life.checkpoints_under_way
        else:
            assert alive
        if job.status.is_terminal:
            assert not under_way
        for checkpoint in life.checkpoints_under_way:
            assert checkpoint.attempt == job.attempt
        assert (life.job.ended_at is not None) == job.status.is_terminal
        assert life.job.next_checkpoint_at is None or job.status == "running"
        numbers = [*life.checkpoints]
        assert numbers == sorted(numbers)
        assert all(number < life.job.next_checkpoint for number in numbers)
        for number in life.restorable:
            assert life.checkpoints[number].status is CheckpointStatus.COMPLETED


def live(seed: int, length: int) -> Life:
    first = begin(a_submission(NOW))
    chance, witness = Chance(seed), Witness(first)
    for _ in range(length):
        event = chance.event(witness.life)
        try:
            after = step(witness.life, event)
        except DomainError:
            continue  # refused, and nothing has changed
        witness.see(event, after)
    return witness.life


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_what_must_hold_holds_after_every_event(seed: int) -> None:
    live(seed, length=120)


def test_the_random_lives_come_to_everything_worth_seeing() -> None:
    seen: Counter[str] = Counter()
    for seed in range(250):
        life = live(seed, length=120)
        seen.update(str(one.operation.status) for one in life.operations.values())
        seen.update(f"{one.operation.kind}" for one in life.operations.values())
        seen[f"job {life.job.job.status}"] += 1
        seen.update(f"savepoint {one.status}" for one in life.savepoints.values())
        seen[f"several attempts {life.job.job.attempt > 3}"] += 1

    for wanted in (
        *("completed", "failed", "rolled_back", "rescale", "upgrade", "stop", "cancel"),
        *("savepoint completed", "savepoint failed", "savepoint disposed"),
        *("job failed", "job finished", "job cancelled", "several attempts True"),
    ):
        assert seen[wanted] >= 3, (wanted, seen)


def test_the_same_events_come_to_the_same_life() -> None:
    assert live(7, 100) == live(7, 100)


@pytest.mark.parametrize("seed", range(20))
def test_a_step_leaves_the_life_it_was_given_alone(seed: int) -> None:
    chance, life = Chance(seed), begin(a_submission(NOW)).life
    for _ in range(60):
        event, before = chance.event(life), repr(life)
        try:
            after = step(life, event)
        except DomainError:
            continue
        assert repr(life) == before
        life = after.life
