"""When a job that fails again and again is given up, whatever its restart strategy says.

A strategy counts failures by time. It cannot see that a job comes no further: the
same row that cannot be divided, at the same batch, thousands of times a night. So
beside the strategy there is this rule: failures in a row between which no batch was
committed are a *streak*, and a streak has an end.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from jobmanager.core.life.failure import Failure, FailureKind

MOST_ALIKE = 5
"""So many failures in a row with the same cause, where the cause is the job's own."""
MOST_WITHOUT_PROGRESS = 20
"""So many in a row of whatever kind. With the default strategy that is a quarter of an hour:
an outage is waited for, but not for ever."""
LONG_ENOUGH = timedelta(hours=1)
"""An attempt that ran for so long was in no loop: it may just have had no input."""

_MAY_PASS = (FailureKind.INFRASTRUCTURE, FailureKind.LOST)
"""What is wrong may be mended without us."""
_VARIABLE = re.compile(r"'[^']*'|\b[0-9a-f]{8}[0-9a-f-]*\b|\d+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Streak:
    """Failures in a row between which no batch was committed."""

    signature: str
    """The cause of the last one."""
    alike: int
    """So many of them, up to the last one, have this cause."""
    failures: int
    committed: Mapping[str, int] = field(default_factory=dict)
    """Region to its last committed batch, as far as known."""


def signature(failure: Failure) -> str:
    """What two failures with the same cause have in common: no numbers, ids or values."""
    return f"{failure.kind}: {_VARIABLE.sub('#', failure.message)}"


def extended(
    streak: Streak | None, failure: Failure, committed: Mapping[str, int], ran_for: timedelta
) -> Streak:
    """The streak after one more failure, of an attempt that ran for so long."""
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
    """Why the job is not to be started again; None: the restart strategy decides."""
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
    """The batch that does not come to its end is the one after the last committed."""
    if failure.region is not None and failure.region in streak.committed:
        return f"at batch {streak.committed[failure.region] + 1}"
    if not streak.committed:
        return "before any batch was committed"
    return "after batch " + ", ".join(f"{b} of {r}" for r, b in streak.committed.items())
