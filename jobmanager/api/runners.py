"""Routes that runners call, and the list of runners. `jobmanager.protocol` has the messages."""

from datetime import timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query
from pydantic import BeforeValidator
from starlette.requests import Request
from starlette.responses import Response

from jobmanager.api import runner_calls
from jobmanager.api.context import Ctx, RunnerUow, Uow
from jobmanager.api.shapes.runners import RunnerItem, RunnerPage
from jobmanager.core.durations import milliseconds
from jobmanager.core.errors import MalformedRequest
from jobmanager.core.ids import (
    AttemptNumber,
    CheckpointNumber,
)
from jobmanager.core.life.checkpoint import AbortReason, BarrierDeclined
from jobmanager.protocol import messages, versions
from jobmanager.services import checkpoints, runner_tokens, runners
from jobmanager.services.ports.runners import Runner
from jobmanager.services.runner_tokens import Credentials

router = APIRouter(tags=["runners"])
runner_calls.add_to(router)
POLL_WAIT_MS = 5_000
"""Kept short: a runner that waits for an answer of a frozen leader gets no directives."""
_DECLINES = {
    "not_running": AbortReason.DECLINED_NOT_RUNNING,
    "no_boundary_in_time": AbortReason.DECLINED_NO_BOUNDARY,
    "storage": AbortReason.DECLINED_STORAGE,
    "superseded": AbortReason.DECLINED_SUPERSEDED,
    "internal": AbortReason.DECLINED_INTERNAL,
}


@router.get("/runners", summary="Who runs what")
async def runner_list(
    uow: Uow,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    alive: Annotated[bool, Query(description="Only those that have not exited.")] = False,
) -> RunnerPage:
    async with uow:
        found = await uow.runners.alive() if alive else await uow.runners.all(limit)
    return RunnerPage(items=[_item(runner) for runner in found], next=None)


def _shown(
    runner_id: UUID,
    authorization: Annotated[str, Header()] = "",
    attempt_token: Annotated[str | None, Header(alias=messages.ATTEMPT_TOKEN)] = None,
) -> Credentials:
    return runner_calls.credentials(runner_id, authorization, attempt_token)


Shown = Annotated[Credentials, Depends(_shown)]


def _received(shape: type[messages.Message]) -> BeforeValidator:
    """Read the body of a runner's call, which may have fields that are newer than this server."""
    return BeforeValidator(shape.received_value)


Hello = Annotated[messages.RunnerHello, _received(messages.RunnerHello)]
Declined = Annotated[messages.BarrierDecline, _received(messages.BarrierDecline)]
Report = Annotated[messages.AttemptReport, _received(messages.AttemptReport)]


@router.post("/runners/{runner_id}/register", response_model=messages.RunnerWelcome)
async def register(
    shown: Shown, hello: Hello, context: Ctx, uow: RunnerUow, request: Request
) -> Response:
    caller = await runner_tokens.authenticate(uow, shown)
    if not versions.works_with(hello.protocol):
        raise MalformedRequest(
            f"this server speaks version {messages.PROTOCOL_VERSION} of the runner protocol and "
            f"works with runners that are one version older or newer, not with version "
            f"{hello.protocol}: start the job again with a runner of this server's version"
        )
    await runners.register(uow, caller, hello, context.clock())
    welcome = messages.RunnerWelcome(
        heartbeat_interval_ms=milliseconds(context.heartbeats.interval),
        poll_wait_ms=_poll_wait_ms(context.heartbeats.interval),
        urls=list(context.leadership.urls),
    )
    return runner_calls.answer(request, welcome)


@router.post("/runners/{runner_id}/declines", response_model=messages.BarrierReply)
async def declines(
    shown: Shown, said: Declined, context: Ctx, uow: RunnerUow, request: Request
) -> Response:
    caller = await runner_tokens.authenticate_for(uow, shown, said.job, said.attempt)
    detail = f"region {said.region}: {said.detail}" if said.region else said.detail
    event = BarrierDeclined(
        context.clock(), AttemptNumber(said.attempt), _DECLINES[said.reason], detail
    )
    number = CheckpointNumber(said.checkpoint)
    outcome = await checkpoints.decline(uow, caller.job_id, number, event)
    return runner_calls.answer(request, messages.BarrierReply(outcome=outcome.value))


@router.post("/runners/{runner_id}/attempt", response_model=messages.AttemptReply)
async def attempt(
    shown: Shown, said: Report, context: Ctx, uow: RunnerUow, request: Request
) -> Response:
    caller = await runner_tokens.authenticate_for(uow, shown, said.job, said.attempt)
    superseded = await runners.report(uow, caller, said, context.clock())
    return runner_calls.answer(request, messages.AttemptReply(superseded=superseded))


def _poll_wait_ms(heartbeat_interval: timedelta) -> int:
    """Return how long a poll may wait: longer with many runners, since each poll reads Postgres."""
    return max(POLL_WAIT_MS, min(4 * milliseconds(heartbeat_interval), 4 * POLL_WAIT_MS))


def _item(runner: Runner) -> RunnerItem:
    memory = runner.memory or {}
    return RunnerItem(
        id=runner.id,
        job=runner.job_id.hex,
        attempt=runner.attempt,
        host=runner.host,
        pid=runner.pid,
        process=runner.process_id,
        is_shared=runner.shares_process,
        spark_version=runner.spark_version,
        launched_at=runner.launched_at,
        registered_at=runner.registered_at,
        heartbeat_at=runner.heartbeat_at,
        exited_at=runner.exited_at,
        exit=runner.exit_description,
        versions=_versions(runner),
        slots=memory.get("slots"),
        resident_bytes=memory.get("resident_bytes"),
        heap_used_bytes=memory.get("heap_used_bytes"),
        heap_max_bytes=memory.get("heap_max_bytes"),
    )


def _versions(runner: Runner) -> dict[str, str]:
    java = (runner.memory or {}).get("java_version")
    protocol = runner.protocol if runner.registered_at else None
    said = {"spark": runner.spark_version, "java": java, "protocol": protocol, **runner.versions}
    return {name: str(version) for name, version in said.items() if version}
