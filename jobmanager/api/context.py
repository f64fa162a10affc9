"""What the routes work with. The server makes it once; routes reach it through the request."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated
from uuid import UUID

import httpx
from fastapi import Depends, Path, Request

from jobmanager.api.metrics import Meters
from jobmanager.core.access.callers import Caller
from jobmanager.core.errors import MalformedRequest
from jobmanager.core.ids import JobId, JobManagerId
from jobmanager.services.access_control import AccessControl
from jobmanager.services.batched_checkpoints import Acks
from jobmanager.services.clock import Clock
from jobmanager.services.directive_polls import DirectivePolls
from jobmanager.services.directives import RunSettings
from jobmanager.services.events import EventHub
from jobmanager.services.heartbeats import Heartbeats
from jobmanager.services.ports.access import AuditLog
from jobmanager.services.ports.history import Actor
from jobmanager.services.ports.inspection import Inspector
from jobmanager.services.ports.leadership import WhoLeads
from jobmanager.services.ports.storage import SnapshotStorage
from jobmanager.services.ports.unit_of_work import UnitOfWork, UnitsOfWork
from jobmanager.services.thread_dumps import ThreadDumps
from jobmanager.services.wakeups import Wakeups
from jobmanager.services.webhooks import WebhookSending

CALLER = "headgate.caller"
"""Key of the request's scope: the caller. It is set before the route is called."""
RULE = "headgate.rule"
"""Key of the request's scope: the rule of the route, and the parameters in the path."""
ROUTE = "headgate.route"
"""Key of the request's scope: as `RULE`, also for routes that need no user's role."""
SUBJECT = "headgate.subject"
"""Key of the request's scope: the subject for the audit, if the path does not name it."""


@dataclass(frozen=True, slots=True)
class ApiContext:
    units: UnitsOfWork
    storage: SnapshotStorage
    inspector: Inspector
    wakeups: Wakeups
    events: EventHub
    meters: Meters
    clock: Clock
    run_settings: RunSettings
    heartbeats: Heartbeats
    directive_polls: DirectivePolls
    acks: Acks
    started_at: datetime
    ping: Callable[[], Awaitable[None]]
    """Raises `StoreUnavailable` while Postgres does not answer."""
    me: JobManagerId
    leadership: WhoLeads
    to_leader: httpx.AsyncClient
    """The HTTP client with which a follower passes requests on to the leader."""
    access: AccessControl
    audit: AuditLog
    webhooks: WebhookSending
    thread_dumps: ThreadDumps = field(default_factory=ThreadDumps)
    configuration: Mapping[str, str] = field(default_factory=dict)
    """The settings of the server, without secrets."""


async def _context(request: Request) -> ApiContext:
    context: ApiContext = request.app.state.context
    return context


Ctx = Annotated[ApiContext, Depends(_context)]


async def _caller(request: Request) -> Caller:
    caller: Caller = request.scope[CALLER]
    return caller


CurrentCaller = Annotated[Caller, Depends(_caller)]
"""The caller of the request; only for routes that need a role."""


async def _unit_of_work(request: Request, context: Ctx, caller: CurrentCaller) -> UnitOfWork:
    rule = request.scope.get(RULE)
    is_read = request.method in ("GET", "HEAD") and rule is not None and not rule[0].is_write
    return context.units(Actor.CLIENT, caller.name, only_reads=is_read)


async def _runners_unit_of_work(context: Ctx) -> UnitOfWork:
    return context.units(Actor.RUNNER)


Uow = Annotated[UnitOfWork, Depends(_unit_of_work)]
RunnerUow = Annotated[UnitOfWork, Depends(_runners_unit_of_work)]
"""The tag of the routes that only runners call."""


async def _job_id(
    jobid: Annotated[str, Path(description="32 hexadecimal digits", examples=["0" * 32])],
) -> JobId:
    return JobId(hex_id("jobid", jobid))


def hex_id(parameter: str, text: str) -> UUID:
    if len(text) == 32:
        try:
            return UUID(hex=text)
        except ValueError:
            pass
    raise MalformedRequest(
        "Bad request, could not parse parameters: "
        f'Cannot resolve path parameter ({parameter}) from value "{text}".'
    )


JobIdPath = Annotated[JobId, Depends(_job_id)]
