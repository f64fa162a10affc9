"""Identifies the caller of each request, and refuses callers whose role is too small.

This happens before the body is read, so that a stranger cannot make the server hold a large body,
and on every server: if a follower forwards a request, the leader checks the caller again.
`core/access/route_rules.py` says which role a route needs, `core/access/graph_rules.py` which role
a job graph needs in addition.
"""

import asyncio
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobmanager.api import problems
from jobmanager.api.audit_trail import MatchedRule, entry_of
from jobmanager.api.context import CALLER, ROUTE, RULE, ApiContext
from jobmanager.core.access.callers import Caller, refusal_of_role
from jobmanager.core.access.roles import Role
from jobmanager.core.access.route_rules import rule_for
from jobmanager.core.access.tokens import bearer_token
from jobmanager.core.errors import DomainError, Forbidden, RoleTooSmall, TokenRefused

ACCEPTED_FOR = 5.0
"""Seconds after which the token of an answer that goes on is checked again."""


class AccessGate:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[ROUTE] = found = rule_for(scope["method"], scope["path"])
        if found is not None and not isinstance(found[0].needs, Role):
            await self._app(scope, receive, send)
            return
        context: ApiContext = scope["app"].state.context
        try:
            caller = await _caller_of(scope, context)
            refusal = await _refusal(scope, context, caller, found)
        except DomainError as error:
            refusal = problems.response(scope, error)
        if refusal is not None:
            with suppress(OSError):
                await refusal(scope, _nothing_more, send)
        elif scope["method"] == "GET" and "authorization" in Headers(scope=scope):
            await self._answer_while_accepted(context, scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _answer_while_accepted(
        self, context: ApiContext, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Let the route answer. A stream of events or a log that is followed ends when its token is
        revoked or expires.
        """
        has_begun = False

        async def send_noted(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        answering = asyncio.ensure_future(self._app(scope, receive, send_noted))
        try:
            while not (await asyncio.wait([answering], timeout=ACCEPTED_FOR))[0]:
                if not await _is_still_accepted(scope, context):
                    break
            else:
                await answering
                return
        finally:
            if answering.cancel():
                await asyncio.wait([answering])
        if has_begun:
            with suppress(OSError):
                await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _is_still_accepted(scope: Scope, context: ApiContext) -> bool:
    try:
        await _caller_of(scope, context)
    except Forbidden:
        return False
    except DomainError:
        return True  # Postgres is away: the question is asked again later
    return True


async def _caller_of(scope: Scope, context: ApiContext) -> Caller:
    given = Headers(scope=scope).getlist("authorization")
    origin = scope["client"][0] if scope.get("client") else None
    token = bearer_token(given[0]) if len(given) == 1 else None
    if given and token is None:
        raise TokenRefused(
            "the Authorization header holds no token: send 'Authorization: Bearer hg_...', once"
        )
    return await context.access.caller(token, origin)


async def _refusal(
    scope: Scope, context: ApiContext, caller: Caller, found: MatchedRule | None
) -> Response | None:
    """Return the answer that refuses the request; None: the request is allowed."""
    scope[CALLER], scope[RULE] = caller, found
    if found is None:
        # Fail closed: only an admin reaches a route that is missing from the table.
        return None if caller.role is Role.ADMIN else problems.no_such_route(scope)
    error: RoleTooSmall | None = refusal_of_role(caller, found[0])
    if error is None:
        return None
    answer = problems.response(scope, error)
    if found[0].is_write:
        entry = entry_of(scope, context, caller, found, answer.status_code)
        await context.audit.begin(entry)
    return answer


async def _nothing_more() -> Message:
    return {"type": "http.disconnect"}
