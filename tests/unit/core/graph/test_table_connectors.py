"""The connectors `delta` and `iceberg` in a graph: their fields, places, roles and faults."""

from typing import Any

import pytest

from jobmanager.core.access.graph_rules import role_of_graph
from jobmanager.core.access.roles import Role
from jobmanager.core.errors import InvalidJobGraph
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.connector_requirements import required_packages
from jobmanager.core.graph.connectors.delta import DeltaSource
from jobmanager.core.graph.connectors.iceberg import IcebergSink
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.graph.sources import Source

DELTA = {"connector": "delta", "path": "tables/orders"}
CATALOG = {"uri": "postgresql+psycopg://me:secret@db:5432/tables", "warehouse": "/data/warehouse"}
ICEBERG = {"connector": "iceberg", "table": "shop.orders", "catalog": CATALOG}


def a_graph(
    source: dict[str, Any] | None = None, sink: dict[str, Any] | None = None, mode: str = "batch"
) -> dict[str, Any]:
    rows = source or {"connector": "table", "schema": "id BIGINT, day DATE", "rows": []}
    return {
        "name": "tables",
        "mode": mode,
        "vertices": [
            {"id": "rows", "op": "source", **rows},
            {"id": "out", "op": "sink", "inputs": ["rows"], **(sink or {"connector": "console"})},
        ],
    }


def faults_of(document: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidJobGraph) as refused:
        graph_document.parse(document)
    return {one.field: one.message for one in refused.value.faults}


def test_a_source_may_leave_the_columns_to_the_table() -> None:
    graph = graph_document.parse(a_graph({**DELTA, "version": 3}))
    source = graph.vertices[0]
    assert isinstance(source, Source)
    assert source.connector == DeltaSource("tables/orders", 3)
    assert source.columns_out(()) is None
    assert required_packages(graph) == {"delta"}


@pytest.mark.parametrize("source", [DELTA, ICEBERG])
def test_a_stream_cannot_follow_a_table(source: dict[str, Any]) -> None:
    assert "read as a whole" in faults_of(a_graph(source, mode="streaming"))["connector"]


@pytest.mark.parametrize("sink", [DELTA, ICEBERG])
def test_a_sink_is_exactly_once_and_fenced(sink: dict[str, Any]) -> None:
    graph = graph_document.parse(a_graph(sink={**sink, "partition_by": ["day"]}, mode="streaming"))
    found = graph.vertex(graph.vertices[1].id)
    assert isinstance(found, Sink)
    assert (found.connector.guarantee, found.is_fenced) == ("exactly once", True)


@pytest.mark.parametrize("sink", [DELTA, ICEBERG])
def test_partition_columns_have_to_be_there(sink: dict[str, Any]) -> None:
    found = faults_of(a_graph(sink={**sink, "partition_by": ["hour"]}))
    assert "hour" in found["partition_by"]


def test_the_places_of_a_catalogue_are_its_address_without_password_and_its_warehouse() -> None:
    graph = graph_document.parse(a_graph(sink=ICEBERG))
    assert list(graph.vertices[1].places()) == [
        ("catalog.uri", "postgresql://db:5432/tables"),
        ("catalog.warehouse", "/data/warehouse"),
    ]


def test_a_catalogue_in_a_file_is_a_path() -> None:
    catalog = {"uri": "sqlite:////data/catalog.db"}
    graph = graph_document.parse(a_graph(sink={**ICEBERG, "catalog": catalog}))
    assert list(graph.vertices[1].places()) == [("catalog.uri", "/data/catalog.db")]


def test_what_is_wrong_with_a_table_or_catalogue_is_said() -> None:
    found = faults_of(a_graph(sink={**ICEBERG, "table": "orders", "catalog": {"type": "sql"}}))
    assert "namespace.table" in found["table"]
    assert "postgresql://host/db" in found["catalog.uri"]
    hidden = {**ICEBERG, "catalog": {"uri": "${secret:catalog}"}}
    assert "password only" in faults_of(a_graph(sink=hidden))["catalog.uri"]
    without = {"connector": "iceberg", "table": "a.b"}
    assert "missing" in faults_of(a_graph(sink=without))["catalog"]


def test_a_catalogue_that_names_a_class_needs_a_developer() -> None:
    plain = a_graph(sink=ICEBERG)
    assert role_of_graph(plain, graph_document.parse(plain))[0] is Role.OPERATOR
    named = a_graph(sink={**ICEBERG, "catalog": {**CATALOG, "py-io-impl": "my.FileIO"}})
    assert role_of_graph(named, graph_document.parse(named))[0] is Role.DEVELOPER


def test_the_password_of_a_catalogue_can_be_a_secret() -> None:
    catalog = {"uri": "postgresql://me:${secret:catalog}@db:5432/tables"}
    graph = graph_document.parse(a_graph(sink={**ICEBERG, "catalog": catalog}), is_new=True)
    assert list(graph.vertices[1].places()) == [("catalog.uri", "postgresql://db:5432/tables")]


def test_two_spellings_of_a_catalogue_are_the_same_output() -> None:
    other = IcebergSink("shop.orders", {"uri": "postgresql://you:other@db:5432/tables"})
    ours = IcebergSink("shop.orders", CATALOG)
    assert ours.exclusive_output(str) == other.exclusive_output(str)
