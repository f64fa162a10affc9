"""The lease: the right of one JobManager to lead, until it expires.

    FOLLOWING ──lease taken──▶ LEADING
        ▲                         │
        └──renewal refused, ──────┘
           or not renewed in time

There is one lease. It has a holder, a time of expiry by the database's clock, and a term, which
increases when the lease is taken and not when it is renewed. The term is the leader's fencing
token: a transaction of a leader commits only if the lease still has its term.

A leader stops by itself when its lease has expired by its own clock, which it reads *before* it
sends a request. The database reads its clock later, so a leader always expects less time than the
lease gives it: two JobManagers never lead at once.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NewType, assert_never

from jobmanager.core.ids import JobManagerId

Term = NewType("Term", int)
"""The number of a leadership. It ascends and is never reused."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease in the database."""

    term: Term
    holder: JobManagerId | None
    """None: the lease was never held."""
    url: str | None
    """The holder's URL."""
    expires_at: datetime

    def is_in_force(self, now: datetime) -> bool:
        return self.holder is not None and now < self.expires_at


@dataclass(frozen=True, slots=True)
class Candidate:
    id: JobManagerId
    url: str
    predecessor: JobManagerId | None = None
    """A JobManager that is known to have ended, because the candidate has its data directory."""


# ── what the database does ────────────────────────────────────────────────────
# In one statement each (`store/leases.py`), so that reading and writing are atomic.
# `tests/integration/store/test_lease_rules.py` compares these functions with those statements.


def may_take(lease: Lease, candidate: Candidate, now: datetime) -> bool:
    """Whether the lease is free for the candidate. `now` is the database's time."""
    if not lease.is_in_force(now):
        return True
    return candidate.predecessor is not None and lease.holder == candidate.predecessor


def taken(lease: Lease, candidate: Candidate, now: datetime, duration: timedelta) -> Lease:
    """Return the lease after `candidate` took it. The previous leader can commit nothing now."""
    return Lease(Term(lease.term + 1), candidate.id, candidate.url, now + duration)


def may_renew(lease: Lease, term: Term, now: datetime) -> bool:
    """Whether the lease may be renewed. An expired lease has to be taken again, with a new term."""
    return lease.term == term and lease.is_in_force(now)


def renewed(lease: Lease, now: datetime, duration: timedelta) -> Lease:
    return replace(lease, expires_at=now + duration)


# ── what one JobManager believes ──────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Following:
    pass


@dataclass(frozen=True, slots=True)
class Leading:
    term: Term
    until: float
    """Seconds, by this process's own clock."""


Standing = Following | Leading


@dataclass(frozen=True, slots=True)
class LeaseTaken:
    term: Term
    asked_at: float
    """The clock, read before the request was sent."""
    duration: timedelta


@dataclass(frozen=True, slots=True)
class LeaseRenewed:
    asked_at: float
    duration: timedelta


@dataclass(frozen=True, slots=True)
class RenewalRefused:
    """The lease has another term, or has expired."""


@dataclass(frozen=True, slots=True)
class LeaseTimePassed:
    at: float


LeaseEvent = LeaseTaken | LeaseRenewed | RenewalRefused | LeaseTimePassed


def transition(standing: Standing, event: LeaseEvent) -> Standing:
    match event:
        case LeaseTaken():
            return Leading(event.term, event.asked_at + event.duration.total_seconds())
        case LeaseRenewed():
            if isinstance(standing, Following):
                return standing  # an answer that came too late
            until = event.asked_at + event.duration.total_seconds()
            return replace(standing, until=max(standing.until, until))
        case RenewalRefused():
            return Following()
        case LeaseTimePassed():
            is_over = isinstance(standing, Leading) and event.at >= standing.until
            return Following() if is_over else standing
        case _:
            assert_never(event)
