"""Gives up a job that fails again and again, whatever its restart strategy says.

A restart strategy counts failures over time. It cannot see that a job makes no progress, for
example because the same row fails in the same batch thousands of times a night. So there is a
second rule: failures in a row between which no batch was committed are a *streak*, and the length
of a streak is limited.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from jobmanager.core.life.failure import Failure, FailureKind

MOST_ALIKE = 5
"""The most failures in a row with the same cause, if the cause is in the job itself."""
MOST_WITHOUT_PROGRESS = 20
"""The most failures in a row of any kind. With the default strategy that is a quarter of an hour:
jobs survive an outage, but do not wait for ever.
"""
LONG_ENOUGH = timedelta(hours=1)
"""An attempt that ran for so long ends a streak: it may just have had no input."""

_MAY_PASS = (FailureKind.INFRASTRUCTURE, FailureKind.LOST)
"""Kinds of failures that may pass without a change of the job."""
_VARIABLE = re.compile(r"'[^']*'|\b[0-9a-f]{8}[0-9a-f-]*\b|\d+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Streak:
    """Failures in a row between which no batch was committed."""

    signature: str
    """The cause of the last failure."""
    alike: int
    """How many failures, up to and including the last, have this cause."""
    failures: int
    committed: Mapping[str, int] = field(default_factory=dict)
    """The last committed batch by region, as far as known."""


def signature(failure: Failure) -> str:
    """Return the failure without numbers, ids and values, to compare causes."""
    return f"{failure.kind}: {_VARIABLE.sub('#', failure.message)}"


def extended(
    streak: Streak | None, failure: Failure, committed: Mapping[str, int], ran_for: timedelta
) -> Streak:
    """Return the streak after one more failure, of an attempt that ran for `ran_for`."""
    cause = signature(failure)
    if streak is None or _has_progressed(streak, committed):
        return Streak(cause, alike=1, failures=1, committed=dict(committed))
    return replace(
        streak,
        signature=cause,
        alike=streak.alike + 1 if cause == streak.signature else 1,
        failures=1 if ran_for >= LONG_ENOUGH else streak.failures + 1,
    )


def objection(streak: Streak, failure: Failure) -> str | None:
    """Return why the job must not be restarted; None: the restart strategy decides."""
    where = _where(streak, failure)
    if streak.alike >= MOST_ALIKE and failure.kind not in _MAY_PASS:
        return (
            f"circuit breaker: failed {streak.alike} times {where} with the same cause: "
            f"{failure.message}"
        )
    if streak.failures >= MOST_WITHOUT_PROGRESS:
        return (
            f"circuit breaker: failed {streak.failures} times in a row {where} "
            f"without any progress, the last time with: {failure.message}"
        )
    return None


def _has_progressed(streak: Streak, committed: Mapping[str, int]) -> bool:
    return any(batch > streak.committed.get(region, -1) for region, batch in committed.items())


def _where(streak: Streak, failure: Failure) -> str:
    """Name the batch that fails, which follows the last committed batch."""
    if failure.region is not None and failure.region in streak.committed:
        return f"at batch {streak.committed[failure.region] + 1}"
    if not streak.committed:
        return "before any batch was committed"
    return "after batch " + ", ".join(f"{b} of {r}" for r, b in streak.committed.items())
