"""Native routes about webhooks."""

import secrets
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from jobmanager.api.context import SUBJECT, Ctx
from jobmanager.api.shapes.webhooks import (
    DeliveryItem,
    DeliveryPage,
    NewWebhookResponse,
    WebhookList,
    WebhookResponse,
    WebhookTest,
)
from jobmanager.core import secret_references
from jobmanager.core.signals.delivery import Delivery, DeliveryStatus
from jobmanager.core.signals.target_address import parse_target
from jobmanager.core.signals.webhook import RULES, Webhook, WebhookId, rules_of
from jobmanager.services import webhooks
from jobmanager.services.ports.signals import DeliveryCounts

router = APIRouter(tags=["webhooks"])
_NAMED = Annotated[str, Path(max_length=255)]
_KEY_BYTES = 32


class WebhookRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="1 to 64 letters, digits, '.', '_' and '-'.", max_length=255)
    url: str = Field(
        description="Where requests are sent: https://host/path. The path may contain "
        "${secret:name}.",
        max_length=4096,
    )
    on: list[str] = Field(
        description=f"The events that the webhook is told of: {', '.join(RULES)}.",
        min_length=1,
        max_length=50,
    )
    job: str | None = Field(
        None,
        description="A pattern of job names, such as orders-*, or the id of a job. None: all jobs.",
        max_length=255,
    )
    secret: str | None = Field(
        None,
        description="The key of the signature: at least 16 characters, or ${secret:name}. None: "
        "the server makes a key, and its answer contains it.",
        max_length=1024,
    )


@router.post("/webhooks", status_code=HTTPStatus.CREATED, summary="Create a webhook")
async def create(request: Request, context: Ctx, body: WebhookRequest) -> NewWebhookResponse:
    request.scope[SUBJECT] = body.name
    made = None if body.secret is not None else secrets.token_urlsafe(_KEY_BYTES)
    wanted = Webhook(
        id=WebhookId(uuid4()),
        name=body.name,
        url=body.url,
        on=rules_of(body.on),
        secret=body.secret or made or "",
        created_at=context.clock(),
        job_pattern=body.job,
    )
    stored = await webhooks.create(context.units, context.webhooks, wanted)
    return NewWebhookResponse(**_facts(stored, DeliveryCounts()), made_secret=made)


@router.get("/webhooks", summary="All webhooks, without their secrets")
async def webhook_list(context: Ctx) -> WebhookList:
    found = await webhooks.listed(context.units)
    items = [WebhookResponse(**_facts(one, counts)) for one, counts in found]
    return WebhookList(items=items, next=None)


@router.delete("/webhooks/{name}", summary="Delete a webhook with its deliveries")
async def delete(name: _NAMED, context: Ctx) -> WebhookResponse:
    gone = await webhooks.delete(context.units, name)
    return WebhookResponse(**_facts(gone, DeliveryCounts()))


@router.post("/webhooks/{name}/test", summary="Send a sample, and answer what the receiver said")
async def test(name: _NAMED, context: Ctx) -> WebhookTest:
    tried, answer = await webhooks.test(context.units, context.webhooks, name, context.clock())
    return WebhookTest(
        delivery=str(tried.key),
        is_delivered=tried.status is DeliveryStatus.DELIVERED,
        status=tried.answer_status,
        answer=None if answer is None else answer.text,
        error=tried.error,
        took_ms=tried.took_ms or 0,
    )


@router.get("/webhooks/{name}/deliveries", summary="Deliveries of a webhook, the newest first")
async def deliveries(
    name: _NAMED,
    context: Ctx,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: Annotated[int | None, Query(ge=1, le=2**62, description="The id of an item.")] = None,
) -> DeliveryPage:
    async with context.units() as uow:
        webhook = await uow.webhooks.get(name)
        target = webhooks.target_of(webhook.id)
        found = await uow.deliveries.of_target(target, limit, before)
    items = [_item(one) for one in found]
    return DeliveryPage(items=items, next=items[-1].id if len(items) == limit else None)


def _facts(webhook: Webhook, counts: DeliveryCounts) -> dict[str, Any]:
    is_reference = secret_references.has_reference(webhook.secret)
    return {
        "name": webhook.name,
        "url": parse_target(webhook.url).shown,
        "on": list(webhook.on),
        "job": webhook.job_pattern,
        "secret": webhook.secret if is_reference else None,
        "created_at": webhook.created_at,
        "pending": counts.pending,
        "given_up": counts.given_up,
        "last_delivered_at": counts.last_delivered_at,
    }


def _item(one: Delivery) -> DeliveryItem:
    is_pending = one.status is DeliveryStatus.PENDING
    next_try_at: datetime | None = one.due_at if is_pending else None
    return DeliveryItem(
        id=one.id,
        delivery=str(one.key),
        event=one.event,
        job=None if one.job_id is None else one.job_id.hex,
        job_name=one.job_name,
        sequence=one.history_id,
        status=one.status,
        tries=one.tries,
        created_at=one.created_at,
        tried_at=one.tried_at,
        next_try_at=next_try_at,
        ended_at=one.ended_at,
        answer_status=one.answer_status,
        error=one.error,
        took_ms=one.took_ms,
    )
