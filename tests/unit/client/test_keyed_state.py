"""Keyed state as an Arrow table, with Spark's types."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, cast

import pyarrow
import pytest

from jobmanager.client import HeadgateError, answers
from jobmanager.client.keyed_state import StateOfVertex, all_rows, arrow_table, table_of
from tests.unit.client.test_flows import driven

SUMS = StateOfVertex("3f", False, "sums")


def columns(**types: str) -> list[answers.ColumnResponse]:
    return [cast(Any, {"name": name, "type": one}) for name, one in types.items()]


def a_row(key: dict[str, Any], value: dict[str, Any]) -> answers.RowResponse:
    return {"checkpoint": 7, "key": key, "value": value, "key_group": 5, "subtask": 1}


def test_columns_have_the_types_that_spark_has() -> None:
    key = columns(auction="BIGINT", at="TIMESTAMP", day="DATE")
    value = columns(auction="DECIMAL(10,2)", name="STRING", tags="array<string>", raw="BINARY")
    row = a_row(
        {"auction": 5, "at": "2026-11-16T12:00:00.000Z", "day": "2026-11-16"},
        {"auction": "1.25", "name": None, "tags": ["a", "b"], "raw": "aGk="},
    )

    table = table_of(key, value, [row])

    assert table.schema.field("auction").type == pyarrow.int64()
    assert table.to_pylist() == [
        {
            "auction": 5,
            "at": datetime(2026, 11, 16, 12, tzinfo=UTC),
            "day": date(2026, 11, 16),
            "value_auction": Decimal("1.25"),
            "name": None,
            "tags": '["a", "b"]',
            "raw": b"hi",
            "key_group": 5,
            "subtask": 1,
        }
    ]


def test_no_rows_still_have_types() -> None:
    table = table_of(columns(k="STRING"), columns(n="BIGINT"), [])

    assert (table.num_rows, table.schema.field("n").type) == (0, pyarrow.int64())


def test_rows_are_read_page_by_page_up_to_a_number() -> None:
    rows = [a_row({"k": n}, {}) for n in range(3)]
    first, second = {"items": rows[:2], "next": "7.1.2"}, {"items": rows[2:], "next": None}

    found, asked = driven(all_rows(SUMS), first, second)

    assert found == rows
    assert asked == [
        "GET /v1/jobs/3f/state/sums/default?limit=1000",
        "GET /v1/jobs/3f/state/sums/default?limit=1000&cursor=7.1.2",
    ]
    assert driven(all_rows(SUMS, 2), first)[0] == rows[:2]


def test_a_state_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(HeadgateError, match=r"no state sums/default \(states: seen/default\)"):
        driven(arrow_table(SUMS), {"items": [{"vertex": "seen", "name": "default"}]})
