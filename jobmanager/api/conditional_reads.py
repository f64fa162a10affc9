"""Answers 304 to a read whose answer the client has already (`ETag`, `If-None-Match`).

It saves the sending and the parsing of what has not changed, not the reading: every answer tells
what Postgres has at that moment. Only reads that every viewer may make have a tag, so that no
browser keeps lists of tokens or the audit.
"""

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobmanager.api.context import RULE
from jobmanager.core.access.roles import Role
from jobmanager.core.access.route_rules import RouteRule
from jobmanager.core.entity_tags import entity_tag, names_tag

IF_NONE_MATCH = {
    "name": "if-none-match",
    "in": "header",
    "required": False,
    "schema": {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "If-None-Match"},
}
"""For the OpenAPI document. Every conditional read takes the header; the document says so only
where clients are to see it.
"""
_OF_CONTENT = ("content-length", "content-type")


class ConditionalReads:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _may_be_conditional(scope):
            await self._app(scope, receive, send)
            return
        begun: Message | None = None

        async def send_tagged(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start" and _is_json(message):
                begun = message  # its headers depend on the content
                return
            if begun is None:
                await send(message)
                return
            start, begun = begun, None
            if not message.get("more_body", False):
                message = _tagged(scope, start, message)
            await send(start)
            await send(message)

        await self._app(scope, receive, send_tagged)


def _may_be_conditional(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "GET":
        return False
    found = scope.get(RULE)
    return found is not None and is_conditional(found[0])


def is_conditional(rule: RouteRule) -> bool:
    """Whether the JSON that the route answers has a tag."""
    return rule.method == "GET" and rule.needs is Role.VIEWER and not rule.is_write


def _is_json(start: Message) -> bool:
    kind = Headers(raw=start["headers"]).get("content-type", "")
    return bool(start["status"] == 200 and kind.startswith("application/json"))


def _tagged(scope: Scope, start: Message, body: Message) -> Message:
    """Complete the headers; return the body to send, which is empty if the client has it."""
    headers, tag = MutableHeaders(scope=start), entity_tag(body.get("body", b""))
    headers["ETag"] = tag
    headers["Cache-Control"] = "private, no-cache"
    headers.add_vary_header("Authorization")
    known = Headers(scope=scope).getlist("if-none-match")
    if not any(names_tag(one, tag) for one in known):
        return body
    start["status"] = 304
    for name in _OF_CONTENT:
        del headers[name]
    return {**body, "body": b""}
