"""Sinks that share their keyed vertices share a query; others do not."""

from typing import Any

from jobmanager.core.graph import graph_document
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import VertexId
from jobmanager.core.plan import spark_order
from jobmanager.core.plan.job_plan import SnapshotKind, awaited, plan_of
from jobmanager.core.plan.regions import Query, queries_of

ROWS = {
    "id": "rows",
    "op": "source",
    "connector": "table",
    "schema": "k STRING, v BIGINT",
    "rows": [],
}


def total(name: str, after: str = "rows") -> dict[str, Any]:
    return {
        "id": name,
        "op": "aggregate",
        "inputs": [after],
        "key": ["k"],
        "aggregate": {"n": "count(*)"},
    }


def only(name: str, after: str) -> dict[str, Any]:
    return {"id": name, "op": "filter", "inputs": [after], "where": "n > 1"}


def sink(name: str, after: str) -> dict[str, Any]:
    return {"id": name, "op": "sink", "inputs": [after], "connector": "blackhole"}


def a_graph(*vertices: dict[str, Any], **fields: Any) -> JobGraph:
    return graph_document.parse({"name": "test", "vertices": [ROWS, *vertices], **fields})


def queries(*vertices: dict[str, Any], **fields: Any) -> list[Query]:
    return list(queries_of(a_graph(*vertices, **fields)))


def query(root: str, *sinks: str) -> Query:
    return Query(VertexId(root), tuple(map(VertexId, sinks)))


def test_one_sink_is_one_query() -> None:
    assert queries(total("t"), sink("out", "t")) == [query("out", "out")]


def test_sinks_behind_the_same_keyed_vertex_share_its_query() -> None:
    vertices = [total("t"), only("large", "t"), sink("alerts", "large"), sink("all", "t")]

    assert queries(*vertices) == [query("t", "alerts", "all")]


def test_they_part_as_late_as_possible() -> None:
    vertices = [total("t"), only("a", "t"), only("b", "a"), sink("x", "a"), sink("y", "b")]

    assert queries(*vertices) == [query("a", "x", "y")]


def test_sinks_without_keyed_vertices_fail_by_themselves() -> None:
    assert queries(sink("x", "rows"), sink("y", "rows")) == [query("x", "x"), query("y", "y")]


def test_sinks_with_different_keyed_vertices_have_queries_of_their_own() -> None:
    vertices = [total("t"), total("u"), sink("x", "t"), sink("y", "u"), sink("z", "u")]

    assert queries(*vertices) == [query("x", "x"), query("u", "y", "z")]


def test_rows_that_come_beside_the_shared_vertex_are_not_shared() -> None:
    both = {"id": "both", "op": "union", "inputs": ["t", "named"]}
    named = {"id": "named", "op": "map", "inputs": ["rows"], "select": {"k": "k", "n": "v"}}
    vertices = [total("t"), named, both, sink("x", "both"), sink("y", "t")]

    assert queries(*vertices) == [query("x", "x"), query("y", "y")]


def test_a_batch_job_has_a_region_for_each_sink() -> None:
    vertices = [total("t"), sink("x", "t"), sink("y", "t")]

    assert queries(*vertices, mode="batch") == [query("x", "x"), query("y", "y")]


def test_a_shared_region_awaits_every_sink_once_and_its_state_once() -> None:
    graph = a_graph(total("t"), only("large", "t"), sink("x", "large"), sink("y", "t"))

    kinds = {(ref.region, ref.vertex): kind for ref, kind in awaited(graph, 1).items()}

    assert kinds == {
        ("x", "rows"): SnapshotKind.OFFSETS,
        ("x", "t"): SnapshotKind.STATE,
        ("x", "x"): SnapshotKind.SINK,
        ("x", "y"): SnapshotKind.SINK,
    }
    assert [region.sinks for region in plan_of(graph).regions] == [("x", "y")]


def test_spark_sees_the_shared_vertex_once_whatever_is_behind_it() -> None:
    twice = {"id": "twice", "op": "union", "inputs": ["a", "b"]}
    vertices = [total("t"), only("a", "t"), only("b", "t"), twice, sink("x", "twice")]
    alone, shared = a_graph(*vertices), a_graph(*vertices, sink("y", "t"))

    assert spark_order.keyed(alone, VertexId("x")) == ["t", "t"]
    assert spark_order.keyed(shared, VertexId("x")) == ["t"]
    assert spark_order.sources(shared, VertexId("y")) == ["rows"]
