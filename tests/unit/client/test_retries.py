"""Requests are sent again where that is safe, and only there."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from jobmanager.client import (
    AsyncClient,
    Client,
    ConflictingRequest,
    MissingResource,
    ServerNotReady,
    ServerUnreachable,
    operations,
)
from jobmanager.client.retries import RetryPolicy
from tests.support.answering_server import Answers, an_answering_server

JOB = "3f" * 16
BUSY = (
    503,
    {"type": "/problems/NoLeader", "title": "No server leads", "status": 503, "detail": ""},
)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
    monkeypatch.setattr("jobmanager.client.retries._FIRST_PAUSE", 0.001)
    with an_answering_server() as given:
        yield given


def a_response(status: int, **headers: str) -> httpx.Response:
    return httpx.Response(
        status, headers={name.replace("_", "-"): one for name, one in headers.items()}
    )


READ = operations.get_job_status(JOB)
WRITE = operations.post_application_cancel(JOB)


@pytest.mark.parametrize(
    ("call", "outcome", "is_repeated"),
    [
        (READ, a_response(503), True),
        (READ, a_response(500), False),
        (READ, a_response(404), False),
        (READ, httpx.ReadError("broken"), True),
        (READ, httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED]"), False),
        (WRITE, a_response(503), False),
        (WRITE, httpx.ReadError("broken"), False),
        (WRITE, httpx.ReadTimeout("late"), False),
        (WRITE, httpx.ConnectError("refused"), True),
    ],
)
def test_what_is_repeated(
    call: Any, outcome: httpx.Response | httpx.TransportError, is_repeated: bool
) -> None:
    assert (RetryPolicy().pause(call, 0, outcome) is not None) == is_repeated


def test_pauses_grow_to_a_limit_obey_the_server_and_end() -> None:
    policy = RetryPolicy(retries=8)
    pauses = [policy.pause(READ, number, httpx.ReadError("broken")) for number in range(9)]

    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0, None]
    assert policy.pause(READ, 0, a_response(503, retry_after="2")) == 2.0
    assert policy.pause(READ, 0, a_response(503, retry_after="3600")) == 5.0


def test_a_submission_is_repeated_with_the_same_key(answers: Answers) -> None:
    answers.of["POST /v1/jobs"] = [(0, None), BUSY, (202, {"jobid": JOB})]

    with Client(answers.url) as client:
        job = client.submit({"name": "revenue", "vertices": []})

    keys = [one["idempotency-key"] for one in answers.headers]
    assert job.id == JOB
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_a_stop_is_repeated_as_the_same_operation(answers: Answers) -> None:
    done = {"id": "7", "kind": "stop", "status": "completed", "result": {"savepoint": "9c"}}
    answers.of[f"POST /v1/jobs/{JOB}/stop"] = [BUSY, (202, {"request-id": "7"})]
    answers.of["GET /v1/operations/7"] = [BUSY, (200, done)]

    async def stopped() -> str:
        async with AsyncClient(answers.url) as client:
            return await client.jobs[JOB].stop(drain=True)

    assert asyncio.run(stopped()) == "9c"
    first, second, *_ = [body for _, body in answers.asked]
    assert first == second
    assert first["drain"] is True
    assert len(first["triggerId"]) == 32


def test_a_write_without_an_id_of_its_own_is_sent_once(answers: Answers) -> None:
    answers.of[f"POST /v1/applications/{JOB}/cancel"] = BUSY

    with Client(answers.url) as client, pytest.raises(ServerNotReady, match="No server leads"):
        client.post_application_cancel(JOB)

    assert len(answers.asked) == 1


def test_repetitions_come_to_an_end(answers: Answers) -> None:
    answers.of["GET /v1/overview"] = (0, None)

    with Client(answers.url, retries=2) as client, pytest.raises(ServerUnreachable):
        client.get_overview()

    assert len(answers.asked) == 3


def test_a_refusal_has_its_type_and_the_servers_problem(answers: Answers) -> None:
    problem = {
        "type": "/problems/JobNotFound",
        "title": "No such job",
        "status": 404,
        "detail": f"no job {JOB}",
        "instance": f"/v1/jobs/{JOB}/status",
    }
    answers.of[f"GET /v1/jobs/{JOB}/status"] = (404, problem)
    answers.of[f"PATCH /v1/jobs/{JOB}?mode=cancel"] = (409, {"errors": ["the job has ended"]})

    with Client(answers.url) as client:
        with pytest.raises(MissingResource, match="No such job: no job") as missing:
            client.get_job_status(JOB)
        with pytest.raises(ConflictingRequest) as conflict:
            client.cancel_job(JOB, mode="cancel")

    assert missing.value.kind == "JobNotFound"
    assert missing.value.problem == problem
    assert (conflict.value.kind, conflict.value.problem["title"]) == ("", "the job has ended")
