"""Shapes of webhooks and their deliveries."""

from datetime import datetime

from jobmanager.api.shapes.shape import Shape
from jobmanager.core.signals.delivery import DeliveryStatus
from jobmanager.core.signals.webhook import WebhookEvent


class WebhookResponse(Shape):
    """A webhook, without its secret and without the path of its URL, which often is a secret."""

    name: str
    url: str
    """Scheme and host; `/…` stands for the path."""
    on: list[WebhookEvent]
    job: str | None
    """A pattern of job names, or the id of a job; null: all jobs."""
    secret: str | None
    """The reference to the secret, such as `${secret:hooks}`; null: it is in the database."""
    created_at: datetime
    pending: int
    """Deliveries that are not sent yet, or are tried again."""
    given_up: int
    """Deliveries of the last days that were given up."""
    last_delivered_at: datetime | None


class NewWebhookResponse(WebhookResponse):
    made_secret: str | None
    """The key that the server made, for the receiver. No other answer contains it. Null: the
    request named a secret.
    """


class WebhookList(Shape):
    items: list[WebhookResponse]
    next: str | None


class WebhookTest(Shape):
    """How a sample was taken."""

    delivery: str
    """The idempotency id of the sample."""
    is_delivered: bool
    status: int | None
    """The status that the receiver answered; null: there was no answer."""
    answer: str | None
    """The beginning of the answer."""
    error: str | None
    took_ms: int


class DeliveryItem(Shape):
    """A message to a webhook."""

    id: int
    delivery: str
    """The idempotency id."""
    event: str
    job: str | None
    job_name: str | None
    sequence: int | None
    """The id of the history entry."""
    status: DeliveryStatus
    tries: int
    created_at: datetime
    tried_at: datetime | None
    next_try_at: datetime | None
    ended_at: datetime | None
    answer_status: int | None
    """Of the last try."""
    error: str | None
    took_ms: int | None


class DeliveryPage(Shape):
    items: list[DeliveryItem]
    next: int | None
    """The `before` of the next page; null: this is the last page."""
