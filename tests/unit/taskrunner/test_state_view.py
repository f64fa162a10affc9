"""How Spark's state is shown: its schemas as Spark 4.3 writes them, the names that users know."""

from typing import Any

import pytest

from jobmanager.core.graph import graph_document
from jobmanager.core.graph.vertex import Vertex
from jobmanager.core.ids import VertexId
from taskrunner.core.state_view import Field, StateView, view_of

K = Field("k", "STRING")
WINDOW = Field("window", "struct<…>", (Field("start", "TIMESTAMP"), Field("end", "TIMESTAMP")))
SESSION = Field("session_window", "struct<…>", WINDOW.fields)
SESSION_START = Field("sessionStartTime", "TIMESTAMP")
COUNT, SUM, MAX = Field("count", "BIGINT"), Field("sum", "BIGINT"), Field("max", "BIGINT")


def vertex(aggregate: dict[str, str], **fields: Any) -> Vertex:
    document = {
        "name": "x",
        "vertices": [
            {
                "id": "rows",
                "op": "source",
                "connector": "files",
                "format": "json",
                "path": "in",
                "schema": "k STRING, v BIGINT, ts TIMESTAMP",
                "watermark": {"column": "ts", "delay": "5s"},
            },
            {"id": "it", "inputs": ["rows"], "aggregate": aggregate, "key": ["k"], **fields},
            {"id": "out", "op": "sink", "inputs": ["it"], "connector": "blackhole"},
        ],
    }
    return graph_document.parse(document).vertex(VertexId("it"))


def an_aggregate(**results: str) -> Vertex:
    return vertex(results, op="aggregate")


def names(view: StateView) -> tuple[list[str], list[str]]:
    return [one.name for one in view.key], [one.name for one in view.value]


def test_results_have_the_names_of_the_graph_where_each_is_one_value() -> None:
    it = an_aggregate(n="count(*)", total="SUM(v)", top="max( v )")
    view = view_of([K], [COUNT, SUM, MAX], ["k"], it)
    assert names(view) == (["k"], ["n", "total", "top"])
    assert [one.spark_name for one in view.value] == ["count", "sum", "max"]
    assert [one.expression for one in (*view.key, *view.value)] == [
        "key.c0",
        "value.c0",
        "value.c1",
        "value.c2",
    ]


@pytest.mark.parametrize(
    ("results", "fields"),
    [
        ({"mean": "avg(v)"}, [SUM, COUNT]),  # two values for one result
        ({"a": "sum(v)", "b": "sum(v)"}, [SUM]),  # equal calls are kept once
        ({"a": "sum(v)", "b": "sum( V )"}, [SUM, SUM]),
        ({"a": "sum(v) + 1"}, [SUM]),  # the value is not the result
        ({"a": "sum(abs(v))"}, [SUM]),  # more than one call: not certain
        ({"a": "sum(v)", "b": "count(*)"}, [SUM]),  # one was optimised away
        ({"a": "sum(v)"}, [COUNT]),
    ],
)
def test_where_it_is_not_certain_values_keep_the_names_of_spark(
    results: dict[str, str], fields: list[Field]
) -> None:
    view = view_of([K], fields, ["k"], an_aggregate(**results))
    assert not set(names(view)[1]) & set(results)


def test_names_that_repeat_are_numbered() -> None:
    assert names(view_of([K], [SUM, COUNT, SUM, SUM], ["k"], None))[1] == [
        "sum",
        "count",
        "sum_2",
        "sum_3",
    ]


def test_a_window_is_two_key_columns_and_is_hashed_as_a_whole() -> None:
    it = vertex({"n": "count(*)"}, op="window", window={"tumbling": "10s"})
    view = view_of([WINDOW, K], [COUNT], ["window", "k"], it)
    assert names(view) == (["window_start", "window_end", "k"], ["n"])
    assert [one.name for one in view.plain_key] == ["k"]
    assert view.key[0].expression == "key.c0.start"
    assert view.hashed == ("key.c0", "key.c1")
    assert view.hashed_columns == (("window_start", "window_end"), ("k",))
    assert view.window_ms == 10_000


def test_a_session_is_kept_by_key_and_start_and_is_spread_by_key() -> None:
    it = vertex({"n": "count(*)"}, op="window", window={"session": "3s"})
    view = view_of([K, SESSION_START], [SESSION, K, COUNT], ["k"], it)
    assert names(view) == (["k", "window_start", "window_end"], ["n"])
    assert view.key[2].expression == "value.c0.end"
    assert view.value[0].expression == "value.c2"
    assert view.hashed == ("key.c0",)
    assert view.window_ms is None


def test_the_stand_in_for_the_key_of_sessions_without_one_is_not_shown() -> None:
    it = vertex({"n": "count(*)"}, op="window", key=[], window={"session": "3s"})
    stand_in = Field("_groupingexpression", "INT")
    view = view_of([stand_in, SESSION_START], [SESSION, stand_in, COUNT], [stand_in.name], it)
    assert names(view) == (["window_start", "window_end"], ["n"])
    assert view.hashed == ("key.c0",)
    assert view.hashed_columns is None


def test_a_state_without_a_key_is_spread_by_nothing() -> None:
    view = view_of([], [COUNT], [], None)
    assert (view.key, view.hashed, view.hashed_columns) == ((), None, None)


def test_a_state_that_is_spread_by_something_else_than_its_first_key_fields_is_not_located() -> (
    None
):
    assert view_of([K], [COUNT], ["other"], None).hashed is None
