"""What the answer to a bulk request means, row by row."""

from typing import Any

import pytest

from taskrunner.core.bulk_answers import BulkOutcome, judge, mapping_faults, reason_of
from taskrunner.core.store_failures import (
    RowsRefused,
    StoreFailure,
    StoreFull,
    StoreLoginRefused,
    StoreRefused,
    StoreUnfit,
    WriteOvertaken,
)


def item(status: int, reason: str = "", action: str = "index") -> dict[str, Any]:
    error = {"error": {"type": "some_exception", "reason": reason}} if reason else {}
    return {action: {"status": status, **error}}


def failure(*items: dict[str, Any]) -> StoreFailure:
    found = judge("the index", [f"k{n}" for n in range(len(items))], items).failure
    assert found is not None
    return found


def test_rows_that_were_written_or_deleted_are_done() -> None:
    items = [item(200), item(201), item(200, action="delete"), item(404, action="delete")]

    assert judge("the index", list("abcd"), items) == BulkOutcome()


def test_rows_that_were_not_taken_now_are_sent_again() -> None:
    found = judge("the index", list("abc"), [item(429, "queue full"), item(200), item(503)])

    assert found.again == (0, 2)
    assert found.failure is None


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (409, "version conflict", WriteOvertaken),
        (400, "failed to parse", RowsRefused),
        (403, "not allowed", StoreLoginRefused),
        (404, "no such index", StoreUnfit),
        (500, "whatever", StoreRefused),
        (403, "disk usage exceeded flood-stage watermark", StoreFull),
        (429, "disk usage exceeded flood-stage watermark", StoreFull),
    ],
)
def test_a_refusal_is_named_with_the_key_and_the_reason(
    status: int, reason: str, kind: type[StoreFailure]
) -> None:
    found = failure(item(200), item(status, reason), item(status, reason))

    assert type(found) is kind
    assert "2 rows, the first with the key 'k1'" in str(found)
    assert reason in str(found)


def test_a_newer_version_matters_more_than_a_value_that_is_refused() -> None:
    assert type(failure(item(400, "no number"), item(409, "conflict"))) is WriteOvertaken


def test_an_answer_for_fewer_rows_is_a_failure() -> None:
    assert "answered for 1 of 2 rows" in str(judge("the index", ["a", "b"], [item(200)]).failure)


def test_the_reason_has_its_causes() -> None:
    error = {"type": "a", "reason": "b", "caused_by": {"type": "c", "reason": "d"}}

    assert reason_of(error) == "a: b: c: d"
    assert reason_of(None) == ""
    assert reason_of("plain") == "plain"


def test_a_strict_mapping_refuses_every_column_that_it_does_not_have() -> None:
    strict = {"dynamic": "strict", "properties": {"id": {"type": "long"}}}

    faults = mapping_faults(strict, ["id", "v", "w"])
    assert [("'v'" in one, "'w'" in one) for one in faults] == [(True, False), (False, True)]
    assert mapping_faults({"properties": {"id": {}}}, ["v"]) == []
    assert mapping_faults({}, ["v"]) == []
