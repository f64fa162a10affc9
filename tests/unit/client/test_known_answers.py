"""A client asks only for what has changed, and its caller does not notice."""

import httpx
import pytest

from jobmanager.client.api_call import AnswerForm, ApiCall
from jobmanager.client.known_answers import KnownAnswers

STATUS = ApiCall[object](method="GET", path="/v1/jobs/1/status")


def answered(content: bytes, tag: str | None = None, status: int = 200) -> httpx.Response:
    return httpx.Response(status, content=content, headers={"ETag": tag} if tag else {})


def test_an_answer_that_has_not_changed_is_the_answer_of_before() -> None:
    known = KnownAnswers()
    assert known.headers(STATUS) == {}
    assert known.content(STATUS, answered(b"{}", '"1"')) == b"{}"

    assert known.headers(STATUS) == {"If-None-Match": '"1"'}
    assert known.content(STATUS, answered(b"", '"1"', 304)) == b"{}"
    assert known.content(STATUS, answered(b"[]", '"2"')) == b"[]"
    assert known.headers(STATUS) == {"If-None-Match": '"2"'}


def test_other_parameters_are_another_answer() -> None:
    known = KnownAnswers()
    known.content(STATUS, answered(b"{}", '"1"'))

    other = ApiCall[object](method="GET", path=STATUS.path, params={"limit": "1"})
    assert known.headers(other) == {}


@pytest.mark.parametrize(
    "call",
    [
        ApiCall[object](method="POST", path="/v1/jobs"),
        ApiCall[object](method="GET", path="/v1/jobs/1/logs", form=AnswerForm.TEXT),
        ApiCall[object](method="GET", path="/v1/jobs", headers={"if-none-match": '"0"'}),
    ],
)
def test_what_is_not_kept(call: ApiCall[object]) -> None:
    known = KnownAnswers()
    assert known.content(call, answered(b"{}", '"1"')) == b"{}"
    assert known.headers(call) == {}


def test_an_answer_without_a_tag_or_too_large_is_not_kept() -> None:
    known = KnownAnswers()
    known.content(STATUS, answered(b"{}"))
    known.content(STATUS, answered(b"x" * 1_000_001, '"1"'))
    assert known.headers(STATUS) == {}


def test_the_answers_that_were_not_used_for_longest_are_forgotten() -> None:
    known = KnownAnswers()
    calls = [ApiCall[object](method="GET", path=f"/v1/jobs/{n}/status") for n in range(33)]
    for call in calls[:32]:
        known.content(call, answered(b"{}", '"1"'))
    known.content(calls[0], answered(b"", '"1"', 304))
    known.content(calls[32], answered(b"{}", '"1"'))

    assert known.headers(calls[0])
    assert not known.headers(calls[1])
    assert known.headers(calls[32])
