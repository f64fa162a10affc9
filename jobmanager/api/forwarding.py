"""Followers pass on to the leader what only the leader may do: writes, and runners' calls."""

import asyncio
from uuid import UUID

import httpx
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from jobmanager.api import problems
from jobmanager.api.context import RULE, ApiContext
from jobmanager.api.limits import is_read, is_runner_call, is_upload
from jobmanager.core.errors import NotLeading

FORWARDED_BY = "headgate-forwarded-by"
"""A header that is set on a forwarded request, so that it is not forwarded again."""
PATIENCE = httpx.Timeout(10.0, connect=2.0, read=None)
"""No limit for the answer, which may take long; leadership is checked while waiting."""
_LOOK_EVERY = 0.5
_OF_ONE_HOP = frozenset(
    ["connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host"]
    + ["content-length", "content-encoding", "date", "server", "expect", "accept-encoding"]
)
_OF_THE_PAGE = ("origin", "referer", "sec-fetch-")
"""Headers about the browser's page, not forwarded: they are checked by the server that got the
request.
"""

_OF_PROXIES = ("forwarded", "x-forwarded-")
"""Replaced by what this server knows itself: the address that the request came from."""


class Forwarding:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _needs_leader(scope):
            await self._app(scope, receive, send)
            return
        context: ApiContext = scope["app"].state.context
        if context.leadership.term is not None:
            await self._app(scope, receive, send)
            return
        try:
            answer = await _forward(context, Request(scope, receive))
        except NotLeading as error:
            answer = problems.response(scope, error)
        await answer(scope, receive, send)


def _asks_runner(path: str) -> bool:
    match path.removeprefix("/v1").strip("/").split("/"):
        case ["taskmanagers", _, "thread-dump"]:
            return True
        case _:
            return False


def _needs_leader(scope: Scope) -> bool:
    if scope["path"].removeprefix("/v1").startswith("/tokens"):
        return False  # every server can create and revoke tokens, also while no server leads
    if is_runner_call(scope["path"]) or not is_read(scope):
        return True
    if _asks_runner(scope["path"]):
        return True  # runners speak with the leader
    found = scope.get(RULE)  # a GET may change something, too
    return found is not None and found[0].is_write


async def _forward(context: ApiContext, request: Request) -> Response:
    leader = context.leadership.leader_url
    if leader is None:
        raise NotLeading(
            "no JobManager leads at the moment; one takes over within seconds: try again"
        )
    if FORWARDED_BY in request.headers:
        raise NotLeading(f"this JobManager does not lead; the last leader it knows of is {leader}")
    asking = asyncio.create_task(
        context.to_leader.request(
            request.method,
            leader + _target(request.scope),
            content=request.stream() if is_upload(request.scope["path"]) else await request.body(),
            headers=_headers(request, context.me),
        )
    )
    try:
        while not asking.done():
            await asyncio.wait([asking], timeout=_LOOK_EVERY)
            if not asking.done() and context.leadership.leader_url != leader:
                raise NotLeading(
                    f"the leader {leader} did not answer: the request may have been carried out; "
                    "check first, or repeat the request with the same Idempotency-Key"
                )
        found = asking.result()
    except httpx.HTTPError as error:
        raise NotLeading(
            f"the leader {leader} cannot be reached: {type(error).__name__}"
        ) from error
    finally:
        asking.cancel()
    kept = {name: value for name, value in found.headers.items() if name not in _OF_ONE_HOP}
    return Response(found.content, found.status_code, kept)


def _target(scope: Scope) -> str:
    query = scope["query_string"].decode("ascii")
    path = scope.get("raw_path", scope["path"].encode()).decode("ascii")
    return f"{path}?{query}" if query else path


def _headers(request: Request, me: UUID) -> list[tuple[str, str]]:
    """Return the headers to forward. The leader checks the caller's token again."""
    kept = [
        (name, value)
        for name, value in request.headers.items()
        if name not in _OF_ONE_HOP and not name.startswith((*_OF_THE_PAGE, *_OF_PROXIES))
    ]
    origin = [("X-Forwarded-For", request.client.host)] if request.client else []
    return [*kept, *origin, (FORWARDED_BY, str(me))]
