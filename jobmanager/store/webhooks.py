"""Webhooks in Postgres."""

from collections.abc import Sequence

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from jobmanager.core.errors import WebhookNameTaken, WebhookNotFound
from jobmanager.core.signals.webhook import Webhook, WebhookEvent, WebhookId
from jobmanager.store.tables import WebhookRow


class PostgresWebhooks:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def add(self, webhook: Webhook) -> None:
        row = {
            "id": webhook.id,
            "name": webhook.name,
            "url": webhook.url,
            "events": [str(event) for event in webhook.on],
            "job_pattern": webhook.job_pattern,
            "secret": webhook.secret,
            "created_at": webhook.created_at,
            "told_up_to": webhook.told_up_to,
        }
        try:
            await self._session.execute(insert(WebhookRow).values(row))
        except IntegrityError as error:
            raise WebhookNameTaken(
                f"there is a webhook {webhook.name!r}: choose another name, or delete that one "
                f"first (headgate webhooks delete {webhook.name})"
            ) from error

    async def get(self, name: str) -> Webhook:
        row = await self._session.scalar(select(WebhookRow).where(WebhookRow.name == name))
        if row is None:
            raise WebhookNotFound(
                f"there is no webhook {name!r}: headgate webhooks list shows those that there are"
            )
        return _webhook(row)

    async def find(self, webhook_id: WebhookId) -> Webhook | None:
        row = await self._session.scalar(select(WebhookRow).where(WebhookRow.id == webhook_id))
        return None if row is None else _webhook(row)

    async def all(self) -> Sequence[Webhook]:
        rows = await self._session.scalars(select(WebhookRow).order_by(WebhookRow.name))
        return [_webhook(row) for row in rows]

    async def count(self) -> int:
        return await self._session.scalar(select(func.count()).select_from(WebhookRow)) or 0

    async def delete(self, webhook_id: WebhookId) -> None:
        await self._session.execute(delete(WebhookRow).where(WebhookRow.id == webhook_id))

    async def advance(self, webhooks: Sequence[WebhookId], told_up_to: int) -> None:
        await self._session.execute(
            update(WebhookRow)
            .where(WebhookRow.id.in_(webhooks), WebhookRow.told_up_to < told_up_to)
            .values(told_up_to=told_up_to)
            .execution_options(synchronize_session=False)
        )


def _webhook(row: WebhookRow) -> Webhook:
    known = set(WebhookEvent)
    return Webhook(
        id=WebhookId(row.id),
        name=row.name,
        url=row.url,
        # a newer program may have written events that this one does not know
        on=tuple(WebhookEvent(event) for event in row.events if event in known),
        secret=row.secret,
        created_at=row.created_at,
        job_pattern=row.job_pattern,
        told_up_to=row.told_up_to,
    )
