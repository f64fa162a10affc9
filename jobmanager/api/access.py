"""Lets a request in: who makes it, and whether that is enough for its route.

Before the body is read, so that a stranger cannot make the server keep one; and on every server,
also on one that passes the request on: the leader asks again. What a route needs is in
`core/access/route_rules.py`, what a job graph needs beyond that in `core/access/graph_rules.py`.
"""

from contextlib import suppress

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobmanager.api import problems
from jobmanager.api.audit_trail import RULE, MatchedRule, entry_of
from jobmanager.api.context import CALLER, ApiContext
from jobmanager.core.access.callers import Caller, refusal_of_role
from jobmanager.core.access.roles import Role
from jobmanager.core.access.route_rules import rule_for
from jobmanager.core.access.tokens import bearer_token
from jobmanager.core.errors import DomainError, RoleTooSmall, TokenRefused


class AccessGate:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        found = rule_for(scope["method"], scope["path"])
        if found is not None and not isinstance(found[0].needs, Role):
            await self._app(scope, receive, send)
            return
        context: ApiContext = scope["app"].state.context
        try:
            caller = await _caller_of(scope, context)
            refusal = await _refusal(scope, context, caller, found)
        except DomainError as error:
            refusal = problems.response(scope, error)
        if refusal is None:
            await self._app(scope, receive, send)
            return
        with suppress(OSError):
            await refusal(scope, _nothing_more, send)


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
    """The answer to who may not do this; None: the request may go on."""
    scope[CALLER], scope[RULE] = caller, found
    if found is None:
        # What is not in the table is nobody's: an admin is told what there is instead.
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
