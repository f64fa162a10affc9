"""Open connections: who makes room, who is overdue, and that nobody is counted twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from jobmanager.core.open_connections import (
    SPARE,
    Admission,
    ConnectionLimits,
    OpenConnections,
    Phase,
)

WAITS = (Phase.FRESH, Phase.RECEIVING, Phase.HEAD, Phase.KEPT)


def open_ones(*phases: Phase, most: int = 3) -> OpenConnections[int]:
    """With connections 0, 1, 2 … in these phases, entered one second after the other."""
    connections: OpenConnections[int] = OpenConnections(ConnectionLimits(most=most))
    for number, phase in enumerate(phases):
        assert connections.admit(number, number) == (Admission.ADMITTED, None)
        connections.enter(number, phase, number)
    return connections


@pytest.mark.parametrize(
    ("phases", "victim"),
    [
        ((Phase.KEPT, Phase.FRESH, Phase.FRESH), 1),
        ((Phase.KEPT, Phase.RECEIVING, Phase.HEAD), 1),
        ((Phase.SERVING, Phase.KEPT, Phase.HEAD), 2),
        ((Phase.SERVING, Phase.SERVING, Phase.KEPT), 2),
    ],
)
def test_who_waits_for_its_client_makes_room(phases: tuple[Phase, ...], victim: int) -> None:
    connections = open_ones(*phases)

    assert connections.admit(9, 10.0) == (Admission.ADMITTED, victim)
    assert len(connections) == 3
    assert connections.closed_because == {"evicted": 1}


def test_a_body_that_moves_on_stays_and_the_one_that_does_not_goes() -> None:
    connections = open_ones(Phase.RECEIVING, Phase.RECEIVING, Phase.SERVING)
    connections.enter(0, Phase.RECEIVING, 5.0)

    assert connections.admit(9, 10.0) == (Admission.ADMITTED, 1)


def test_where_all_are_served_the_next_are_refused_and_then_no_more_are_taken() -> None:
    connections = open_ones(Phase.SERVING, Phase.SERVING, Phase.SERVING)

    for number in range(SPARE):
        assert not connections.is_full
        assert connections.admit(100 + number, 1.0) == (Admission.REFUSED, None)
        connections.enter(100 + number, Phase.SERVING, 1.0)  # being told so
    assert connections.is_full
    connections.enter(0, Phase.KEPT, 2.0)
    assert not connections.is_full


@pytest.mark.parametrize(
    ("phase", "limit"),
    [
        (Phase.HANDSHAKE, 10.0),
        (Phase.FRESH, 10.0),
        (Phase.HEAD, 10.0),
        (Phase.KEPT, 60.0),
        (Phase.CLOSING, 60.0),
    ],
)
def test_waiting_has_a_limit(phase: Phase, limit: float) -> None:
    connections = open_ones(phase)

    assert connections.overdue(limit - 0.1) == []
    assert connections.overdue(limit + 0.1) == [(0, phase)]


@pytest.mark.parametrize("phase", [Phase.SERVING, Phase.RECEIVING])
def test_a_request_takes_as_long_as_it_takes_unless_its_client_does_not_read(phase: Phase) -> None:
    connections = open_ones(phase)
    assert connections.overdue(1e6) == []

    connections.stop_reading(0, 100.0)
    assert connections.overdue(161.0) == [(0, Phase.CLOSING)]
    connections.read_again(0)
    assert connections.overdue(1e6) == []


@given(st.integers(1, 5), st.lists(st.sampled_from(WAITS), max_size=30))
def test_who_speaks_at_once_is_always_admitted_while_others_wait(
    most: int, phases: list[Phase]
) -> None:
    connections: OpenConnections[int] = OpenConnections(ConnectionLimits(most=most))
    for number, phase in enumerate(phases):
        assert connections.admit(number, number)[0] is Admission.ADMITTED
        connections.enter(number, phase, number)
    assert connections.admit(-1, 100.0)[0] is Admission.ADMITTED


class Connections(RuleBasedStateMachine):
    """Whatever happens, a connection is in one phase, and there are never too many."""

    def __init__(self) -> None:
        super().__init__()
        self.connections: OpenConnections[int] = OpenConnections(ConnectionLimits(most=4))
        self.there: set[int] = set()
        self.now = 0.0
        self.next = 0

    @precondition(lambda self: not self.connections.is_full)
    @rule()
    def open(self) -> None:
        self.next += 1
        admission, victim = self.connections.admit(self.next, self.now)
        assert admission is Admission.ADMITTED or victim is None
        if victim is not None:
            self.there.remove(victim)
        self.there.add(self.next)

    @precondition(lambda self: self.there)
    @rule(data=st.data(), phase=st.sampled_from(list(Phase)))
    def move(self, data: st.DataObject, phase: Phase) -> None:
        self.connections.enter(data.draw(st.sampled_from(sorted(self.there))), phase, self.now)

    @precondition(lambda self: self.there)
    @rule(data=st.data(), reads=st.booleans())
    def read(self, data: st.DataObject, reads: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.there)))
        self.connections.read_again(key) if reads else self.connections.stop_reading(key, self.now)

    @rule(seconds=st.floats(0, 100))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for key, _ in self.connections.overdue(self.now):
            assert key in self.there
            self.connections.leave(key)
            self.there.remove(key)
        assert self.connections.overdue(self.now) == []

    @invariant()
    def counts_agree(self) -> None:
        assert len(self.connections) == len(self.there) == sum(self.connections.counts.values())
        assert len(self.connections) <= 4 + SPARE


TestConnections = Connections.TestCase
