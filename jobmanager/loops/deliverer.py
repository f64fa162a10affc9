"""Sends deliveries: to each target one after the other, to a few targets at once.

A delivery is sent, and then recorded as sent. A leader that ends in between has sent a delivery
that is still pending, and the next leader sends it again, with the same idempotency id: at least
once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

import structlog

from jobmanager.core.signals.delivery import (
    OPENLINEAGE,
    Delivery,
    DeliveryStatus,
    NotSent,
    SendOutcome,
    after_try,
)
from jobmanager.services.clock import Clock
from jobmanager.services.ports.unit_of_work import UnitsOfWork
from jobmanager.services.webhooks import WebhookSending

_log = structlog.get_logger(__name__)
_TARGETS_AT_ONCE = 8
SendLineage = Callable[[Delivery], Awaitable[SendOutcome]]


class Deliverer:
    def __init__(
        self,
        units: UnitsOfWork,
        sending: WebhookSending,
        clock: Clock,
        wake: asyncio.Event,
        lineage: SendLineage | None = None,
    ) -> None:
        self._units = units
        self._sending = sending
        self._clock = clock
        self._wake = wake
        """Set when a target is free again, so that the next run comes soon."""
        self._lineage = lineage
        """None: lineage events are switched off."""
        self._under_way: dict[str, asyncio.Task[None]] = {}

    @property
    def under_way(self) -> Mapping[str, asyncio.Task[None]]:
        """By target."""
        return self._under_way

    async def run_once(self) -> None:
        """Begin what may begin, and wait for nothing of it."""
        self._forget_ended()
        free = _TARGETS_AT_ONCE - len(self._under_way)
        if free <= 0:
            return
        async with self._units() as uow:
            found = await uow.deliveries.ready(self._under_way.keys(), self._clock(), free)
        for delivery in found:
            task = asyncio.create_task(self._deliver(delivery))
            self._under_way[delivery.target] = task
            task.add_done_callback(lambda _: self._wake.set())

    def failed(self) -> None:
        """What is under way is remembered, and goes on."""

    async def end(self) -> None:
        """Break off what is under way: it is sent again by the next leader."""
        for task in self._under_way.values():
            task.cancel()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)
        self._under_way.clear()

    def _forget_ended(self) -> None:
        for target, task in list(self._under_way.items()):
            if task.done():
                del self._under_way[target]
                if not task.cancelled() and (error := task.exception()):
                    _log.warning("delivery not recorded", target=target, error=str(error))

    async def _deliver(self, delivery: Delivery) -> None:
        outcome = await self._send(delivery, self._clock())
        if outcome is None:
            return
        tried = after_try(delivery, outcome, self._clock())
        async with self._units() as uow:
            await uow.deliveries.save(tried)
            await uow.commit()
        if tried.error is not None:
            _log.warning(
                "delivery failed",
                target=delivery.target,
                delivery=str(delivery.key),
                tries=tried.tries,
                error=tried.error,
                is_given_up=tried.status is DeliveryStatus.GIVEN_UP,
            )

    async def _send(self, delivery: Delivery, now: datetime) -> SendOutcome | None:
        """Send the delivery; None: it went with its webhook, which was deleted."""
        if delivery.target == OPENLINEAGE:
            if self._lineage is None:
                return NotSent("OPENLINEAGE_URL is not set any more", is_final=True)
            return await self._lineage(delivery)
        assert delivery.webhook_id is not None
        async with self._units() as uow:
            webhook = await uow.webhooks.find(delivery.webhook_id)
        if webhook is None:
            return None
        return await self._sending.send(webhook, delivery, now)
