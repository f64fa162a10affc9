from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.operation import (
    PHASES,
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


EVENTS = st.builds(
    lambda make, name: make(name),
    st.sampled_from([ended, failed]),
    st.sampled_from(["savepoint", "stop"]),
)


@given(st.sampled_from(OperationKind), st.lists(EVENTS, max_size=8))
def test_whatever_happens_it_ends_once_and_says_how(
    kind: OperationKind, events: list[PhaseEnded | PhaseFailed]
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
        assert (operation.error is not None) == (operation.status is OperationStatus.FAILED)
        names = tuple(phase.name for phase in operation.phases)
        assert names == PHASES[kind][: len(names)]
