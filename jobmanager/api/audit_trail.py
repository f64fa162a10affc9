"""Writes every request that would change something into the audit.

The row is written before the request is carried out, and its status when the answer begins. If the
server dies in between, the row stays without a status. If a follower forwards a request, the leader
writes the row.
"""

from contextlib import suppress

import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobmanager.api import problems
from jobmanager.api.context import CALLER, RULE, SUBJECT, ApiContext
from jobmanager.api.forwarding import FORWARDED_BY
from jobmanager.core.access.callers import Caller
from jobmanager.core.access.route_rules import RouteRule
from jobmanager.core.errors import DomainError
from jobmanager.services.ports.access import AuditEntry

_log = structlog.get_logger(__name__)
MatchedRule = tuple[RouteRule, dict[str, str]]
_LONGEST = 300


def entry_of(
    scope: Scope,
    context: ApiContext,
    caller: Caller,
    found: MatchedRule,
    status: int | None = None,
) -> AuditEntry:
    rule, parameters = found
    return AuditEntry(
        at=context.clock(),
        actor=caller.name,
        role=caller.role,
        origin=caller.origin,
        method=rule.method,
        route=rule.path,
        subject=_text(next(iter(parameters.values()), None)),
        status=status,
        forwarded_by=_text(Headers(scope=scope).get(FORWARDED_BY)),
    )


class AuditTrail:
    """The innermost middleware, so that only the server that carries a request out records it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found: MatchedRule | None = scope.get(RULE)
        if found is None or not found[0].is_write:
            await self._app(scope, receive, send)
            return
        context: ApiContext = scope["app"].state.context
        entry = entry_of(scope, context, scope[CALLER], found)
        try:
            number = await context.audit.begin(entry)
        except DomainError as error:
            with suppress(OSError):
                await problems.response(scope, error)(scope, receive, send)
            return

        async def end(status: int) -> None:
            subject = _text(scope.get(SUBJECT)) or entry.subject
            try:
                await context.audit.end(number, status, subject)
            except Exception as error:  # the change is made, and the client must hear of it
                _log.warning("status not written to the audit", audit=number, error=str(error))

        async def send_after_end(message: Message) -> None:
            if message["type"] == "http.response.start":
                await end(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, send_after_end)
        except Exception:
            await end(500)
            raise


def _text(value: str | None) -> str | None:
    """Remove NUL characters, which Postgres refuses, and limit the length."""
    return None if value is None else value.replace("\0", "")[:_LONGEST]
