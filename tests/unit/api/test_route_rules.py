"""Every route has its entry in the table of who may do what, in the order of the routes."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Mount, Route

from jobmanager.api.app import make_app
from jobmanager.core.access.roles import Role
from jobmanager.core.access.route_rules import ROUTE_RULES, NoRole, rule_for


def all_routes(routes: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Method and template of every route of an application, in the order they are tried."""
    for route in routes:
        if isinstance(route, Mount):
            yield "GET", f"{prefix}{route.path}/{{file:path}}"
        elif isinstance(route, Route):
            for method in sorted((route.methods or set()) - {"HEAD"}):
                yield method, prefix + route.path
        else:  # a router that was included
            inside = route.include_context.prefix
            yield from all_routes(route.original_router.routes, prefix + inside)


def test_the_table_has_every_route_in_its_order_and_nothing_else() -> None:
    found = list(all_routes(make_app().routes))
    plain = [(method, path.removeprefix("/v1")) for method, path in found]
    once = list(dict.fromkeys(plain))
    own = [one for one in once if not one[1].startswith(("/docs", "/redoc", "/openapi", "/static"))]
    listed = [(rule.method, rule.path) for rule in ROUTE_RULES]

    assert len(found) > 100  # with /v1 and without
    assert listed[: len(own)] == own
    assert set(listed) == set(once)


@pytest.mark.parametrize("rule", ROUTE_RULES, ids=lambda rule: f"{rule.method} {rule.path}")
def test_a_path_of_the_route_finds_its_rule(rule: Any) -> None:
    path = rule.path.replace(":path", "").replace("{", "x-").replace("}", "")

    for asked in (path, f"/v1{path}") if path != "/" else (path,):
        found = rule_for(rule.method, asked)
        assert found is not None
        assert found[0] is rule


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/jobs/1"),
        ("GET", "/nothing"),
        ("POST", "/v1/gc/"),
        ("POST", "/v1/gc\n"),
        ("POST", "//gc"),
        ("POST", "/v1/v1/gc"),
        ("POST", "/v1"),
        ("GET", ""),
    ],
)
def test_what_is_no_route_has_no_rule(method: str, path: str) -> None:
    assert rule_for(method, path) is None


def test_what_users_run_and_see_needs_a_role() -> None:
    needs = {(rule.method, rule.path): rule.needs for rule in ROUTE_RULES}

    assert needs["POST", "/gc"] is needs["POST", "/tokens"] is needs["GET", "/audit"] is Role.ADMIN
    assert needs["POST", "/artifacts"] is needs["POST", "/scripts/describe"] is Role.DEVELOPER
    assert needs["POST", "/jobs"] is needs["POST", "/jobs/{jobid}/stop"] is Role.OPERATOR
    assert needs["GET", "/metrics"] is needs["GET", "/events"] is Role.VIEWER
    writes = [rule for rule in ROUTE_RULES if rule.is_write]
    assert all(rule.needs not in (Role.VIEWER, NoRole.OPEN) for rule in writes)


def test_only_calls_of_one_runner_are_left_to_runners_tokens() -> None:
    runners = [rule.path for rule in ROUTE_RULES if rule.needs is NoRole.RUNNER]

    assert runners
    assert all(path.startswith("/runners/{runner_id}/") for path in runners)


def test_the_documentation_has_the_same_table() -> None:
    text = (Path(__file__).parents[3] / "docs/security.md").read_text()
    section = text.split("### Routes")[1].split("\n## ")[0]
    told = {
        (method, path): needs
        for needs, routes in re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE)
        for method, path in re.findall(r"`(\w+) (\S+)`", routes)
    }

    assert told == {(rule.method, rule.path): str(rule.needs) for rule in ROUTE_RULES}
