"""Use cases about webhooks: create, delete, and send a sample."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID, uuid4

from jobmanager.core import secret_references
from jobmanager.core.errors import InvalidWebhook
from jobmanager.core.ids import AttemptNumber, JobId
from jobmanager.core.life.records import HistoryEntry
from jobmanager.core.signals.delivery import (
    Answered,
    Delivery,
    DeliveryStatus,
    NotSent,
    SendOutcome,
    after_try,
)
from jobmanager.core.signals.signature import SIGNATURE_HEADER, signature
from jobmanager.core.signals.target_address import AddressRules, UnusableTarget, parse_target
from jobmanager.core.signals.webhook import (
    LEAST_SECRET,
    LONGEST_PATTERN,
    MOST_SECRET,
    MOST_WEBHOOKS,
    Webhook,
    WebhookEvent,
    WebhookId,
    body_of,
    fault_of_name,
)
from jobmanager.files.secret_lookup import SecretMissing
from jobmanager.services.ports.signals import (
    DeliveryCounts,
    OutgoingRequest,
    RequestSender,
    SecretSource,
)
from jobmanager.services.ports.unit_of_work import UnitsOfWork

DELIVERY_HEADER, EVENT_HEADER = "Headgate-Delivery", "Headgate-Event"
_SAMPLE_JOB = JobId(UUID(int=0))


@dataclass(frozen=True, slots=True)
class WebhookSending:
    """What is needed to send the requests of webhooks."""

    sender: RequestSender
    secrets: SecretSource
    rules: AddressRules

    async def send(self, webhook: Webhook, delivery: Delivery, now: datetime) -> SendOutcome:
        """Send a delivery, signed."""
        try:
            url = await self.secrets.filled(webhook.url)
            secret = await self.secrets.filled(webhook.secret)
        except SecretMissing as error:
            return NotSent(str(error))
        body = delivery.body.encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Headgate",
            DELIVERY_HEADER: str(delivery.key),
            EVENT_HEADER: delivery.event,
            SIGNATURE_HEADER: signature(secret, now, body),
        }
        return await self.sender.send(OutgoingRequest(url, body, headers, self.rules))


async def create(units: UnitsOfWork, sending: WebhookSending, wanted: Webhook) -> Webhook:
    """Store a webhook. It is told of what happens from now on. Raises `InvalidWebhook`,
    `WebhookNameTaken`.
    """
    await _check(wanted, sending)
    async with units() as uow:
        if await uow.webhooks.count() >= MOST_WEBHOOKS:
            raise InvalidWebhook(
                f"there are {MOST_WEBHOOKS} webhooks, which is the limit: delete one first "
                "(headgate webhooks delete NAME)"
            )
        made = replace(wanted, told_up_to=await uow.history.newest())
        await uow.webhooks.add(made)
        await uow.commit()
    return made


async def delete(units: UnitsOfWork, name: str) -> Webhook:
    """Delete a webhook with its deliveries. Raises `WebhookNotFound`."""
    async with units() as uow:
        found = await uow.webhooks.get(name)
        await uow.webhooks.delete(found.id)
        await uow.commit()
    return found


async def listed(units: UnitsOfWork) -> Sequence[tuple[Webhook, DeliveryCounts]]:
    async with units() as uow:
        counts = await uow.deliveries.counts()
        found = await uow.webhooks.all()
    return [(one, counts.get(target_of(one.id), DeliveryCounts())) for one in found]


async def test(
    units: UnitsOfWork, sending: WebhookSending, name: str, now: datetime
) -> tuple[Delivery, Answered | None]:
    """Send a sample once, and record it. Raises `WebhookNotFound`."""
    async with units() as uow:
        webhook = await uow.webhooks.get(name)
    key = uuid4()
    entry = HistoryEntry(
        now,
        "job_restarting",
        f"a sample of what the webhook {name} will be sent",
        AttemptNumber(1),
    )
    body = body_of(key, WebhookEvent.TEST, _SAMPLE_JOB, "sample", entry, None)
    delivery = Delivery(
        target_of(webhook.id), key, WebhookEvent.TEST, body, now, now, webhook_id=webhook.id
    )
    outcome = await sending.send(webhook, delivery, now)
    tried = _ended(after_try(delivery, outcome, now), now)
    async with units() as uow:
        if await uow.webhooks.find(webhook.id) is not None:
            await uow.deliveries.add([tried])
            await uow.commit()
    return tried, outcome if isinstance(outcome, Answered) else None


def target_of(webhook_id: WebhookId) -> str:
    """Return the target of a webhook's deliveries."""
    return webhook_id.hex


def _ended(delivery: Delivery, now: datetime) -> Delivery:
    """A sample is sent once only."""
    if delivery.ended_at is not None:
        return delivery
    return replace(delivery, status=DeliveryStatus.GIVEN_UP, ended_at=now)


async def _check(wanted: Webhook, sending: WebhookSending) -> None:
    if fault := fault_of_name(wanted.name):
        raise InvalidWebhook(fault)
    pattern = wanted.job_pattern
    if pattern is not None and not 0 < len(pattern) <= LONGEST_PATTERN:
        raise InvalidWebhook(
            f"job: a pattern has 1 to {LONGEST_PATTERN} characters, this one has {len(pattern)}"
        )
    if secret_references.has_reference(wanted.secret):
        if fault := secret_references.fault(wanted.secret):
            raise InvalidWebhook(f"secret: {fault}")
    elif not LEAST_SECRET <= len(wanted.secret) <= MOST_SECRET:
        raise InvalidWebhook(
            f"secret: it has {len(wanted.secret)} characters; use {LEAST_SECRET} to {MOST_SECRET}"
            " random characters, or none, and the server makes one"
        )
    try:
        parse_target(wanted.url)
        url = await sending.secrets.filled(wanted.url)
        await sending.secrets.filled(wanted.secret)
        fault = await sending.sender.fault(url, sending.rules)
    except (UnusableTarget, SecretMissing) as error:
        raise InvalidWebhook(str(error)) from error
    if fault:
        raise InvalidWebhook(f"url: {fault}")
