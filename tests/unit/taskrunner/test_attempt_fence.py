"""An attempt without a JobManager: with a sink that cannot be fenced it stops in time."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobmanager.core.ids import VertexId
from jobmanager.core.life.replacement import STOP_WITHIN
from jobmanager.protocol.messages import AttemptCancelledReport, AttemptFailedReport
from taskrunner.core.attempt import events, machine
from taskrunner.core.attempt.events import Event, HeartbeatAnswered, TimePassed
from taskrunner.core.attempt.instructions import (
    Instruction,
    KillProcess,
    StartQueries,
    StopRegionsAtOnce,
)
from taskrunner.core.attempt.phases import AttemptState, Ended
from taskrunner.core.fence_time import FenceTime, JobManagerLost
from tests.unit.taskrunner.attempts import (
    ENDED,
    FAILED,
    FINISHED,
    PREPARED,
    REPLACED,
    STARTED,
    STOPPED,
    Driven,
    a_barrier,
    a_cancel,
    a_stop,
    answers_to,
    seen,
    taken,
)

AFTER = 60.0
KILLED_AFTER = AFTER + STOP_WITHIN.total_seconds()
TRESPASSING = replace(PREPARED, unfenced=(VertexId("mails"),))


class Cut(Driven):
    """An attempt with a `python` sink, whose last heartbeat was answered at second 0."""

    def __init__(self, after: float | None = AFTER, prepared: Event = TRESPASSING) -> None:
        super().__init__()
        self.state, _ = machine.begin(0.0, FenceTime(0.0, after))
        self.tell(prepared, STARTED)


def test_it_stops_and_fails_when_no_heartbeat_was_answered_for_its_fence_time() -> None:
    attempt = Cut()
    assert attempt.tell(TimePassed(59.9)) == []
    assert machine.next_deadline(attempt.state) == AFTER

    assert StopRegionsAtOnce() in attempt.tell(TimePassed(AFTER))
    attempt.tell(STOPPED)

    (report,) = attempt.endings
    assert isinstance(report, AttemptFailedReport)
    assert report.failure.is_restartable
    assert "no JobManager has answered for 60 s" in report.failure.message
    assert "'mails' cannot be fenced" in report.failure.message


def test_it_runs_on_while_heartbeats_are_answered() -> None:
    attempt = Cut()
    for second in range(1, 1000, 50):
        attempt.tell(TimePassed(second + 0.2), HeartbeatAnswered(second))
    assert attempt.phase == "Running"
    assert machine.next_deadline(attempt.state) == 951 + AFTER


def test_an_answer_to_an_older_heartbeat_takes_no_time_away() -> None:
    attempt = Cut()
    attempt.tell(HeartbeatAnswered(30.0), HeartbeatAnswered(10.0))
    assert machine.next_deadline(attempt.state) == 30 + AFTER


@pytest.mark.parametrize(
    "attempt",
    [Cut(prepared=PREPARED), Cut(after=None)],
    ids=["every sink is fenced", "no fence time"],
)
def test_without_need_it_works_through_any_outage(attempt: Cut) -> None:
    attempt.tell(TimePassed(1e6))
    assert attempt.phase == "Running"
    assert machine.next_deadline(attempt.state) is None


def test_queries_that_do_not_stop_cost_the_process() -> None:
    attempt = Cut()
    attempt.tell(TimePassed(AFTER))
    assert machine.next_deadline(attempt.state) == KILLED_AFTER
    (killed,) = attempt.tell(TimePassed(KILLED_AFTER))
    assert isinstance(killed, KillProcess)
    assert isinstance(attempt.state.phase, Ended)


def test_a_failed_attempt_whose_queries_do_not_stop_is_killed_in_time_too() -> None:
    attempt = Cut()
    attempt.tell(FAILED, TimePassed(KILLED_AFTER - 1))
    assert attempt.phase == "Ending"
    assert any(isinstance(one, KillProcess) for one in attempt.tell(TimePassed(KILLED_AFTER)))


def test_an_answer_in_the_last_moment_does_not_bring_a_stopping_attempt_back() -> None:
    attempt = Cut()
    attempt.tell(TimePassed(AFTER), HeartbeatAnswered(AFTER - 1), STOPPED)
    assert len(attempt.endings) == 1


def test_what_was_prepared_too_late_does_not_start() -> None:
    attempt = Driven()
    attempt.state, _ = machine.begin(0.0, FenceTime(0.0, AFTER))
    given = attempt.tell(TimePassed(AFTER), TRESPASSING)
    assert StartQueries() not in given
    assert isinstance(attempt.endings[0], AttemptFailedReport)


def test_preparing_alone_is_no_reason_to_stop() -> None:
    attempt = Driven()
    attempt.state, _ = machine.begin(0.0, FenceTime(0.0, AFTER))
    attempt.tell(TimePassed(10 * AFTER))
    assert attempt.phase == "Preparing"


def test_a_cancelled_attempt_is_cancelled_then() -> None:
    attempt = Cut()
    attempt.tell(a_cancel(1000), TimePassed(AFTER), STOPPED)
    assert isinstance(attempt.endings[0], AttemptCancelledReport)


def test_a_stop_that_is_cut_off_is_declined_and_fails() -> None:
    attempt = Cut()
    attempt.tell(a_stop(5, 1000), TimePassed(AFTER), STOPPED)
    attempt.tell(events.DeclineAnswered(5))
    assert isinstance(attempt.endings[0], AttemptFailedReport)


def test_a_batch_is_not_begun_when_the_time_is_over() -> None:
    fence = FenceTime(100.0, AFTER)
    fence.check(100.0 + AFTER - 0.1)
    with pytest.raises(JobManagerLost, match="no JobManager has answered for 60 s"):
        fence.check(100.0 + AFTER)


deeds = st.one_of(
    st.sampled_from([FAILED, REPLACED, STOPPED, *ENDED, *FINISHED, events.RegionsDrained()]),
    st.builds(a_barrier, st.integers(1, 5)),
    st.builds(a_stop, st.integers(5, 9), st.floats(0, 500), drain=st.booleans()),
    st.builds(a_cancel, st.floats(0, 500)),
    st.builds(taken, st.integers(1, 9)),
    st.builds(seen, st.integers(1, 9), st.just(3), st.just(3)),
    st.builds(events.DeclineAnswered, st.integers(1, 9)),
    st.just("an answer"),
    st.just("a heartbeat"),
    st.floats(0, 40),
    st.floats(0, 40),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(deeds, max_size=40))
def test_nothing_runs_beyond_the_fence_time_and_the_time_to_stop(told: list[object]) -> None:
    """Whatever happens, in whatever order, and whether instructions are carried out or not."""
    state, _ = machine.begin(0.0, FenceTime(0.0, AFTER))
    pending: list[Instruction] = []
    now = heard_at = 0.0
    runs = False
    for one in [TRESPASSING, STARTED, *told, 1000.0]:
        given_events: list[Event] = []
        if isinstance(one, float):
            now += one
            given_events = [TimePassed(now)]
        elif one == "a heartbeat":
            heard_at = max(heard_at, now)
            given_events = [TimePassed(now), HeartbeatAnswered(now)]
        elif one == "an answer":
            given_events = answers_to(pending.pop(0)) if pending else []
        else:
            given_events = [one]  # type: ignore[list-item]
        for event in given_events:
            was_running = runs
            state, instructions = machine.step(state, event)
            pending += instructions
            runs |= StartQueries() in instructions
            if isinstance(event, events.RegionsStopped):
                runs = False
            if any(isinstance(given, KillProcess) for given in instructions):
                assert was_running
                assert now >= heard_at + KILLED_AFTER, "killed before its time"
                return
            if isinstance(event, TimePassed) and runs and not _was_ended(state):
                assert now < heard_at + KILLED_AFTER, "queries run on without a JobManager"
                deadline = machine.next_deadline(state)
                assert deadline is not None
                assert deadline <= heard_at + KILLED_AFTER, "nobody would wake up in time"


def _was_ended(state: AttemptState) -> bool:
    """Replaced or dismissed: the shell stops the queries, or ends the process."""
    return isinstance(state.phase, Ended)
