"""Finds the router of a request without trying all routers before it.

There are some hundred routes, each with and without `/v1`. To try them one after the other took
more than half of the time of a small read. The access gate has already found the rule of the
request, and the table of rules has the routes in their order (a test compares the two): so requests
with the same rule belong to the same router, and it is looked for only once.
"""

from fastapi import APIRouter
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from jobmanager.api.context import ROUTE


class RouteIndex:
    def __init__(self, router: APIRouter) -> None:
        self._router = router
        self._known: dict[tuple[str, str, bool], BaseRoute] = {}

    def install(self) -> None:
        """To be called when the router has all its routes."""
        self._router.middleware_stack = self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._route_of(scope)
        if route is None:  # nothing that a route serves: FastAPI says so
            await self._router.app(scope, receive, send)
            return
        scope.setdefault("router", self._router)
        await route.handle(scope, receive, send)

    def _route_of(self, scope: Scope) -> BaseRoute | None:
        found = scope.get(ROUTE)
        if found is None or found[0].method != scope["method"]:
            return None
        key = found[0].method, found[0].path, scope["path"].startswith("/v1/")
        for route in (self._known[key],) if key in self._known else self._router.routes:
            match, of_route = route.matches(scope)
            if match is Match.FULL:
                self._known[key] = route
                scope.update(of_route)
                return route
        return None
