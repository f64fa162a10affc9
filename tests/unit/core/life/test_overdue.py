"""What a runner did not do in time."""

from datetime import UTC, datetime, timedelta

import pytest

from jobmanager.core.ids import AttemptNumber
from jobmanager.core.life.attempt import (
    Attempt,
    AttemptStatus,
    RunnerWentSilent,
    StartTimedOut,
    transition,
)
from jobmanager.core.life.effects import KillRunner
from jobmanager.core.life.overdue import RunnerLimits, RunnerTimes, overdue

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
LIMITS = RunnerLimits(timedelta(seconds=30), timedelta(minutes=3), timedelta(minutes=10))


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def an_attempt(status: AttemptStatus) -> Attempt:
    return Attempt(AttemptNumber(1), status, launched_at=NOON)


def late(
    now: float,
    heartbeat: float | None,
    *,
    moved: float | None = None,
    since: float = 0,
    status: AttemptStatus = AttemptStatus.STARTING,
) -> RunnerWentSilent | StartTimedOut | None:
    times = RunnerTimes(
        launched_at=NOON,
        heartbeat_at=None if heartbeat is None else at(heartbeat),
        moved_at=None if moved is None else at(moved),
        listening_since=at(since),
    )
    return overdue(an_attempt(status), times, LIMITS, at(now))


def test_silence_counts_from_the_last_heartbeat() -> None:
    assert late(5.4, 5) is None
    assert late(5.6, 5) == RunnerWentSilent(at(5.6), timedelta(seconds=36))


def test_what_was_not_heard_before_the_leader_listened_is_no_silence() -> None:
    assert late(50, 5, since=49.9) is None


def test_a_runner_that_never_registered_has_three_minutes() -> None:
    assert late(2.9, None) is None
    assert isinstance(late(3.1, None), RunnerWentSilent)


def test_a_heartbeat_from_the_future_does_not_hide_silence() -> None:
    """It was written by a leader whose clock was two hours ahead."""
    assert late(0.4, 120) is None
    assert late(0.6, 120) == RunnerWentSilent(at(0.6), timedelta(seconds=36))


def test_a_heartbeat_that_was_read_a_moment_after_the_clock_counts() -> None:
    assert late(60, 60.01, status=AttemptStatus.RUNNING) is None


def test_a_start_that_moves_no_data_times_out_though_heartbeats_come() -> None:
    assert late(9.9, 9.9) is None
    assert late(10.1, 10.1) == StartTimedOut(at(10.1), timedelta(minutes=10.1))


def test_a_start_that_moves_data_may_take_hours() -> None:
    assert late(300, 300, moved=295) is None
    assert isinstance(late(306, 306, moved=295), StartTimedOut)


@pytest.mark.parametrize("status", [AttemptStatus.RUNNING, AttemptStatus.CANCELLING])
def test_an_attempt_that_does_not_start_has_no_start_to_time_out(status: AttemptStatus) -> None:
    assert late(500, 500, status=status) is None


def test_a_start_that_timed_out_is_a_failure_that_a_restart_may_cure() -> None:
    event = StartTimedOut(at(11), timedelta(minutes=11))
    ended, effects = transition(an_attempt(AttemptStatus.STARTING), event)
    assert ended.status is AttemptStatus.FAILED
    assert ended.failure is not None
    assert ended.failure.is_restartable
    assert "read and written nothing for 660 s" in ended.failure.message
    assert isinstance(effects[0], KillRunner)


def test_an_attempt_that_began_to_run_meanwhile_goes_on() -> None:
    running = an_attempt(AttemptStatus.RUNNING)
    event = StartTimedOut(at(11), timedelta(minutes=11))
    assert transition(running, event) == (running, ())
