"""The calls that runners make all the time: heartbeats, polls for directives, acks.

With many jobs they are nearly all the requests. So they are plain ASGI endpoints: what FastAPI
does for a route took longer than the work of the route itself.
"""

from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from fastapi import APIRouter
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from jobmanager.api.context import ApiContext
from jobmanager.core.durations import milliseconds
from jobmanager.core.errors import MalformedRequest, WrongRunnerToken
from jobmanager.core.ids import (
    AttemptNumber,
    CheckpointNumber,
    JobId,
    RegionId,
    RunnerId,
    SubtaskRef,
    VertexId,
)
from jobmanager.core.life.checkpoint import (
    AckOutcome,
    BarrierAcked,
    BarrierTimes,
    Snapshot,
    Stored,
)
from jobmanager.core.plan.job_plan import SnapshotKind
from jobmanager.protocol import messages, versions
from jobmanager.services import batched_checkpoints, checkpoints
from jobmanager.services.ports.history import Actor
from jobmanager.services.runner_tokens import Credentials, authenticate, authenticate_for

Read = TypeVar("Read", bound=BaseModel)


class _Waits(BaseModel):
    after: int = Field(0, ge=0, le=2**62)
    wait_ms: int = Field(0, ge=0, le=60_000)


def add_to(router: APIRouter) -> None:
    for call, method in ((directives, "GET"), (heartbeat, "POST"), (acks, "POST")):
        router.add_route(f"/runners/{{runner_id}}/{call.__name__}", call, methods=[method])


async def directives(request: Request) -> Response:
    asked = _read("query", lambda: _Waits.model_validate(dict(request.query_params)))
    found = await _context(request).directive_polls.fetch(
        _credentials(request), asked.after, asked.wait_ms / 1000
    )
    return answer(request, messages.Directives(directives=list(found)))


async def heartbeat(request: Request) -> Response:
    content, context = await request.body(), _context(request)
    beat = _read("body", lambda: messages.Heartbeat.received(content))
    shown = _credentials(request)
    superseded = await context.heartbeats.note(shown, beat)
    if beat.threads is not None:
        context.thread_dumps.answered(shown.runner, beat.threads)
    return answer(
        request,
        messages.HeartbeatReply(
            superseded=superseded,
            heartbeat_interval_ms=milliseconds(context.heartbeats.interval),
            urls=list(context.leadership.urls),
            wants_threads=context.thread_dumps.is_wanted(shown.runner),
        ),
    )


async def acks(request: Request) -> Response:
    content, context = await request.body(), _context(request)
    said = _read("body", lambda: messages.BarrierAcks.received(content))
    ack = batched_checkpoints.Ack(
        shown=_credentials(request),
        job_id=JobId(said.job),
        checkpoint=CheckpointNumber(said.checkpoint),
        event=BarrierAcked(
            at=context.clock(),
            attempt=AttemptNumber(said.attempt),
            snapshots={_ref(one): _snapshot(one) for one in said.acks},
            stored=Stored(
                said.manifest,
                said.batches,
                said.bytes,
                said.new_bytes,
                BarrierTimes(said.waited_ms, said.snapshot_ms),
            ),
            has_new_batches=said.has_new_batches,
        ),
    )
    acked = await context.acks.note(ack)
    if acked is None:
        async with context.acks.one_by_one:
            uow = context.units(Actor.RUNNER)
            caller = await authenticate_for(uow, ack.shown, said.job, said.attempt)
            acked = await checkpoints.acknowledge(uow, caller.job_id, ack.checkpoint, ack.event)
    if acked.outcome in (AckOutcome.RECORDED, AckOutcome.COMPLETED):
        context.meters.acked(acked.kind, acked.after, is_last=acked.is_last)
    return answer(request, messages.BarrierReply(outcome=acked.outcome.value))


def answer(request: Request, body: messages.Message) -> Response:
    """Answer a runner in the form of the runner's version of the protocol."""
    version = versions.version_in(request.headers.get(messages.PROTOCOL_HEADER))
    headers = {messages.PROTOCOL_HEADER: str(messages.PROTOCOL_VERSION)}
    content = versions.written_for(version, body)
    return Response(content, media_type="application/json", headers=headers)


def credentials(runner_id: UUID, authorization: str, attempt_token: str | None) -> Credentials:
    """The credentials that a call carries. Raises `WrongRunnerToken`."""
    scheme, _, secret = authorization.partition(" ")
    if scheme.lower() != "bearer" or not secret:
        raise WrongRunnerToken("a runner has to send its secret: Authorization: Bearer <secret>")
    return Credentials(RunnerId(runner_id), secret, attempt_token)


async def check_caller(scope: Scope) -> None:
    """Check that a runner which exists makes the call, before its body is read. Raises what the
    call itself would.
    """
    request = Request(scope)
    context = _context(request)
    text = scope["path"].removeprefix("/v1").strip("/").split("/")[1]
    await authenticate(context.units(Actor.RUNNER), _credentials(request, text))


def _context(request: Request) -> ApiContext:
    context: ApiContext = request.app.state.context
    return context


def _credentials(request: Request, runner_id: str | None = None) -> Credentials:
    text = runner_id or str(request.path_params["runner_id"])
    try:
        found = UUID(text)
    except ValueError:
        raise MalformedRequest(f"{text!r} is not the id of a runner") from None
    headers = request.headers
    return credentials(found, headers.get("authorization", ""), headers.get(messages.ATTEMPT_TOKEN))


def _read(where: str, read: Callable[[], Read]) -> Read:
    """Read a part of the request; raise what FastAPI raises where the request is invalid."""
    try:
        return read()
    except ValidationError as error:
        faults = [{**one, "loc": (where, *one["loc"])} for one in error.errors(include_url=False)]
        raise RequestValidationError(faults) from None


def _ref(ack: messages.SubtaskAck) -> SubtaskRef:
    return SubtaskRef(RegionId(ack.region), VertexId(ack.vertex), ack.subtask)


def _snapshot(ack: messages.SubtaskAck) -> Snapshot:
    return Snapshot(
        kind=SnapshotKind(ack.kind),
        pointer=ack.pointer,
        version=ack.version,
        bytes=ack.bytes,
        key_groups=tuple(ack.key_groups),
        offsets=ack.offsets,
        watermark=ack.watermark,
    )
