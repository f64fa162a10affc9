"""The index finds the router that trying all of them would find, also when it remembers."""

from typing import Any

import pytest
from fastapi import FastAPI
from starlette.routing import Match

from jobmanager.api.app import make_app
from jobmanager.api.context import ROUTE
from jobmanager.api.route_index import RouteIndex
from jobmanager.core.access.route_rules import ROUTE_RULES, rule_for


@pytest.fixture(scope="module")
def app() -> FastAPI:
    return make_app()


def a_scope(method: str, path: str) -> dict[str, Any]:
    scope = {"type": "http", "method": method, "path": path, "root_path": "", "headers": []}
    return {**scope, ROUTE: rule_for(method, path)}


def first_match(app: FastAPI, method: str, path: str) -> Any:
    for route in app.router.routes:
        if route.matches(a_scope(method, path))[0] is Match.FULL:
            return route
    return None


def test_every_route_is_found_by_its_rule(app: FastAPI) -> None:
    index = RouteIndex(app.router)
    for number in range(3):  # other ids each time: the first is looked for, the others remembered
        for rule in ROUTE_RULES:
            plain = rule.path.replace(":path", "").replace("{", f"x{number}-").replace("}", "")
            for path in (plain, f"/v1{plain}"):
                expected = first_match(app, rule.method, path)
                assert index._route_of(a_scope(rule.method, path)) is expected, path
                assert expected is not None or path.startswith("/v1/")


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/nothing"), ("HEAD", "/jobs"), ("DELETE", "/v1/jobs"), ("GET", "")],
)
def test_what_has_no_route_is_left_to_the_router(app: FastAPI, method: str, path: str) -> None:
    assert RouteIndex(app.router)._route_of(a_scope(method, path)) is None
