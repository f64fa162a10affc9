"""Deliveries to webhooks and of lineage events in Postgres."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import fields
from datetime import datetime

from sqlalchemy import func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from jobmanager.core.ids import JobId
from jobmanager.core.signals.delivery import Delivery, DeliveryStatus
from jobmanager.core.signals.webhook import WebhookId
from jobmanager.services.ports.signals import DeliveryCounts
from jobmanager.store.tables import DeliveryRow

# `core.signals.delivery.ready`, for all targets at once.
_READY = """
SELECT id FROM (
    SELECT DISTINCT ON (target) id, target, due_at FROM deliveries
    WHERE status = 'pending' AND target <> ALL(CAST(:busy AS text[]))
          AND NOT (steps_aside AND due_at > :now)
    ORDER BY target, id) AS heads
WHERE due_at <= :now ORDER BY target LIMIT :limit
"""
_GIVE_UP = """
WITH gone AS (
    UPDATE deliveries SET status = 'given_up', ended_at = :now, error = :why
    WHERE id IN (
        SELECT id FROM deliveries WHERE target = :target AND status = 'pending'
        ORDER BY id DESC OFFSET :most)
    RETURNING 1)
SELECT count(*) FROM gone
"""
_PRUNE = """
WITH gone AS (
    DELETE FROM deliveries WHERE id IN (
        SELECT id FROM (
            SELECT id, ended_at,
                   row_number() OVER (PARTITION BY target ORDER BY id DESC) AS place
            FROM deliveries WHERE status <> 'pending') AS ended
        WHERE ended_at < :before OR place > :keep LIMIT :limit)
    RETURNING 1)
SELECT count(*) FROM gone
"""
_AT_ONCE = 1000
"""Rows in one statement: Postgres takes 65,535 parameters."""
_GIVEN_BY_US = {one.name for one in fields(Delivery)} - {"id"}


class PostgresDeliveries:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def add(self, deliveries: Sequence[Delivery]) -> None:
        for at in range(0, len(deliveries), _AT_ONCE):
            chosen = deliveries[at : at + _AT_ONCE]
            rows = [{name: getattr(one, name) for name in _GIVEN_BY_US} for one in chosen]
            await self._session.execute(
                insert(DeliveryRow)
                .values(rows)
                .on_conflict_do_nothing(index_elements=["target", "key"])
            )

    async def ready(self, busy: Set[str], now: datetime, limit: int) -> Sequence[Delivery]:
        asked = {"busy": sorted(busy), "now": now, "limit": limit}
        found = (await self._session.scalars(text(_READY), asked)).all()
        rows = await self._session.scalars(
            select(DeliveryRow).where(DeliveryRow.id.in_(found)).order_by(DeliveryRow.target)
        )
        return [_delivery(row) for row in rows]

    async def save(self, delivery: Delivery) -> None:
        values = {name: getattr(delivery, name) for name in _GIVEN_BY_US}
        await self._session.execute(
            update(DeliveryRow)
            .where(DeliveryRow.id == delivery.id)
            .values(values)
            .execution_options(synchronize_session=False)
        )

    async def of_target(
        self, target: str, limit: int, before: int | None = None
    ) -> Sequence[Delivery]:
        query = select(DeliveryRow).where(DeliveryRow.target == target)
        if before is not None:
            query = query.where(DeliveryRow.id < before)
        rows = await self._session.scalars(query.order_by(DeliveryRow.id.desc()).limit(limit))
        return [_delivery(row) for row in rows]

    async def counts(self) -> Mapping[str, DeliveryCounts]:
        rows = await self._session.execute(
            select(
                DeliveryRow.target,
                func.count().filter(DeliveryRow.status == DeliveryStatus.PENDING),
                func.count().filter(DeliveryRow.status == DeliveryStatus.GIVEN_UP),
                func.max(DeliveryRow.ended_at).filter(
                    DeliveryRow.status == DeliveryStatus.DELIVERED
                ),
            ).group_by(DeliveryRow.target)
        )
        return {
            target: DeliveryCounts(pending, given_up, delivered_at)
            for target, pending, given_up, delivered_at in rows
        }

    async def give_up_oldest(self, target: str, most: int, why: str, now: datetime) -> int:
        asked = {"target": target, "most": most, "why": why, "now": now}
        return int(await self._session.scalar(text(_GIVE_UP), asked) or 0)

    async def prune(self, before: datetime, keep: int, limit: int) -> int:
        asked = {"before": before, "keep": keep, "limit": limit}
        return int(await self._session.scalar(text(_PRUNE), asked) or 0)


def _delivery(row: DeliveryRow) -> Delivery:
    return Delivery(
        target=row.target,
        key=row.key,
        event=row.event,
        body=row.body,
        created_at=row.created_at,
        due_at=row.due_at,
        job_id=None if row.job_id is None else JobId(row.job_id),
        job_name=row.job_name,
        history_id=row.history_id,
        webhook_id=None if row.webhook_id is None else WebhookId(row.webhook_id),
        status=DeliveryStatus(row.status),
        tries=row.tries,
        steps_aside=row.steps_aside,
        tried_at=row.tried_at,
        took_ms=row.took_ms,
        answer_status=row.answer_status,
        error=row.error,
        ended_at=row.ended_at,
        id=row.id,
    )
