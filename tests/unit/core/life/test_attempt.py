from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.ids import AttemptNumber
from jobmanager.core.life import attempt as machine
from jobmanager.core.life.attempt import Attempt, AttemptEvent, AttemptStatus, transition
from jobmanager.core.life.effects import (
    CancelAttempt,
    Effect,
    KillRunner,
    LaunchAttempt,
    ReleaseRunner,
    StartAttempt,
)
from jobmanager.core.life.failure import FailureKind
from tests.support.builders import NOW, a_failure, after, an_attempt

ONE = AttemptNumber(1)
GRACE = timedelta(seconds=30)


def feed(attempt: Attempt, *events: AttemptEvent) -> tuple[Attempt, tuple[Effect, ...]]:
    effects: tuple[Effect, ...] = ()
    for event in events:
        attempt, more = transition(attempt, event)
        effects += more
    return attempt, effects


def test_a_launch_asks_for_a_runner_and_leaves_it_an_order() -> None:
    attempt, effects = machine.launch(ONE, NOW)

    assert attempt.status is AttemptStatus.LAUNCHING
    assert effects == (LaunchAttempt(ONE), StartAttempt(ONE))


def test_runs_after_it_registered_and_its_queries_started() -> None:
    attempt, _ = feed(
        an_attempt(AttemptStatus.LAUNCHING),
        machine.RunnerRegistered(after(1)),
        machine.QueriesStarted(after(2)),
    )

    assert attempt.status is AttemptStatus.RUNNING
    assert attempt.running_at == after(2)


def test_a_repeated_registration_does_not_set_a_running_attempt_back() -> None:
    attempt, effects = feed(an_attempt(), machine.RunnerRegistered(after(9)))

    assert attempt == an_attempt()
    assert effects == ()


def test_a_finished_attempt_releases_its_runner() -> None:
    attempt, effects = feed(an_attempt(), machine.AttemptFinished(after(1)))

    assert attempt.status is AttemptStatus.FINISHED
    assert effects == (ReleaseRunner(ONE),)


def test_a_process_that_ends_without_a_word_failed() -> None:
    attempt, effects = feed(an_attempt(), machine.RunnerExited(after(1), "killed by SIGKILL"))

    assert attempt.status is AttemptStatus.FAILED
    assert attempt.failure is not None
    assert attempt.failure.kind is FailureKind.LOST
    assert "SIGKILL" in attempt.failure.message
    assert effects == (KillRunner(ONE, attempt.failure.message),)


def test_an_exit_after_the_end_changes_nothing() -> None:
    finished, _ = feed(an_attempt(), machine.AttemptFinished(after(1)))

    assert feed(finished, machine.RunnerExited(after(2), "exit code 0")) == (finished, ())


def test_a_failure_while_cancelling_is_a_cancellation() -> None:
    attempt, _ = feed(
        an_attempt(),
        machine.CancelRequested(after(1), GRACE),
        machine.AttemptFailed(after(2), a_failure()),
    )

    assert attempt.status is AttemptStatus.CANCELLED


def test_a_second_cancel_does_not_prolong_the_grace() -> None:
    once, _ = feed(an_attempt(), machine.CancelRequested(after(1), GRACE))
    twice, effects = feed(
        an_attempt(),
        machine.CancelRequested(after(1), GRACE),
        machine.CancelRequested(after(20), GRACE),
    )

    assert twice == once
    assert effects == (CancelAttempt(ONE, GRACE),)


def test_is_killed_when_the_grace_has_ended_and_not_before() -> None:
    cancelling, _ = feed(an_attempt(), machine.CancelRequested(NOW, GRACE))
    assert cancelling.kill_at is not None

    early, nothing = feed(cancelling, machine.GraceEnded(after(31)))
    late, effects = feed(cancelling, machine.GraceEnded(cancelling.kill_at))

    assert (early, nothing) == (cancelling, ())
    assert late.status is AttemptStatus.CANCELLED
    assert effects == (KillRunner(ONE, "the runner did not stop in time"),)


EVENTS: st.SearchStrategy[AttemptEvent] = st.one_of(
    st.builds(machine.RunnerRegistered, st.just(after(1))),
    st.builds(machine.QueriesStarted, st.just(after(2))),
    st.builds(machine.CancelRequested, st.just(after(3)), st.just(GRACE)),
    st.builds(machine.AttemptFinished, st.just(after(4))),
    st.builds(machine.AttemptCancelled, st.just(after(4))),
    st.builds(machine.AttemptFailed, st.just(after(4)), st.just(a_failure())),
    st.builds(machine.RunnerExited, st.just(after(5)), st.just("exit code 1")),
    st.builds(machine.RunnerWentSilent, st.just(after(6)), st.just(GRACE)),
    st.builds(machine.GraceEnded, st.sampled_from([after(1), after(100)])),
)


@given(st.lists(EVENTS, max_size=15))
def test_whatever_happens_nothing_leaves_a_terminal_state(events: list[AttemptEvent]) -> None:
    attempt, _ = machine.launch(ONE, NOW)
    ends = 0
    for event in events:
        before = attempt
        attempt, effects = transition(attempt, event)
        ends += sum(isinstance(one, ReleaseRunner | KillRunner) for one in effects)
        if before.status.is_terminal:
            assert attempt == before
        assert (attempt.ended_at is not None) == attempt.status.is_terminal
        assert (attempt.status is not AttemptStatus.FAILED) or attempt.failure is not None
        assert (attempt.kill_at is None) or attempt.status is AttemptStatus.CANCELLING
    # every attempt that ended let go of its runner, once
    assert ends == attempt.status.is_terminal
