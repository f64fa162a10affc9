"""The connectors `elasticsearch` and `opensearch` in a job graph: fields, faults, and what they say
of themselves.
"""

from typing import Any

import pytest

from jobmanager.core.errors import InvalidJobGraph
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.connectors.search_indexes import (
    ElasticsearchSink,
    OpenSearchSink,
    SearchSink,
)
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
PRODUCTS = {"elasticsearch": ElasticsearchSink, "opensearch": OpenSearchSink}


def parse(product: str = "elasticsearch", **fields: Any) -> JobGraph:
    named = {"connector": product, "url": "https://search.example.org", "index": "orders"}
    sink = {"id": "out", "op": "sink", "inputs": ["rows"], **named, "key": ["id"], **fields}
    return graph_document.parse({"name": "shop", "vertices": [GENERATOR, sink]})


def parsed(product: str = "elasticsearch", **fields: Any) -> tuple[Sink, SearchSink]:
    vertex = parse(product, **fields).vertex(VertexId("out"))
    assert isinstance(vertex, Sink)
    assert isinstance(vertex.connector, SearchSink)
    return vertex, vertex.connector


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_sink_says_what_it_is(product: str) -> None:
    vertex, search = parsed(product, user="writer", password="${secret:search}")

    assert type(search) is PRODUCTS[product]
    assert not vertex.is_fenced  # a row that is under way may come after a take-over
    assert search.guarantee == "exactly once by key: the newest row of a key stays"
    assert search.requires == (product,)
    assert search.row_key.mode is TableMode.UPSERT
    assert search.code_in({}) is None
    assert search.server.url == "https://search.example.org:9200"
    assert list(search.places()) == [("url", f"{product}://search.example.org:9200")]
    assert search.exclusive_output(str) == f"index orders of {product}://search.example.org:9200"


def test_the_certificates_of_tls_are_a_place_too() -> None:
    _, search = parsed(url="https://[::1]:9201/", ca="/etc/ca.pem")

    assert search.server.url == "https://[::1]:9201"
    assert list(search.places())[1] == ("ca", "/etc/ca.pem")


def test_the_mode_of_the_query_is_a_field_of_its_own() -> None:
    vertex, search = parsed(mode="delete", output_mode="update")

    assert search.row_key.mode is TableMode.DELETE
    assert vertex.mode is OutputMode.UPDATE


def test_a_document_leaves_the_operation_out() -> None:
    assert parsed(op_column="op")[1].stored_columns(("id", "v", "op")) == ("id", "v")


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"key": []}, "key", "at least one column"),
        ({"index": None}, "index", "missing"),
        ({"index": "Orders"}, "index", "in lower case"),
        ({"index": "orders-*"}, "index", "not the name of an index"),
        ({"index": "_all"}, "index", "not the name of an index"),
        ({"mode": "append"}, "mode", "rows are written by key"),
        ({"key": ["op"], "op_column": "op"}, "op_column", "is a column of the key"),
        ({"order_by": ["nothing"]}, "order_by", "nothing"),
        ({"url": "redis://x"}, "url", "is not the address of a search server"),
        ({"url": "http://host:99999"}, "url", "is not the address of a search server"),
        ({"url": "http://host:9200/path"}, "url", "is not the address of a search server"),
        ({"url": "https://user:geheim@host"}, "url", "use the fields user and password"),
        ({"url": "http://host", "ca": "/etc/ca.pem"}, "ca", "https://"),
        ({"user": "writer"}, "password", "needed together"),
        ({"password": "${secret:x}"}, "user", "needed together"),
        ({"batch_size": 0}, "batch_size", "0"),
        ({"options": {"refresh": "1"}}, "options.refresh", "has no options"),
        ({"indx": "x"}, "indx", "unknown field"),
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
        parse(index="A", url="x", key=[], batch_size=0)

    assert {one.field for one in refused.value.faults} == {"index", "url", "key", "batch_size"}
