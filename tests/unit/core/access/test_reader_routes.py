"""Reader processes answer only reads that any viewer may make."""

import pytest

from jobmanager.core.access.reader_routes import READER_ROUTES, is_for_readers
from jobmanager.core.access.roles import Role
from jobmanager.core.access.route_rules import ROUTE_RULES

JOB = "0" * 32


def test_every_route_is_a_read_of_a_viewer() -> None:
    rules = [one for one in ROUTE_RULES if one.method == "GET" and one.path in READER_ROUTES]

    assert {one.path for one in rules} == READER_ROUTES
    assert all(one.needs is Role.VIEWER and not one.is_write for one in rules)


@pytest.mark.parametrize(
    ("path", "is_read"),
    [
        ("/jobs", True),
        ("/v1/jobs/overview", True),
        (f"/v1/jobs/{JOB}/status", True),
        (f"/jobs/{JOB}/checkpoints/7", True),
        (f"/jobs/{JOB}/logs", False),
        (f"/jobs/{JOB}/events", False),
        (f"/jobs/{JOB}/plan", False),
        (f"/jobs/{JOB}/yarn-cancel", False),
        (f"/jobs/{JOB}/state", False),
        (f"/v1/runners/{JOB}/directives", False),
        ("/events", False),
        ("/metrics", False),
        ("/healthz", False),
        ("/readyz", False),
        ("/tokens", False),
        ("/", False),
        ("/nothing", False),
        ("", False),
    ],
)
def test_who_answers(path: str, is_read: bool) -> None:
    assert is_for_readers(path) is is_read
