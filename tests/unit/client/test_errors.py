from typing import Any

import httpx
import pytest

from jobmanager.client.errors import RequestRefused, ServerUnreachable, refusal_of


def refusal(status: int, body: Any) -> RequestRefused:
    request = httpx.Request("GET", "http://headgate/v1/jobs/7")
    return refusal_of(httpx.Response(status, json=body, request=request))


def test_a_problem_is_said_with_title_and_detail() -> None:
    error = refusal(404, {"title": "No such job", "status": 404, "detail": "no job 7"})

    assert str(error) == "No such job: no job 7"
    assert error.status == 404


def test_the_errors_of_the_flink_surface_are_said_as_they_are() -> None:
    error = refusal(404, {"errors": ["Job 7 not found", "and\n\tthat is all"]})

    assert str(error) == "Job 7 not found; and that is all"


def test_every_fault_of_a_graph_is_kept_beside_a_summary_of_one_line() -> None:
    error = refusal(
        422,
        {
            "title": "The job graph has faults",
            "detail": "2 faults: …",
            "faults": [
                {"vertex": None, "field": "name", "message": "missing"},
                {"vertex": "big", "field": "where", "message": "missing:\n a text is needed"},
            ],
        },
    )

    assert str(error) == "The job graph has faults (2 faults)"
    assert error.faults == ("name: missing", "big.where: missing: a text is needed")


def test_a_request_that_does_not_fit_its_route_is_said_field_by_field() -> None:
    error = refusal(422, {"detail": [{"loc": ["query", "parallelism"], "msg": "not a number"}]})

    assert str(error) == "The request is not valid: query.parallelism: not a number"


@pytest.mark.parametrize("body", [[], "gone", {}, {"errors": []}])
def test_an_answer_without_words_is_said_by_its_status(body: Any) -> None:
    assert str(refusal(502, body)) == ("GET http://headgate/v1/jobs/7 was answered 502 Bad Gateway")


def test_a_server_that_is_not_there_is_told_from_one_that_is_slow() -> None:
    absent = ServerUnreachable("http://headgate", httpx.ConnectError("refused"))
    slow = ServerUnreachable("http://headgate", httpx.ReadTimeout("late"))

    assert "is it running (headgate serve)?" in str(absent)
    assert str(slow) == "the server at http://headgate did not answer in time"
