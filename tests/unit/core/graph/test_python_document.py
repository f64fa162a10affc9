"""Python vertices as they are written: every fault is told with vertex and field."""

from typing import Any

import pytest

from jobmanager.core.graph import graph_document, spark_ddl
from jobmanager.core.graph.clocks import Clock
from jobmanager.core.graph.process_functions import Cogroup, Process
from jobmanager.core.ids import VertexId
from jobmanager.core.plan.key_groups import Layout
from tests.unit.core.graph.test_graph_document import a_sink, a_source, faults_of


def a_graph(vertex: dict[str, Any], **fields: Any) -> dict[str, Any]:
    base = {"id": "code", "inputs": ["rows"], "function": "shop.orders:Totals"}
    vertices = [a_source("rows"), {**base, **vertex}, a_sink("code")]
    return {"name": "test", "vertices": vertices, **fields}


PROCESS = {"op": "process", "key": ["k"], "output": "k BIGINT, n BIGINT", "time": "event"}


def test_a_process_vertex_takes_its_time_from_the_watermark() -> None:
    vertex = graph_document.parse(a_graph(PROCESS)).vertex(VertexId("code"))

    assert isinstance(vertex, Process)
    assert (vertex.time, vertex.time_column) == (Clock.EVENT, "ts")
    assert vertex.state_layout is Layout.GROUPED


def test_a_reduce_with_a_function_is_a_reduce() -> None:
    document = a_graph({"op": "reduce", "key": ["k"]})

    assert graph_document.parse(document).vertex(VertexId("code")).op == "reduce"


@pytest.mark.parametrize(
    ("vertex", "told"),
    [
        ({**PROCESS, "function": "shop.orders"}, "function: 'shop.orders' is not of the form"),
        ({**PROCESS, "function": None}, "function: missing"),
        (
            {**PROCESS, "output": "k BIGNT"},
            "output: 'k BIGNT' is not a schema: 'BIGNT' is not a Spark type",
        ),
        (
            {**PROCESS, "time": "sometimes"},
            "time: 'sometimes' is not one of event, processing, none",
        ),
        ({**PROCESS, "parallelism": 2}, "parallelism: a keyed vertex always has the job's"),
        ({**PROCESS, "state": {}}, "state: unknown field 'state'"),
        ({"op": "python"}, "output: missing"),
        ({"op": "cogroup", "key": ["k"], "output": "k INT"}, "set mode: batch"),
    ],
)
def test_a_fault_names_the_field(vertex: dict[str, Any], told: str) -> None:
    assert told in "\n".join(map(str, faults_of(a_graph(vertex))))


def test_event_time_needs_a_watermark() -> None:
    document = a_graph(PROCESS)
    del document["vertices"][0]["watermark"]

    assert "rows: watermark: missing: 'code' has time: event" in "\n".join(
        f"{one.vertex}: {one.field}: {one.message}" for one in faults_of(document)
    )


def test_updates_and_a_process_function_cannot_share_a_query() -> None:
    document = a_graph(PROCESS)
    sums = {"id": "sums", "op": "aggregate", "key": ["k"], "aggregate": {"ts": "max(ts)"}}
    document["vertices"].insert(1, {**sums, "inputs": ["rows"]})
    document["vertices"][2]["inputs"] = ["sums"]

    assert "cannot run 'code' in one streaming query" in "\n".join(map(str, faults_of(document)))


def test_the_sides_of_a_cogroup_are_its_inputs() -> None:
    vertex = {"op": "cogroup", "key": ["k"], "output": "k INT", "inputs": ["rows", "others"]}
    document = a_graph({**vertex, "left": "others", "right": "rows"}, mode="batch")
    for one in (document["vertices"][0], source := a_source("others")):
        one["rows"] = 10
    document["vertices"].insert(0, source)

    found = graph_document.parse(document).vertex(VertexId("code"))
    assert isinstance(found, Cogroup)
    assert [one.vertex for one in found.inputs] == ["others", "rows"]
    document["vertices"][2]["left"] = "nobody"
    assert "left: 'nobody' is not an input" in "\n".join(map(str, faults_of(document)))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a INT, b STRING", ["a", "b"]),
        ("`odd name` DECIMAL(10, 2) NOT NULL COMMENT 'x, y'", ["odd name"]),
        ("a ARRAY<STRUCT<x: INT, y: MAP<STRING, DOUBLE>>>, b timestamp_ntz", ["a", "b"]),
        ("d INTERVAL DAY TO SECOND, e varchar(3)", ["d", "e"]),
    ],
)
def test_columns_are_read_from_ddl(text: str, names: list[str]) -> None:
    assert spark_ddl.column_names(text) == names


@pytest.mark.parametrize(
    "text", ["", "a", "a INT b INT", "a INT,", "a ARRAY<INT", "a INT, a INT", "a ?"]
)
def test_what_is_no_ddl_is_refused(text: str) -> None:
    with pytest.raises(spark_ddl.InvalidDdl):
        spark_ddl.column_names(text)
