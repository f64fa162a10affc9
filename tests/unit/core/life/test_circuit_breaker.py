from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobmanager.core.ids import AttemptNumber
from jobmanager.core.life import circuit_breaker as breaker
from jobmanager.core.life import job as machine
from jobmanager.core.life.attempt import AttemptStatus
from jobmanager.core.life.circuit_breaker import MOST_ALIKE, MOST_WITHOUT_PROGRESS, Streak
from jobmanager.core.life.failure import Failure, FailureKind
from jobmanager.core.life.job import AttemptMoved, Job, JobStatus, RestartDue
from tests.support.builders import NOW, PATIENT, after, an_attempt

DIVISION = Failure(FailureKind.DATA, "[DIVIDE_BY_ZERO] at row 7", region="out")
OUTAGE = Failure(FailureKind.INFRASTRUCTURE, "ConnectException: refused", region="out")
SHORT = timedelta(seconds=1)


def streak_of(*failures: Failure, batch: int = 16, ran_for: timedelta = SHORT) -> Streak:
    streak = None
    for failure in failures:
        streak = breaker.extended(streak, failure, {"out": batch}, ran_for)
    assert streak is not None
    return streak


def test_the_same_cause_at_the_same_batch_is_given_up() -> None:
    enough = streak_of(*[DIVISION] * MOST_ALIKE)
    fewer = streak_of(*[DIVISION] * (MOST_ALIKE - 1))

    assert breaker.objection(fewer, DIVISION) is None
    assert breaker.objection(enough, DIVISION) == (
        "circuit breaker: failed 5 times at batch 17 with the same cause: [DIVIDE_BY_ZERO] at row 7"
    )


def test_a_batch_in_between_begins_anew() -> None:
    streak = streak_of(*[DIVISION] * MOST_ALIKE)

    further = breaker.extended(streak, DIVISION, {"out": 17}, SHORT)

    assert (further.alike, further.failures) == (1, 1)


def test_to_be_restored_further_back_is_no_progress() -> None:
    streak = streak_of(*[DIVISION] * 2)

    back = breaker.extended(streak, DIVISION, {"out": 3}, SHORT)

    assert (back.alike, back.committed) == (3, {"out": 16})


def test_an_outage_is_waited_for_longer() -> None:
    patient = streak_of(*[OUTAGE] * (MOST_WITHOUT_PROGRESS - 1))
    enough = streak_of(*[OUTAGE] * MOST_WITHOUT_PROGRESS)

    assert breaker.objection(patient, OUTAGE) is None
    assert "failed 20 times in a row at batch 17 without any progress" in str(
        breaker.objection(enough, OUTAGE)
    )


def test_causes_that_take_turns_are_given_up_too() -> None:
    turns = [DIVISION, OUTAGE] * (MOST_WITHOUT_PROGRESS // 2)

    assert breaker.objection(streak_of(*turns[:-1]), DIVISION) is None
    assert breaker.objection(streak_of(*turns), OUTAGE) is not None


def test_a_job_without_input_that_loses_its_runner_now_and_then_goes_on() -> None:
    streak = streak_of(*[OUTAGE] * 100, ran_for=timedelta(hours=3))

    assert breaker.objection(streak, OUTAGE) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("row 7 of 12", "row 8 of 12"),
        ("The value 'a' is none", "The value 'b' is none"),
        ("file:/x/3f2a9c1b-04.json", "file:/x/9c1b4f22-05.json"),
        ("checkpoint 3 expired", "checkpoint 4 expired"),
    ],
)
def test_numbers_ids_and_values_do_not_make_another_cause(one: str, other: str) -> None:
    failures = [Failure(FailureKind.DATA, text) for text in (one, other)]

    assert breaker.signature(failures[0]) == breaker.signature(failures[1])


def test_another_kind_or_another_text_is_another_cause() -> None:
    kinds = {breaker.signature(Failure(kind, "x")) for kind in FailureKind}
    texts = {breaker.signature(Failure(FailureKind.DATA, text)) for text in ("a", "b")}

    assert (len(kinds), len(texts)) == (len(FailureKind), 2)


FAILURES = st.builds(
    Failure,
    st.sampled_from(FailureKind),
    st.sampled_from(["boom", "bang", "row 1", "row 2"]),
    region=st.sampled_from([None, "out", "raw"]),
)
BATCHES = st.dictionaries(st.sampled_from(["out", "raw"]), st.just(16))


@settings(max_examples=30)
@given(st.lists(st.tuples(FAILURES, BATCHES), min_size=3 * MOST_WITHOUT_PROGRESS))
def test_no_job_is_restarted_for_ever_without_progress(
    failures: list[tuple[Failure, dict[str, int]]],
) -> None:
    """Whatever the causes are: exponential_delay without max_attempts never gives up itself."""
    job, _ = machine.submit(PATIENT, NOW)
    for number, (failure, batches) in enumerate(failures):
        job = fail_and_restart(job, failure, batches, number * 100)

    assert job.status is JobStatus.FAILED
    assert job.reason.startswith("circuit breaker: ")
    # each of two regions may turn up for the first time in the middle of a streak
    assert job.attempt <= 3 * MOST_WITHOUT_PROGRESS


@given(st.lists(FAILURES, min_size=1, max_size=100))
def test_a_job_that_comes_further_each_time_is_never_given_up(failures: list[Failure]) -> None:
    job, _ = machine.submit(PATIENT, NOW)
    for number, failure in enumerate(failures):
        job = fail_and_restart(job, failure, {"out": number}, number * 100)

    assert job.status is JobStatus.STARTING


def fail_and_restart(job: Job, failure: Failure, committed: dict[str, int], at: int) -> Job:
    attempt = an_attempt(AttemptStatus.FAILED, number=job.attempt, failure=failure)
    failed, _ = machine.transition(job, AttemptMoved(after(at), attempt, committed))
    assert failed.attempt == AttemptNumber(job.attempt)
    return machine.transition(failed, RestartDue(after(at + 60))).job
