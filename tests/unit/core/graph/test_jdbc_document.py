"""The connector `jdbc` in a job graph: fields, faults, and what it says of itself."""

from datetime import timedelta
from typing import Any

import pytest

from jobmanager.core.errors import InvalidJobGraph
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.connectors.jdbc import JdbcSink, JdbcSource
from jobmanager.core.graph.connectors.jdbc_url import JdbcUrl
from jobmanager.core.graph.connectors.table_mode import TableMode
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.output_mode import OutputMode
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.graph.sources import Source
from jobmanager.core.ids import VertexId

URL = "jdbc:postgresql://db.example.org:5432/shop"
GENERATOR = {
    "id": "rows",
    "op": "source",
    "connector": "generator",
    "rows_per_second": 1,
    "columns": {"id": "id", "v": "id * 2", "op": "'c'"},
}
SUMS = {
    "id": "sums",
    "op": "aggregate",
    "inputs": ["rows"],
    "key": ["id"],
    "aggregate": {"n": "count(*)"},
}


def sink(after: str = "rows", **fields: Any) -> dict[str, Any]:
    named = {"connector": "jdbc", "url": URL, "table": "orders"}
    return {"id": "out", "op": "sink", "inputs": [after], **named, **fields}


def source(**fields: Any) -> dict[str, Any]:
    return {"id": "customers", "op": "source", "connector": "jdbc", "url": URL, **fields}


def parse(*vertices: dict[str, Any], **fields: Any) -> JobGraph:
    return graph_document.parse({"name": "shop", "vertices": list(vertices), **fields})


def parsed_sink(**fields: Any) -> tuple[Sink, JdbcSink]:
    vertex = parse(GENERATOR, sink(**fields)).vertex(VertexId("out"))
    assert isinstance(vertex, Sink)
    assert isinstance(vertex.connector, JdbcSink)
    return vertex, vertex.connector


def batch_of(**fields: Any) -> JobGraph:
    out = {"id": "out", "op": "sink", "inputs": ["customers"], "connector": "blackhole"}
    return parse(source(**fields), out, mode="batch")


def parsed_source(**fields: Any) -> JdbcSource:
    vertex = batch_of(**fields).vertex(VertexId("customers"))
    assert isinstance(vertex, Source)
    assert isinstance(vertex.connector, JdbcSource)
    return vertex.connector


def faults(*vertices: dict[str, Any], **fields: Any) -> dict[str, str]:
    with pytest.raises(InvalidJobGraph) as refused:
        parse(*vertices, **fields)
    return {one.field: one.message for one in refused.value.faults}


def test_a_sink_appends_unless_it_has_a_key() -> None:
    assert parsed_sink()[1].table_mode is TableMode.APPEND
    assert parsed_sink(key=["id"])[1].table_mode is TableMode.UPSERT
    assert parsed_sink(key=["id"], mode="delete")[1].table_mode is TableMode.DELETE


def test_a_sink_is_fenced_and_exactly_once_and_alone_in_its_table() -> None:
    vertex, jdbc = parsed_sink()

    assert vertex.is_fenced
    assert jdbc.guarantee == "exactly once"
    assert jdbc.exclusive_output(str) == "table orders of jdbc://db.example.org:5432/shop"
    assert jdbc.requires == ("jdbc",)


def test_the_mode_of_the_query_is_a_field_of_its_own() -> None:
    assert parsed_sink(key=["id"])[0].mode is None
    assert parsed_sink(key=["id"], output_mode="update")[0].mode is OutputMode.UPDATE


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"mode": "upsert"}, "key", "the columns by which mode upsert finds a row"),
        ({"mode": "delete"}, "key", "the columns by which mode delete finds a row"),
        ({"mode": "append", "key": ["id"]}, "key", "appended rows have no key"),
        ({"key": ["id"], "batch_column": "b"}, "batch_column", "this is for mode append"),
        ({"op_column": "op"}, "op_column", "this is for mode upsert"),
        ({"order_by": ["v"]}, "order_by", "this is for mode upsert"),
        ({"key": ["op"], "op_column": "op"}, "op_column", "is a column of the key"),
        ({"key": ["nothing"]}, "key", "nothing"),
        ({"key": ["id"], "op_column": "what"}, "op_column", "what"),
        ({"table": "orders; DROP TABLE x"}, "table", "is not the name of a table"),
        ({"url": "postgresql://x/y"}, "url", "this is not a JDBC URL"),
        ({"url": f"{URL}?password=geheim"}, "url", "use the field password"),
        ({"options": {"dbtable": "x"}}, "options.dbtable", "write this as the field `table`"),
        ({"tabel": "x"}, "tabel", "did you mean 'table'?"),
    ],
)
def test_faults_of_a_sink_name_the_field(fields: dict[str, Any], field: str, message: str) -> None:
    found = faults(GENERATOR, sink(**fields))

    assert message in found[field]
    assert "geheim" not in str(found)


def test_results_that_change_need_an_upsert() -> None:
    assert "use mode upsert" in faults(GENERATOR, SUMS, sink("sums"))["mode"]
    parse(GENERATOR, SUMS, sink("sums", key=["id"]))


