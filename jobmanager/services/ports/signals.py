"""What goes out of the server by itself: webhooks, their deliveries, and the sender of requests."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol
from uuid import UUID

from jobmanager.core.ids import JobId
from jobmanager.core.life.records import StoredAttempt, StoredCheckpoint, StoredOperation
from jobmanager.core.signals.delivery import Delivery, SendOutcome
from jobmanager.core.signals.target_address import AddressRules
from jobmanager.core.signals.traces import FinishedSpan
from jobmanager.core.signals.webhook import Webhook, WebhookId


class Webhooks(Protocol):
    async def add(self, webhook: Webhook) -> None:
        """Raises `WebhookNameTaken`."""
        ...

    async def get(self, name: str) -> Webhook:
        """Raises `WebhookNotFound`."""
        ...

    async def find(self, webhook_id: WebhookId) -> Webhook | None: ...
    async def all(self) -> Sequence[Webhook]:
        """In the order of their names."""
        ...

    async def count(self) -> int: ...
    async def delete(self, webhook_id: WebhookId) -> None:
        """With its deliveries."""
        ...

    async def advance(self, webhooks: Sequence[WebhookId], told_up_to: int) -> None:
        """Note that the rules of these webhooks were applied to entries up to this one."""
        ...


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """Deliveries of one target."""

    pending: int = 0
    given_up: int = 0
    last_delivered_at: datetime | None = None


class Deliveries(Protocol):
    async def add(self, deliveries: Sequence[Delivery]) -> None:
        """Add them in this order. One whose target and key are known is left out."""
        ...

    async def ready(self, busy: Set[str], now: datetime, limit: int) -> Sequence[Delivery]:
        """The next delivery of each target that is not busy: `core.signals.delivery.ready`."""
        ...

    async def save(self, delivery: Delivery) -> None: ...
    async def of_target(
        self, target: str, limit: int, before: int | None = None
    ) -> Sequence[Delivery]:
        """The newest first, before the delivery of this id."""
        ...

    async def counts(self) -> Mapping[str, DeliveryCounts]:
        """By target."""
        ...

    async def give_up_oldest(self, target: str, most: int, why: str, now: datetime) -> int:
        """Give up the oldest pending deliveries of a target beyond `most`; return how many."""
        ...

    async def prune(self, before: datetime, keep: int, limit: int) -> int:
        """Delete deliveries that ended before this time, and of each target those beyond the newest
        `keep` that ended; return how many.
        """
        ...


@dataclass(frozen=True, slots=True)
class SignalCursor:
    """How far a signal has come."""

    history_id: int | None = None
    at: datetime | None = None


WorkKey = tuple[str, UUID, int]
"""Names a checkpoint or an attempt by its job and number, or an operation by its id and 0."""


@dataclass(frozen=True, slots=True)
class EndedWork:
    """What has ended in a span of time, with the names of the jobs."""

    checkpoints: Sequence[StoredCheckpoint] = ()
    operations: Sequence[StoredOperation] = ()
    attempts: Sequence[StoredAttempt] = ()
    names: Mapping[JobId, str] = field(default_factory=dict)
    keys: Mapping[WorkKey, datetime] = field(default_factory=dict)
    """All of them, with their ends."""
    up_to: datetime | None = None
    """What ended until then is complete in here; None: nothing was found."""


class SignalCursors(Protocol):
    async def get(self, name: str) -> SignalCursor | None: ...
    async def put(self, name: str, cursor: SignalCursor) -> None: ...
    async def ended_after(self, after: datetime, seen: Set[WorkKey], limit: int) -> EndedWork:
        """Return what ended after this time and was not `seen`, in the order of its end: at most
        `limit` of each kind.
        """
        ...


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A POST with a JSON body."""

    url: str = field(repr=False)
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    rules: AddressRules | None = None
    """None: the address was given by the server's own settings, and is not judged."""


class RequestSender(Protocol):
    async def send(self, request: OutgoingRequest) -> SendOutcome:
        """Send a request and read the beginning of its answer. Raises nothing: whatever goes wrong
        is an outcome.
        """
        ...

    async def fault(self, url: str, rules: AddressRules) -> str | None:
        """Return why a request may not go to this URL, as far as it is known now; None: it may. A
        host that has no address at the moment is no fault.
        """
        ...


class SecretSource(Protocol):
    async def filled(self, text: str) -> str:
        """Return the text with secrets in the place of references. Raises `SecretMissing`."""
        ...


class SpanExporter(Protocol):
    """Sends finished spans to a collector."""

    async def export(self, spans: Sequence[FinishedSpan]) -> bool:
        """Return whether the collector took them. Raises nothing."""
        ...
