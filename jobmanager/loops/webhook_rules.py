"""Applies the rules of webhooks to new history entries: each entry that a rule asks for becomes a
delivery.

Deliveries and how far the rules have come are written in one transaction, which only the leader can
commit. So no entry is left out, and none is stored twice, whichever server leads.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

import structlog

from jobmanager.core.signals.delivery import (
    KEEP_ENDED,
    MOST_ENDED,
    MOST_PENDING,
    Delivery,
)
from jobmanager.core.signals.webhook import Webhook, body_of, delivery_key
from jobmanager.services.clock import Clock
from jobmanager.services.ports.history import Recorded
from jobmanager.services.ports.unit_of_work import UnitsOfWork
from jobmanager.services.webhooks import target_of

_log = structlog.get_logger(__name__)
_PAGE = 500
_PRUNE_BATCH = 2000
TOO_MANY = f"more than {MOST_PENDING} deliveries of this target were waiting"


class WebhookRules:
    def __init__(self, units: UnitsOfWork, clock: Clock) -> None:
        self._units = units
        self._clock = clock

    async def run_once(self) -> None:
        while await self._apply() == _PAGE:
            pass

    def failed(self) -> None:
        """Nothing is remembered between two runs."""

    async def _apply(self) -> int:
        """Apply the rules to a page of entries; return how many entries there were."""
        now = self._clock()
        async with self._units() as uow:
            webhooks = await uow.webhooks.all()
            if not webhooks:
                return 0
            first = min(webhook.told_up_to for webhook in webhooks)
            entries = await uow.history.after(first, _PAGE)
            if not entries:
                return 0
            made = list(deliveries_of(webhooks, entries, now))
            await uow.deliveries.add(made)
            for target in {one.target for one in made}:
                gone = await uow.deliveries.give_up_oldest(target, MOST_PENDING, TOO_MANY, now)
                if gone:
                    _log.warning("deliveries given up", target=target, deliveries=gone)
            # only of these: another that was created meanwhile has not been told of the entries
            await uow.webhooks.advance([one.id for one in webhooks], entries[-1].id)
            await uow.commit()
        return len(entries)


def deliveries_of(
    webhooks: Sequence[Webhook], entries: Sequence[Recorded], now: datetime
) -> Iterator[Delivery]:
    """Yield what the webhooks are told of these entries, in the order of the entries."""
    for one in entries:
        for webhook in webhooks:
            event = webhook.event_for(one.job_id, one.job_name, one.entry.kind)
            if event is None or one.id <= webhook.told_up_to:
                continue
            key = delivery_key(webhook.id, one.id)
            yield Delivery(
                target=target_of(webhook.id),
                key=key,
                event=event,
                body=body_of(key, event, one.job_id, one.job_name, one.entry, one.id),
                created_at=now,
                due_at=now,
                job_id=one.job_id,
                job_name=one.job_name,
                history_id=one.id,
                webhook_id=webhook.id,
            )


class DeliveryPruner:
    """Deletes old deliveries that have ended."""

    def __init__(self, units: UnitsOfWork, clock: Clock) -> None:
        self._units = units
        self._clock = clock

    async def run_once(self) -> None:
        gone = _PRUNE_BATCH
        while gone >= _PRUNE_BATCH:
            async with self._units() as uow:
                before = self._clock() - KEEP_ENDED
                gone = await uow.deliveries.prune(before, MOST_ENDED, _PRUNE_BATCH)
                await uow.commit()

    def failed(self) -> None:
        """Nothing is remembered between two runs."""
