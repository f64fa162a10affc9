"""A delivery: one message to one target, and when it is tried again.

    PENDING ──answered with 2xx────────────────────────────────▶ DELIVERED
       │ ▲
       │ └─not delivered: again after 5 s, 10 s, 20 s … 1 h─┐
       ├───────────────────────────────────────────────────┘
       └──not delivered, and a day old──────────────────────────▶ GIVEN_UP

Deliveries of a target are sent one after the other, in the order of the history. One that waits
for its next try holds back all younger deliveries of its target: the target is away, or has an
error of its own. A delivery that the target itself rejects (400, 401, 404 …) holds back the others
for its first few tries only: the fault may be in this one message.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from jobmanager.core.durations import milliseconds
from jobmanager.core.ids import JobId
from jobmanager.core.signals.webhook import WebhookId

OPENLINEAGE = "openlineage"
"""The target of lineage events. Every other target is the id of a webhook."""
GIVE_UP_AFTER = timedelta(hours=24)
STEPS_ASIDE_AFTER = 5
"""Tries, about a minute and a half, after which a rejected delivery holds nothing back."""
MOST_PENDING = 10_000
"""Of one target. Beyond that the oldest are given up."""
KEEP_ENDED = timedelta(days=7)
MOST_ENDED = 1_000
"""Of one target."""
_FIRST_PAUSE = timedelta(seconds=5)
_LONGEST_PAUSE = timedelta(hours=1)
_TRY_AGAIN = frozenset([408, 421, 425, 429])
"""Answers that begin with 4 and say nothing against the message."""


class DeliveryStatus(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"


@dataclass(frozen=True, slots=True)
class Answered:
    """The target has answered."""

    status: int
    text: str
    """The beginning of the answer."""
    took: timedelta
    retry_after: timedelta | None = None
    """What the target asks for."""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_rejection(self) -> bool:
        """Whether the target was there and did not want this message."""
        return 300 <= self.status < 500 and self.status not in _TRY_AGAIN


@dataclass(frozen=True, slots=True)
class NotSent:
    """There was no answer."""

    why: str
    took: timedelta = timedelta()
    is_final: bool = False
    """Whether another try makes no sense."""


SendOutcome = Answered | NotSent


@dataclass(frozen=True, slots=True)
class Delivery:
    target: str
    key: UUID
    """The idempotency id."""
    event: str
    body: str
    created_at: datetime
    due_at: datetime
    job_id: JobId | None = None
    job_name: str | None = None
    history_id: int | None = None
    webhook_id: WebhookId | None = None
    status: DeliveryStatus = DeliveryStatus.PENDING
    tries: int = 0
    steps_aside: bool = False
    """Whether younger deliveries may go first while this one waits."""
    tried_at: datetime | None = None
    took_ms: int | None = None
    """Of the last try."""
    answer_status: int | None = None
    error: str | None = None
    """Why the last try was no success."""
    ended_at: datetime | None = None
    id: int = 0
    """Ascending within a target, in the order in which deliveries are to be sent."""


def after_try(delivery: Delivery, outcome: SendOutcome, now: datetime) -> Delivery:
    """Return the delivery after a try. One that has ended stays as it is."""
    if delivery.status is not DeliveryStatus.PENDING:
        return delivery
    tried = replace(
        delivery,
        tries=delivery.tries + 1,
        tried_at=now,
        took_ms=milliseconds(outcome.took),
        answer_status=outcome.status if isinstance(outcome, Answered) else None,
        error=_error(outcome),
    )
    if isinstance(outcome, Answered) and outcome.is_success:
        return replace(tried, status=DeliveryStatus.DELIVERED, ended_at=now)
    is_final = isinstance(outcome, NotSent) and outcome.is_final
    if is_final or now - delivery.created_at >= GIVE_UP_AFTER:
        return replace(tried, status=DeliveryStatus.GIVEN_UP, ended_at=now)
    is_rejected = isinstance(outcome, Answered) and outcome.is_rejection
    return replace(
        tried,
        due_at=now + _pause(tried.tries, outcome),
        steps_aside=is_rejected and tried.tries >= STEPS_ASIDE_AFTER,
    )


def ready(waiting: Iterable[Delivery], busy: Set[str], now: datetime) -> list[Delivery]:
    """Return the delivery that each target is to get next, by target; none for a busy target."""
    next_of: dict[str, Delivery] = {}
    for one in sorted(waiting, key=lambda one: one.id):
        may_be_passed = one.steps_aside and one.due_at > now
        if one.target not in busy and not may_be_passed:
            next_of.setdefault(one.target, one)
    return [next_of[target] for target in sorted(next_of) if next_of[target].due_at <= now]


def _pause(tries: int, outcome: SendOutcome) -> timedelta:
    pause: timedelta = min(_FIRST_PAUSE * (1 << min(tries - 1, 20)), _LONGEST_PAUSE)
    asked = outcome.retry_after if isinstance(outcome, Answered) else None
    return max(pause, min(asked, _LONGEST_PAUSE)) if asked is not None else pause


def _error(outcome: SendOutcome) -> str | None:
    match outcome:
        case NotSent():
            return outcome.why
        case Answered(status=status) if 300 <= status < 400:
            return f"answered {status}: redirects are not followed, give the final address"
        case Answered() if not outcome.is_success:
            return f"answered {outcome.status}"
        case _:
            return None
