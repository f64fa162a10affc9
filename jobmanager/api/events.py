"""Server-sent events: history entries as they are written, and the progress of jobs."""

import asyncio
import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from jobmanager.api.context import Ctx, JobIdPath, Uow
from jobmanager.api.shapes.events import EVENT_DATA
from jobmanager.services.events import Event, ProgressDetail, Subscription

router = APIRouter(tags=["events"])
_log = structlog.get_logger(__name__)
BEAT_SECONDS = 15.0
"""After so long without an event, a comment is sent to show that the stream is alive."""
SEND_SECONDS = 20.0
"""A client that reads nothing for so long is disconnected."""
_RETRY_MS = 2_000
_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events. The `data` of each event is JSON, of one of the "
        "schemas " + ", ".join(one.__name__ for one in EVENT_DATA)
    }
}

LastSeen = Annotated[
    int | None,
    Header(alias="Last-Event-ID", ge=0, le=2**62, description="Send events after this id."),
]
LastSeenParameter = Annotated[
    int | None,
    Query(
        alias="last_event_id",
        ge=0,
        le=2**62,
        description="The same, for clients that cannot set a header.",
    ),
]


class EventStream(StreamingResponse):
    """A stream that ends when the client has gone or is too slow, or when the server ends."""

    media_type = "text/event-stream"

    def __init__(self, subscription: Subscription, after: int | None) -> None:
        super().__init__(_lines(subscription, after), headers={"Cache-Control": "no-store"})
        self._subscription = subscription

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            await asyncio.wait_for(send(message), SEND_SECONDS)

        try:
            await super().__call__(scope, receive, send_in_time)
        except TimeoutError:
            _log.info("event stream closed", reason="the client does not read")
        finally:
            self._subscription.close()


@router.get(
    "/events",
    summary="Everything that happens",
    status_code=HTTPStatus.OK,
    response_class=EventStream,
    responses=_EVENTS,
)
async def events(
    context: Ctx,
    progress: ProgressDetail = ProgressDetail.EACH,
    last_event_id: LastSeen = None,
    last_event_id_parameter: LastSeenParameter = None,
) -> EventStream:
    """The type of an event is the kind of the history entry, its data the entry with the job's
    id, name and state. `progress` and `checkpoint_ack` events have no id: they are not stored.
    """
    after = last_event_id_parameter if last_event_id is None else last_event_id
    return EventStream(context.events.subscribe(None, progress), after)


@router.get(
    "/jobs/{jobid}/events",
    summary="Everything that happens to a job",
    status_code=HTTPStatus.OK,
    response_class=EventStream,
    responses=_EVENTS,
)
async def events_of_job(
    job_id: JobIdPath,
    context: Ctx,
    uow: Uow,
    last_event_id: LastSeen = None,
    last_event_id_parameter: LastSeenParameter = None,
) -> EventStream:
    async with uow:
        await uow.jobs.get(job_id)
    after = last_event_id_parameter if last_event_id is None else last_event_id
    return EventStream(context.events.subscribe(job_id), after)


async def _lines(subscription: Subscription, after: int | None) -> AsyncIterator[str]:
    yield f"retry: {_RETRY_MS}\n\n"
    async for event in subscription.follow(after, BEAT_SECONDS):
        yield ": alive\n\n" if event is None else _line(event)


def _line(event: Event) -> str:
    number = f"id: {event.id}\n" if event.id is not None else ""
    data = json.dumps(event.data, ensure_ascii=False, separators=(",", ":"))
    return f"{number}event: {event.kind}\ndata: {data}\n\n"
