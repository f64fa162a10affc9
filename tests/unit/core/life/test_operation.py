from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.life.operation import (
    PHASES,
    Abandoned,
    OperationEvent,
    OperationKind,
    OperationStatus,
    PhaseEnded,
    PhaseFailed,
    begin,
    transition,
)
from tests.support.builders import NOW, after


def ended(name: str) -> PhaseEnded:
    return PhaseEnded(after(1), name, "done")


def failed(name: str) -> PhaseFailed:
    return PhaseFailed(after(1), name, "no space")


def test_a_savepoint_is_complete_when_its_phase_has_ended() -> None:
    operation = transition(begin(OperationKind.SAVEPOINT, NOW), ended("savepoint"))

    assert operation.status is OperationStatus.COMPLETED


def test_a_stop_goes_on_to_its_second_phase() -> None:
    stopping = transition(begin(OperationKind.STOP, NOW), ended("savepoint"))
    stopped = transition(stopping, ended("stop"))

    assert (stopping.status, stopping.phase) == (OperationStatus.IN_PROGRESS, "stop")
    assert stopped.status is OperationStatus.COMPLETED
    assert [phase.name for phase in stopped.phases] == ["savepoint", "stop"]


def test_news_of_a_phase_that_has_not_begun_is_nothing() -> None:
    stop = begin(OperationKind.STOP, NOW)

    assert transition(stop, ended("stop")) == stop


def test_a_change_that_fails_before_anything_changed_has_failed() -> None:
    for kind in (OperationKind.RESCALE, OperationKind.UPGRADE):
        stopping = transition(begin(kind, NOW), ended("savepoint"))

        assert transition(begin(kind, NOW), failed("savepoint")).status is OperationStatus.FAILED
        assert transition(stopping, failed("stop")).status is OperationStatus.FAILED


def test_a_change_that_fails_after_the_stop_is_rolled_back() -> None:
    for kind in (OperationKind.RESCALE, OperationKind.UPGRADE):
        operation = begin(kind, NOW)
        for name in PHASES[kind]:
            if operation.has_changed_job:
                assert transition(operation, failed(name)).status is OperationStatus.ROLLED_BACK
            operation = transition(operation, ended(name))
        assert operation.status is OperationStatus.COMPLETED


def test_a_change_that_is_abandoned_is_not_rolled_back() -> None:
    operation = begin(OperationKind.RESCALE, NOW)
    for name in PHASES[OperationKind.RESCALE][:3]:
        operation = transition(operation, ended(name))

    abandoned = transition(operation, Abandoned(after(1), "the job was cancelled"))

    assert (abandoned.status, abandoned.phase) == (OperationStatus.FAILED, "start")


NAMES = sorted({name for phases in PHASES.values() for name in phases})
EVENTS: st.SearchStrategy[OperationEvent] = st.one_of(
    st.builds(
        lambda make, name: make(name),
        st.sampled_from([ended, ended, ended, failed]),
        st.sampled_from(NAMES),
    ),
    st.builds(Abandoned, st.just(after(1)), st.just("cancelled")),
)


@given(st.sampled_from(OperationKind), st.lists(EVENTS, max_size=30))
def test_whatever_happens_it_ends_once_and_says_how(
    kind: OperationKind, events: list[OperationEvent]
) -> None:
    operation = begin(kind, NOW)
    for event in events:
        before = operation
        operation = transition(operation, event)
        if before.status is not OperationStatus.IN_PROGRESS:
            assert operation == before
        assert (operation.ended_at is not None) == (
            operation.status is not OperationStatus.IN_PROGRESS
        )
        without_success = (OperationStatus.FAILED, OperationStatus.ROLLED_BACK)
        assert (operation.error is not None) == (operation.status in without_success)
        if operation.status is OperationStatus.ROLLED_BACK:
            assert kind.is_change
            assert operation.has_changed_job
        if operation.status is OperationStatus.COMPLETED:
            assert operation.is_in_last_phase
        if operation.is_stopping:
            assert not operation.has_changed_job
        names = tuple(phase.name for phase in operation.phases)
        assert names == PHASES[kind][: len(names)]
