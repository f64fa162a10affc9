"""Rows of users, from frames and back; times; functions over Arrow batches; reduce and cogroup."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from taskrunner.functions import FunctionMissing, load
from taskrunner.keyed import rows, times
from taskrunner.keyed.arrow_batches import ArrowFunction
from taskrunner.keyed.errors import UserCodeError
from taskrunner.keyed.operator import Moment
from taskrunner.keyed.reduce import ReduceOperator
from taskrunner.keyed.vertex_context import VertexContext

SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("cost", pa.decimal128(10, 2)),
        ("tags", pa.list_(pa.string())),
    ]
)
LONG_AGO, FAR = datetime(1815, 12, 10, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


def test_rows_go_into_a_frame_and_come_back_as_they_were() -> None:
    given: list[dict[str, Any]] = [
        {"k": "a", "n": 2**62 + 1, "x": 0.5, "at": LONG_AGO, "day": date(2026, 1, 1)},
        {"k": None, "n": None, "cost": Decimal("1.50"), "tags": ["x", "y"], "at": FAR},
        {},
    ]

    frame = rows.frame_of(given, SCHEMA, "v", "m:f")
    frame["at"] = times.from_micros(frame["at"])
    found = rows.rows_of(rows.columns_of(frame, frozenset(["at"])))

    assert found == [{name: row.get(name) for name in SCHEMA.names} for row in given]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"n": "many"}, "column 'n' of output is int64, and 'many' is not"),
        ({"n": 2**70}, "column 'n' of output is int64"),
        ({"nn": 1}, "a row has a column 'nn', and output has only k, n"),
        ({"day": "soon"}, "column 'day' of output is date32"),
    ],
)
def test_what_does_not_fit_the_output_is_told(row: dict[str, Any], told: str) -> None:
    with pytest.raises(UserCodeError) as raised:
        rows.frame_of([{"k": "fine"}, row], SCHEMA, "v", "m:f")

    assert told in str(raised.value)
    assert "m:f of vertex v" in str(raised.value)


@pytest.mark.parametrize(
    "series",
    [
        pd.Series([LONG_AGO, None, FAR], dtype=object),
        pd.Series(
            np.array([LONG_AGO.replace(tzinfo=None), None, FAR.replace(tzinfo=None)], "M8[us]")
        ),
        pd.Series(
            [LONG_AGO.replace(tzinfo=None), pd.NaT, FAR.replace(tzinfo=None)], dtype="M8[ms]"
        ),
        pd.Series([LONG_AGO, pd.NaT, FAR], dtype=pd.DatetimeTZDtype("us", "Asia/Tokyo")),
    ],
    ids=["objects", "numpy", "milliseconds", "with a zone"],
)
def test_times_of_any_kind_become_microseconds(series: pd.Series) -> None:
    micros = [int(one.timestamp()) * 1_000_000 for one in (LONG_AGO, FAR)]

    assert times.to_micros(series).tolist() == [micros[0], None, micros[1]]


def test_a_reduce_function_combines_result_and_row() -> None:
    schema = pa.schema([("k", pa.string()), ("v", pa.int64())])
    subject = VertexContext("sums", "m:add", ("k",), schema)
    operator = ReduceOperator(lambda one, other: {"v": one["v"] + other["v"]}, subject)
    moment = Moment(0, 0)

    first = operator.take(None, pd.DataFrame({"k": ["a", "b", "a"], "v": [1, 2, 3]}), moment)
    second = operator.take(first.state, pd.DataFrame({"k": ["a"], "v": [10]}), moment)

    assert first.rows.to_dict("records") == [{"k": "a", "v": 4}, {"k": "b", "v": 2}]
    assert second.rows.to_dict("records") == [{"k": "a", "v": 14}]


def test_arrow_results_are_held_to_the_output() -> None:
    output = pa.schema([("n", pa.int64())])
    batch = pa.record_batch({"n": pa.array([1, 2], pa.int32())})

    def over(result: Any) -> list[Any]:
        function = ArrowFunction(lambda _: result, "v", "m:f", output)
        return [row for one in function.over([batch]) for row in one.to_pylist()]

    assert over(batch) == [{"n": 1}, {"n": 2}]
    assert over(None) == []
    for result, told in [
        (pa.record_batch({"n": ["x"]}), "column 'n' of output is int64, and what was given is"),
        (pa.record_batch({"m": [1]}), "its columns are m, and output has n"),
        ({"n": [1]}, "a dict is no pyarrow.RecordBatch"),
    ]:
        with pytest.raises(UserCodeError, match=told):
            over(result)


def test_a_function_is_found_by_its_name_or_told_why_not() -> None:
    assert load("json:JSONDecoder.decode").__name__ == "decode"
    for reference, told in [
        ("json", "not of the form module:name"),
        ("no_such_module:f", "cannot be imported"),
        ("json:no_such", "has no 'no_such'"),
    ]:
        with pytest.raises(FunctionMissing, match=told):
            load(reference)
