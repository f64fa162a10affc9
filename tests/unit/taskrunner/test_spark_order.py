from jobmanager.core.graph.connectors.generator import GeneratorSource
from jobmanager.core.graph.connectors.table import TableSource
from jobmanager.core.ids import VertexId
from jobmanager.core.plan import spark_order
from tests.unit.taskrunner.builders import a_graph

SINK = VertexId("out")


def union_graph_vertices() -> list[dict[str, object]]:
    table = {"op": "source", "connector": "table", "schema": "k STRING, ts TIMESTAMP", "rows": []}
    watermark = {"column": "ts", "delay": "1s"}
    window = {"op": "window", "key": ["k"], "time": "ts", "aggregate": {"n": "count(*)"}}
    return [
        {"id": "a", **table, "watermark": watermark},
        {"id": "b", **table, "watermark": watermark},
        {"id": "wa", **window, "inputs": ["a"], "window": {"tumbling": "1s"}},
        {"id": "wb", **window, "inputs": ["b"], "window": {"session": "1s"}},
        {"id": "both", "op": "union", "inputs": ["wb", "wa"]},
        {"id": "out", "op": "sink", "inputs": ["both"], "connector": "blackhole"},
    ]


def test_operators_and_sources_are_numbered_from_the_sink_left_first() -> None:
    graph = a_graph(vertices=union_graph_vertices())

    assert spark_order.keyed(graph, SINK) == ["wb", "wa"]
    assert spark_order.sources(graph, SINK) == ["b", "a"]


def test_a_generator_is_exhausted_when_its_seconds_cover_its_rows() -> None:
    generator = GeneratorSource(rows_per_second=10, rows=25, columns={"id": "id"})

    assert not generator.is_exhausted(None)
    assert not generator.is_exhausted(2)
    assert generator.is_exhausted(3)


def test_rows_that_a_generator_gives_after_its_end_are_not_counted() -> None:
    generator = GeneratorSource(rows_per_second=10, rows=25, columns={"id": "id"})

    assert generator.rows_read(start=1, end=9, counted=80) == 15


def test_a_table_is_exhausted_by_its_first_offset() -> None:
    assert not TableSource(()).is_exhausted(None)
    assert TableSource(()).is_exhausted({"logOffset": 0})
