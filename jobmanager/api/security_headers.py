"""Headers that forbid other sites' pages any use of an answer in a browser.

There are no CORS headers, so scripts of other pages can read no answer. The dashboard has a
content security policy of its own (`dashboard.py`).
"""

from collections.abc import Mapping

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ON_EVERY_ANSWER: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
POLICY = "Content-Security-Policy"
POLICY_OF_DATA = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""An answer of the API that a browser opens as a page may run and load nothing."""
_POLICY_OF_DOCS = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; worker-src 'self' blob:; object-src 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Swagger UI starts by a script inside its page, ReDoc searches in a worker made of a blob."""
_DOCS = frozenset(["/docs", "/docs/oauth2-redirect", "/redoc"])


class SecurityHeaders:
    """Sets the headers on each answer. A policy that the route has set is kept."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(ON_EVERY_ANSWER)
                policy = _POLICY_OF_DOCS if scope["path"] in _DOCS else POLICY_OF_DATA
                headers.setdefault(POLICY, policy)
            await send(message)

        await self._app(scope, receive, send_with_headers)