def test_a_complete_result_needs_an_upsert() -> None:
    parse(GENERATOR, SUMS, sink("sums", key=["id"], output_mode="complete"))
    found = faults(GENERATOR, SUMS, sink("sums", key=["id"], mode="delete", output_mode="complete"))

    assert "needs mode upsert" in found["mode"]


@pytest.mark.parametrize("table", ["orders", "shop.orders", '"My Shop"."Orders"', "db.shop.orders"])
def test_names_of_tables_may_have_a_schema_and_quotes(table: str) -> None:
    assert parsed_sink(table=table)[1].table == table


def test_a_source_reads_a_table_in_parts() -> None:
    found = parsed_source(
        table="orders",
        where="price > 3",
        partition_column="id",
        lower=0,
        upper="1000",
        partitions=4,
        fetch_size=500,
    )

    assert (found.table, found.where) == ("orders", "price > 3")
    assert (found.partition_column, found.lower, found.upper) == ("id", "0", "1000")
    assert (found.partitions, found.fetch_size) == (4, 500)


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({}, "table", "one of them is needed"),
        ({"table": "a", "query": "SELECT 1"}, "table", "one of them is needed"),
        ({"table": "a", "partition_column": "id"}, "lower", "partition_column, lower, upper and"),
        ({"table": "a", "lower": True}, "lower", "is not a whole number"),
        ({"table": "a", "refresh": "5m"}, "refresh", "a batch job reads its sources once"),
        ({"table": "a", "options": {"password": "x"}}, "options.password", "the field `password`"),
    ],
)
def test_faults_of_a_source_name_the_field(
    fields: dict[str, Any], field: str, message: str
) -> None:
    out = {"id": "out", "op": "sink", "inputs": ["customers"], "connector": "blackhole"}

    assert message in faults(source(**fields), out, mode="batch")[field]


def test_in_a_stream_a_source_is_the_static_side_of_a_join() -> None:
    customers = source(table="customers", schema="id BIGINT, name STRING", refresh="5m")
    join = {"id": "named", "op": "join", "inputs": ["rows", "customers"], "on": ["id"]}
    out = {"id": "out", "op": "sink", "inputs": ["named"], "connector": "blackhole"}

    found = parse(GENERATOR, customers, join, out).vertex(VertexId("customers"))

    assert isinstance(found, Source)
    assert isinstance(found.connector, JdbcSource)
    assert found.connector.refresh == timedelta(minutes=5)


def test_a_stream_cannot_read_a_table_as_a_stream() -> None:
    out = {"id": "out", "op": "sink", "inputs": ["customers"], "connector": "blackhole"}

    found = faults(source(table="customers", schema="id BIGINT"), out)

    assert "only the static side of a join" in found["connector"]


@pytest.mark.parametrize(
    ("url", "place", "packages"),
    [
        (f"{URL}?sslmode=require", "jdbc://db.example.org:5432/shop", ("jdbc",)),
        ("jdbc:mysql://root@db:3306/shop", "jdbc://db:3306/shop", ("jdbc-mysql",)),
        ("jdbc:sqlserver://db:1433;databaseName=x", "jdbc://db:1433", ("jdbc-sqlserver",)),
        ("jdbc:sqlite:/data/shop.db", "/data/shop.db", ("jdbc-sqlite",)),
        ("jdbc:h2:file:/data/shop;MODE=x", "/data/shop", ("jdbc-h2",)),
        ("jdbc:sqlite:shop.db", "jdbc://sqlite/shop.db", ("jdbc-sqlite",)),
        ("jdbc:h2:mem:shop", "jdbc://h2/mem:shop", ("jdbc-h2",)),
        ("jdbc:derby:memory:shop", "jdbc://derby/memory:shop", ()),
        ("jdbc:oracle:thin:@//db:1521/x", "jdbc://db:1521/x", ("jdbc-oracle",)),
    ],
)
def test_a_url_names_a_place_and_the_packages_it_needs(
    url: str, place: str, packages: tuple[str, ...]
) -> None:
    assert (JdbcUrl(url).place, JdbcUrl(url).packages) == (place, packages)


@pytest.mark.parametrize(
    ("fields", "is_code"),
    [
        ({}, False),
        ({"url": f"{URL}?sslmode=require"}, False),
        ({"options": {"batchsize": "5"}}, False),
        ({"url": f"{URL}?socketFactory=a.B"}, True),
        ({"url": "jdbc:h2:mem:x"}, True),
        ({"driver": "a.B"}, True),
        ({"options": {"socketFactory": "a.B"}}, True),
    ],
)
def test_what_could_make_a_driver_run_code_needs_a_developer(
    fields: dict[str, Any], is_code: bool
) -> None:
    document = sink(**fields)
    options = document.pop("options", {})
    graph = parse(GENERATOR, document).vertex(VertexId("out"))
    assert isinstance(graph, Sink)

    assert (graph.connector.code_in(options) is not None) is is_code
