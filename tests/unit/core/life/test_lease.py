"""One leads at a time, whatever is late, lost or frozen."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.ids import JobManagerId
from jobmanager.core.life.lease import (
    Candidate,
    Following,
    Leading,
    Lease,
    LeaseEvent,
    LeaseRenewed,
    LeaseTaken,
    LeaseTimePassed,
    RenewalRefused,
    Standing,
    Term,
    abandoned,
    may_renew,
    may_take,
    renewed,
    see,
    taken,
    transition,
)

EPOCH = datetime(2026, 11, 17, tzinfo=UTC)
SIX = timedelta(seconds=6)


def a_candidate(number: int, predecessor: int | None = None) -> Candidate:
    before = None if predecessor is None else JobManagerId(UUID(int=predecessor))
    return Candidate(JobManagerId(UUID(int=number)), f"http://{number}", before)


ONE, TWO = a_candidate(1), a_candidate(2)
NOBODYS = Lease(Term(0), None, None, EPOCH)


def at(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def test_a_lease_that_nobody_holds_can_be_taken() -> None:
    assert may_take(NOBODYS, ONE, EPOCH)


def test_a_lease_in_force_is_not_taken_and_an_expired_one_is() -> None:
    lease = taken(NOBODYS, ONE, EPOCH, SIX)

    assert not may_take(lease, TWO, at(5.999))
    assert not may_take(lease, ONE, at(5.999))
    assert may_take(lease, TWO, at(6))


def test_a_lease_of_one_that_is_known_to_be_gone_is_taken_at_once() -> None:
    lease = taken(NOBODYS, ONE, EPOCH, SIX)

    assert may_take(lease, a_candidate(3, predecessor=1), at(0.1))
    assert not may_take(lease, a_candidate(3, predecessor=2), at(0.1))


def test_the_term_ascends_with_a_taking_and_stays_with_a_renewal() -> None:
    first = taken(NOBODYS, ONE, EPOCH, SIX)
    second = taken(renewed(first, at(2), SIX), TWO, at(9), SIX)

    assert (first.term, renewed(first, at(2), SIX).term, second.term) == (1, 1, 2)


def test_an_expired_or_lost_lease_is_not_renewed() -> None:
    lease = taken(NOBODYS, ONE, EPOCH, SIX)

    assert may_renew(lease, Term(1), at(5))
    assert not may_renew(lease, Term(1), at(6))
    assert not may_renew(taken(lease, TWO, at(6), SIX), Term(1), at(7))


@pytest.mark.parametrize(
    ("standing", "event", "expected"),
    [
        (Following(), LeaseTaken(Term(3), 10, SIX), Leading(Term(3), 16)),
        (Leading(Term(3), 16), LeaseRenewed(12, SIX), Leading(Term(3), 18)),
        (Leading(Term(3), 16), LeaseRenewed(9, SIX), Leading(Term(3), 16)),
        (Following(), LeaseRenewed(12, SIX), Following()),
        (Leading(Term(3), 16), RenewalRefused(), Following()),
        (Following(), RenewalRefused(), Following()),
        (Leading(Term(3), 16), LeaseTimePassed(15.9), Leading(Term(3), 16)),
        (Leading(Term(3), 16), LeaseTimePassed(16), Following()),
        (Following(), LeaseTimePassed(99), Following()),
    ],
)
def test_what_becomes_of_a_standing(
    standing: Standing, event: LeaseEvent, expected: Standing
) -> None:
    assert transition(standing, event) == expected


# ── a world of several, with one database ─────────────────────────────────────


@dataclass
class Member:
    """One JobManager. Its clock goes as ours does, but shows another time."""

    candidate: Candidate
    offset: float
    standing: Standing = field(default_factory=Following)
    answers: list[LeaseEvent] = field(default_factory=list)
    """On their way: what the database has answered, and it has not read yet."""

    def believes_to_lead(self, now: float) -> Term | None:
        standing = transition(self.standing, LeaseTimePassed(now + self.offset))
        return standing.term if isinstance(standing, Leading) else None


@dataclass
class World:
    members: list[Member]
    lease: Lease = NOBODYS
    now: float = 0.0
    commits: list[Term] = field(default_factory=list)

    def ask(self, member: Member, on_the_way: float) -> None:
        """Sends a request: to renew where it leads, else to take."""
        asked_at = self.now + member.offset
        mine = member.believes_to_lead(self.now)
        self.now += on_the_way
        if mine is not None:
            if may_renew(self.lease, mine, at(self.now)):
                self.lease = renewed(self.lease, at(self.now), SIX)
                member.answers.append(LeaseRenewed(asked_at, SIX))
            else:
                member.answers.append(RenewalRefused())
        elif may_take(self.lease, member.candidate, at(self.now)):
            self.lease = taken(self.lease, member.candidate, at(self.now), SIX)
            member.answers.append(LeaseTaken(self.lease.term, asked_at, SIX))

    def read(self, member: Member) -> None:
        member.standing = transition(member.standing, LeaseTimePassed(self.now + member.offset))
        if member.answers:
            member.standing = transition(member.standing, member.answers.pop(0))

    def commit(self, member: Member) -> None:
        """What the fence lets through."""
        mine = member.believes_to_lead(self.now)
        if mine is not None and mine == self.lease.term:
            self.commits.append(mine)

    def check(self) -> None:
        leaders = [one for one in self.members if one.believes_to_lead(self.now) is not None]
        assert len(leaders) <= 1
        assert self.commits == sorted(self.commits)


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["ask", "read", "commit", "wait"]),
        st.floats(0, 8, allow_nan=False),
    ),
    max_size=60,
)


@given(STEPS, st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3))
def test_two_never_lead_at_once(steps: list[tuple[int, str, float]], clocks: list[float]) -> None:
    world = World([Member(a_candidate(n + 1), clocks[n]) for n in range(3)])

    for number, step, seconds in steps:
        member, before = world.members[number], world.lease
        match step:
            case "ask":
                world.ask(member, seconds / 4)
            case "read":
                world.read(member)
            case "commit":
                world.commit(member)
            case _:
                world.now += seconds
        world.check()
        assert world.lease.term - before.term in (0, 1)
        assert (world.lease.holder == before.holder) or world.lease.term > before.term


@given(st.floats(0, 1.9), st.floats(0, 0.05))
def test_a_leader_that_renews_in_time_leads_on(every: float, delay: float) -> None:
    world = World([Member(ONE, 0.0)])
    world.ask(world.members[0], delay)
    world.read(world.members[0])

    for _ in range(50):
        world.now += every
        world.ask(world.members[0], delay)
        world.read(world.members[0])
        assert world.members[0].believes_to_lead(world.now) == 1


def test_a_lease_that_nobody_renews_is_taken_though_the_databases_clock_went_back() -> None:
    """It was written at six, and the database believes that it is one o'clock."""
    lease, before = taken(NOBODYS, ONE, at(5 * 3600), SIX), at(0)
    seen = see(None, lease, 100.0)
    assert see(seen, lease, 130.0) is seen
    assert abandoned(seen, SIX, 129.9) is None
    stale = abandoned(seen, SIX, 130.1)
    assert not may_take(lease, TWO, before)
    assert may_take(lease, TWO, before, stale)


def test_a_lease_that_is_renewed_is_not_abandoned() -> None:
    lease = taken(NOBODYS, ONE, at(0), SIX)
    seen = see(None, lease, 100.0)
    again = renewed(lease, at(2), SIX)
    assert abandoned(see(seen, again, 131.0), SIX, 132.0) is None
    assert not may_take(again, TWO, at(3), lease.expires_at)
