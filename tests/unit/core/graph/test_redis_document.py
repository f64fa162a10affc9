"""The connector `redis` in a job graph: fields, faults, and what it says of itself."""

from datetime import timedelta
from typing import Any

import pytest

from jobmanager.core.errors import InvalidJobGraph
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.connectors.redis import RedisSink, ValueFormat
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


def sink(**fields: Any) -> dict[str, Any]:
    named = {
        "connector": "redis",
        "url": "redis://cache.example.org",
        "prefix": "orders:",
        "key": ["id"],
    }
    return {"id": "out", "op": "sink", "inputs": ["rows"], **named, **fields}


def parse(**fields: Any) -> JobGraph:
    return graph_document.parse({"name": "shop", "vertices": [GENERATOR, sink(**fields)]})


def parsed(**fields: Any) -> tuple[Sink, RedisSink]:
    vertex = parse(**fields).vertex(VertexId("out"))
    assert isinstance(vertex, Sink)
    assert isinstance(vertex.connector, RedisSink)
    return vertex, vertex.connector


def test_a_sink_says_what_it_is() -> None:
    vertex, redis = parsed(expire="1h", password="${secret:cache}", user="writer")

    assert vertex.is_fenced
    assert redis.guarantee == "exactly once by key: the newest row of a key stays"
    assert redis.requires == ("redis",)
    assert redis.row_key.mode is TableMode.UPSERT
    assert redis.format is ValueFormat.HASH
    assert redis.expire == timedelta(hours=1)
    assert redis.code_in({}) is None
    assert list(redis.places()) == [("url", "redis://cache.example.org:6379")]
    assert redis.exclusive_output(str) == "keys orders:* of redis://cache.example.org:6379/0"


def test_the_certificates_of_tls_are_a_place_too() -> None:
    _, redis = parsed(url="rediss://[::1]:6380/3", ca="/etc/ca.pem")

    assert redis.server.is_encrypted
    assert redis.server.database == 3
    assert list(redis.places()) == [("url", "redis://[::1]:6380"), ("ca", "/etc/ca.pem")]


def test_the_mode_of_the_query_is_a_field_of_its_own() -> None:
    vertex, redis = parsed(mode="delete", output_mode="update")

    assert redis.row_key.mode is TableMode.DELETE
    assert vertex.mode is OutputMode.UPDATE


def test_what_is_stored_leaves_the_operation_out() -> None:
    columns = ("id", "v", "op")

    assert parsed(op_column="op")[1].value_columns(columns) == ("id", "v")
    assert parsed(op_column="op", format="raw")[1].value_columns(columns) == ("v",)


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"key": []}, "key", "at least one column"),
        ({"key": None}, "key", "a list of columns is needed"),
        ({"prefix": None}, "prefix", "missing"),
        ({"mode": "append"}, "mode", "rows are written by key"),
        ({"mode": "delete", "op_column": "op"}, "op_column", "this is for mode upsert"),
        ({"mode": "delete", "order_by": ["v"]}, "order_by", "this is for mode upsert"),
        ({"key": ["op"], "op_column": "op"}, "op_column", "is a column of the key"),
        ({"key": ["nothing"]}, "key", "nothing"),
        ({"order_by": ["nothing"]}, "order_by", "nothing"),
        ({"url": "http://x"}, "url", "is not the address of a Redis server"),
        ({"url": "redis://host:99999"}, "url", "is not the address of a Redis server"),
        ({"url": "redis://user:geheim@host"}, "url", "use the fields user and password"),
        ({"ca": "/etc/ca.pem"}, "ca", "rediss://"),
        ({"format": "raw"}, "format", "stores a single column"),
        ({"expire": "soon"}, "expire", "soon"),
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
