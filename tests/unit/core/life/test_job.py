from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.graph.job_graph import FailureRate, FixedDelay, NoRestart
from jobmanager.core.ids import AttemptNumber
from jobmanager.core.life import job as machine
from jobmanager.core.life.attempt import AttemptStatus
from jobmanager.core.life.job import (
    AttemptMoved,
    AttemptOrder,
    Changed,
    Desired,
    Job,
    JobCancelRequested,
    JobEvent,
    JobPauseRequested,
    JobResumeRequested,
    JobStatus,
    RestartDue,
    transition,
)
from tests.support.builders import (
    NOW,
    ONE_SECOND,
    PATIENT,
    a_failure,
    a_job,
    after,
    an_attempt,
)


def moved(status: AttemptStatus, number: int = 1, *, restartable: bool = True) -> AttemptMoved:
    failure = None
    if status is AttemptStatus.FAILED:
        failure = a_failure(restartable=restartable)
    attempt = an_attempt(status, number=AttemptNumber(number), failure=failure)
    return AttemptMoved(after(1), attempt)


def test_a_submitted_job_launches_its_first_attempt() -> None:
    job, step = machine.submit(PATIENT, NOW)

    assert (job.status, job.attempt, step) == (JobStatus.STARTING, 1, AttemptOrder.LAUNCH_NEXT)


def test_runs_when_its_attempt_runs() -> None:
    job, _ = transition(a_job(JobStatus.STARTING), moved(AttemptStatus.RUNNING))

    assert job.status is JobStatus.RUNNING


def test_news_of_an_older_attempt_is_not_heard() -> None:
    before = a_job(attempt=AttemptNumber(2))

    assert transition(before, moved(AttemptStatus.FAILED, number=1)).job == before


def test_a_failure_is_followed_by_a_restart_after_the_delay() -> None:
    restarting, nothing = transition(a_job(), moved(AttemptStatus.FAILED))
    too_early, still_nothing = transition(restarting, RestartDue(after(1.5)))
    restarted, step = transition(restarting, RestartDue(after(2)))

    assert restarting.status is JobStatus.RESTARTING
    assert restarting.restart_at == after(2)
    assert (too_early, nothing, still_nothing) == (restarting, None, None)
    assert (restarted.status, restarted.attempt, step) == (
        JobStatus.STARTING,
        2,
        AttemptOrder.LAUNCH_NEXT,
    )


def test_a_failure_no_restart_can_cure_ends_the_job_at_once() -> None:
    job, _ = transition(a_job(), moved(AttemptStatus.FAILED, restartable=False))

    assert job.status is JobStatus.FAILED
    assert "a restart would not help" in job.reason


def test_fails_when_the_strategy_gives_up() -> None:
    job, _ = transition(a_job(restart=NoRestart()), moved(AttemptStatus.FAILED))

    assert job.status is JobStatus.FAILED
    assert job.reason == "boom (restart strategy 'none')"


def test_a_job_counts_all_failures_and_remembers_the_last_ones() -> None:
    job = a_job(restart=FailureRate(max_failures=9, interval=ONE_SECOND, delay=ONE_SECOND))
    for number in range(1, 201):
        at = after(10 * number)
        attempt = an_attempt(
            AttemptStatus.FAILED, number=AttemptNumber(number), failure=a_failure(f"no {number}")
        )
        batches = {"out": number}  # each attempt comes further
        job, _ = transition(job, AttemptMoved(at, attempt, batches))
        assert job.status is JobStatus.RESTARTING, job.reason
        job, _ = transition(job, RestartDue(at + ONE_SECOND))

    assert job.failures == 200
    assert job.failed_at == tuple(after(10 * number) for number in range(151, 201))


def test_a_fixed_number_of_restarts_counts_the_forgotten_failures() -> None:
    known = tuple(after(-n) for n in range(50, 0, -1))
    job = a_job(
        restart=FixedDelay(attempts=60, delay=ONE_SECOND), failed_at=known, forgotten_failures=10
    )

    failed, _ = transition(job, moved(AttemptStatus.FAILED))

    assert (failed.status, failed.failures) == (JobStatus.FAILED, 61)


def test_cancel_stops_the_attempt_and_then_the_job() -> None:
    cancelling, step = transition(a_job(), JobCancelRequested(after(1), "by a client"))
    cancelled, _ = transition(cancelling, moved(AttemptStatus.CANCELLED))

    assert (cancelling.status, step) == (JobStatus.CANCELLING, AttemptOrder.CANCEL_CURRENT)
    assert cancelling.desired is Desired.CANCELLED
    assert (cancelled.status, cancelled.reason) == (JobStatus.CANCELLED, "by a client")


def test_cancel_while_waiting_for_a_restart_ends_the_job_at_once() -> None:
    waiting = a_job(JobStatus.RESTARTING, restart_at=after(5))

    job, step = transition(waiting, JobCancelRequested(after(1), "by a client"))

    assert (job.status, job.restart_at, step) == (JobStatus.CANCELLED, None, None)


def test_a_job_that_finishes_before_the_cancel_reached_it_is_finished() -> None:
    cancelling, _ = transition(a_job(), JobCancelRequested(after(1), "by a client"))

    assert transition(cancelling, moved(AttemptStatus.FINISHED)).job.status is JobStatus.FINISHED


