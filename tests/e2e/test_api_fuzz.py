"""Whatever is sent to the API, it never answers with a 5xx, keeps to the shapes that its OpenAPI
document declares, and goes on serving."""

from typing import Any

import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.core.result import Ok

from tests.support.server import ServerProcess

# Long by nature: a log that is followed, a poll that waits, a stream of events.
_PATIENT = (
    "/v1/jobs/{jobid}/logs",
    "/v1/runners/{runner_id}/directives",
    "/v1/events",
    "/v1/jobs/{jobid}/events",
)

_CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def test_no_request_makes_the_server_stumble(server: ServerProcess) -> None:
    schema = schemathesis.openapi.from_url(f"{server.url.rstrip('/')}/openapi.json")
    tried = 0
    for found in schema.exclude(path=list(_PATIENT)).get_all_operations():
        assert isinstance(found, Ok), found

        @settings(
            max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck)
        )
        @given(case=found.ok().as_strategy())
        def send(case: schemathesis.Case[Any]) -> None:
            case.call_and_validate(checks=_CHECKS, timeout=60)

        send()
        tried += 1
    assert tried > 15
    assert server.get("/readyz")["status"] == "ready"
