"""The connector `cassandra` in a job graph: fields, faults, and what it says of itself."""

from datetime import timedelta
from typing import Any

import pytest

from jobmanager.core.errors import InvalidJobGraph
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.connectors.cassandra import CassandraSink, Consistency
from jobmanager.core.graph.connectors.table_mode import TableMode
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.output_mode import OutputMode
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.ids import VertexId

GENERATOR = {
    "id": "rows",
    "op": "source",
    "connector": "generator",
    "rows_per_second": 1,
    "columns": {"id": "id", "v": "id * 2", "op": "'c'"},
}


def parse(**fields: Any) -> JobGraph:
    named = {"connector": "cassandra", "servers": "a.example.org", "keyspace": "shop"}
    sink = {"id": "out", "op": "sink", "inputs": ["rows"], **named}
    sink |= {"table": "orders", "key": ["id"], **fields}
    return graph_document.parse({"name": "shop", "vertices": [GENERATOR, sink]})


def parsed(**fields: Any) -> tuple[Sink, CassandraSink]:
    vertex = parse(**fields).vertex(VertexId("out"))
    assert isinstance(vertex, Sink)
    assert isinstance(vertex.connector, CassandraSink)
    return vertex, vertex.connector


def test_a_sink_says_what_it_is() -> None:
    vertex, cassandra = parsed(expire="1h", password="${secret:shop}", user="writer")

    assert not vertex.is_fenced  # a row that is under way may come after a take-over
    assert cassandra.guarantee == "exactly once by key: the newest row of a key stays"
    assert cassandra.requires == ("cassandra",)
    assert cassandra.row_key.mode is TableMode.UPSERT
    assert cassandra.consistency is Consistency.LOCAL_QUORUM
    assert cassandra.expire == timedelta(hours=1)
    assert cassandra.code_in({}) is None
    assert list(cassandra.places()) == [("servers", "cassandra://a.example.org:9042")]
    assert cassandra.exclusive_output(str) == "table shop.orders of cassandra://a.example.org:9042"


def test_every_node_and_the_certificates_of_tls_are_places() -> None:
    _, cassandra = parsed(servers=["b:9142", "[::1]:9142"], tls=True, ca="/etc/ca.pem")

    assert cassandra.servers.is_encrypted
    assert list(cassandra.places()) == [
        ("servers", "cassandra://b:9142"),
        ("servers", "cassandra://[::1]:9142"),
        ("ca", "/etc/ca.pem"),
    ]
    assert parsed(servers="a:9142, b:9142")[1].servers.hosts == ("a", "b")


def test_the_mode_of_the_query_is_a_field_of_its_own() -> None:
    vertex, cassandra = parsed(mode="delete", output_mode="update")

    assert cassandra.row_key.mode is TableMode.DELETE
    assert vertex.mode is OutputMode.UPDATE


def test_a_row_leaves_the_operation_out() -> None:
    assert parsed(op_column="op")[1].stored_columns(("id", "v", "op")) == ("id", "v")


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"key": []}, "key", "at least one column"),
        ({"servers": None}, "servers", "missing"),
        ({"servers": []}, "servers", "missing"),
        ({"servers": 7}, "servers", "is not a list of nodes"),
        ({"servers": "http://x"}, "servers", "a node is host, or host:port"),
        ({"servers": "host:99999"}, "servers", "a node is host, or host:port"),
        ({"servers": "user:geheim@host"}, "servers", "a node is host, or host:port"),
        ({"servers": ["a:1", "b:2"]}, "servers", "the same port"),
        ({"keyspace": "my shop"}, "keyspace", "is not a name"),
        ({"table": None}, "table", "missing"),
        ({"table": "shop.orders"}, "table", "is not a name"),
        ({"table": "headgate_sinks"}, "table", "their own records"),
        ({"mode": "append"}, "mode", "rows are written by key"),
        ({"order_by": ["nothing"]}, "order_by", "nothing"),
        ({"consistency": "any"}, "consistency", "is not one of"),
        ({"ca": "/etc/ca.pem"}, "ca", "tls: true"),
        ({"user": "writer"}, "password", "needed together"),
        ({"expire": "10ms"}, "expire", "between a second and 20 years"),
        ({"batch_size": 0}, "batch_size", "0"),
        ({"options": {"ttl": "1"}}, "options.ttl", "has no options"),
        ({"tabel": "x"}, "tabel", "unknown field"),
    ],
)
def test_faults_name_the_field(fields: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(InvalidJobGraph) as refused:
        parse(**fields)

    found = {one.field: one.message for one in refused.value.faults}
    assert message in found[field]
    assert "geheim" not in str(found)


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(InvalidJobGraph) as refused:
        parse(servers=None, keyspace="", table="a b", key=[], batch_size=0)

    assert {one.field for one in refused.value.faults} == {
        *("servers", "keyspace", "table", "key", "batch_size")
    }