def test_a_changed_job_goes_on_with_the_next_attempt_and_its_failures_are_not_counted() -> None:
    job, step = transition(a_job(), Changed(after(1), "rescaled from 2 to 4"))

    assert (job.status, job.attempt, step) == (JobStatus.STARTING, 2, AttemptOrder.LAUNCH_NEXT)
    assert (job.reason, job.failed_at) == ("rescaled from 2 to 4", ())


def test_a_job_that_is_being_cancelled_is_not_changed_any_more() -> None:
    cancelling, _ = transition(a_job(), JobCancelRequested(after(1), "by a client"))

    assert transition(cancelling, Changed(after(2), "rescaled")).job == cancelling


PAUSE = JobPauseRequested(after(1), "paused by a client")
RESUME = JobResumeRequested(after(3), "resumed by a client")


def test_a_paused_job_rests_until_it_is_resumed() -> None:
    pausing, step = transition(a_job(), PAUSE)
    paused, nothing = transition(pausing, moved(AttemptStatus.CANCELLED))
    resumed, launch = transition(paused, RESUME)

    assert (pausing.status, step) == (JobStatus.PAUSING, AttemptOrder.PAUSE_CURRENT)
    assert (paused.status, paused.reason, nothing) == (
        JobStatus.PAUSED,
        "paused by a client",
        None,
    )
    assert transition(paused, RestartDue(after(60))).job == paused
    assert transition(paused, PAUSE).job == paused
    assert (resumed.status, resumed.attempt, launch) == (
        JobStatus.STARTING,
        2,
        AttemptOrder.LAUNCH_NEXT,
    )


def test_an_attempt_that_fails_while_it_is_paused_is_not_restarted() -> None:
    pausing, _ = transition(a_job(), PAUSE)

    paused, step = transition(pausing, moved(AttemptStatus.FAILED))

    assert (paused.status, paused.restart_at, step) == (JobStatus.PAUSED, None, None)
    assert "meanwhile attempt 1 failed" in paused.reason


def test_a_job_that_waits_for_a_restart_is_paused_at_once() -> None:
    job, step = transition(a_job(JobStatus.RESTARTING, restart_at=after(5)), PAUSE)

    assert (job.status, job.restart_at, step) == (JobStatus.PAUSED, None, None)


def test_a_pause_that_is_taken_back_in_time_is_followed_by_the_next_attempt() -> None:
    pausing, _ = transition(a_job(), PAUSE)
    wanted, nothing = transition(pausing, RESUME)

    going_on, step = transition(wanted, moved(AttemptStatus.CANCELLED))

    assert (wanted.status, nothing) == (JobStatus.PAUSING, None)
    assert (going_on.status, going_on.attempt, step) == (
        JobStatus.STARTING,
        2,
        AttemptOrder.LAUNCH_NEXT,
    )


def test_a_paused_job_is_cancelled_at_once_and_its_runner_let_go() -> None:
    job, step = transition(
        a_job(JobStatus.PAUSED, desired=Desired.PAUSED), JobCancelRequested(after(1), "enough")
    )

    assert (job.status, step) == (JobStatus.CANCELLED, AttemptOrder.RELEASE_RUNNER)


def test_a_job_that_is_being_cancelled_is_neither_paused_nor_resumed() -> None:
    cancelling, _ = transition(a_job(), JobCancelRequested(after(1), "by a client"))

    assert transition(cancelling, PAUSE).job == cancelling
    assert transition(cancelling, RESUME).job == cancelling


NUMBERS = st.sampled_from([1, 2, 3])
EVENTS: st.SearchStrategy[JobEvent] = st.one_of(
    st.builds(moved, st.sampled_from(AttemptStatus), NUMBERS, restartable=st.booleans()),
    st.builds(JobCancelRequested, st.just(after(1)), st.just("by a client")),
    st.builds(RestartDue, st.sampled_from([after(1), after(60)])),
    st.builds(Changed, st.just(after(1)), st.just("rescaled")),
    st.just(PAUSE),
    st.just(RESUME),
)


@given(st.lists(EVENTS, max_size=20))
def test_whatever_happens_attempts_ascend_and_nothing_leaves_a_terminal_state(
    events: list[JobEvent],
) -> None:
    job, _ = machine.submit(FixedDelay(attempts=2, delay=ONE_SECOND), NOW)
    for event in events:
        before: Job = job
        job, step = transition(job, event)
        if before.status.is_terminal:
            assert job == before
            assert step is None
        assert job.attempt == before.attempt + (step is AttemptOrder.LAUNCH_NEXT)
        assert (job.restart_at is not None) == (job.status is JobStatus.RESTARTING)
        if step is AttemptOrder.LAUNCH_NEXT and not isinstance(event, Changed):
            assert before.status in (JobStatus.RESTARTING, JobStatus.PAUSED, JobStatus.PAUSING)
        if before.desired is Desired.CANCELLED:
            assert step is None
        if before.status is JobStatus.PAUSED and step is AttemptOrder.LAUNCH_NEXT:
            assert isinstance(event, JobResumeRequested)
        if job.status is JobStatus.PAUSED:
            assert job.desired is Desired.PAUSED
    more = sum(isinstance(event, Changed | JobResumeRequested) for event in events)
    assert job.attempt <= 3 + more
