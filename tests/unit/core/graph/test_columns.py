import pytest

from jobmanager.core.graph import graph_document
from jobmanager.core.graph.columns import in_schema, known_columns
from jobmanager.core.ids import VertexId


@pytest.mark.parametrize(
    ("ddl", "names"),
    [
        ("k BIGINT, v STRING", ("k", "v")),
        ("k: bigint, v: string NOT NULL", ("k", "v")),
        ("`a, b` INT COMMENT 'one, two', c DECIMAL(10, 2)", ("a, b", "c")),
        ("m MAP<STRING, INT>, s STRUCT<a: INT, b: ARRAY<INT>>", ("m", "s")),
        ("`a``b` INT", ("a`b",)),
        ("STRUCT", None),
        ("", None),
    ],
)
def test_the_names_in_a_schema(ddl: str, names: tuple[str, ...] | None) -> None:
    assert in_schema(ddl) == names


def test_columns_come_out_as_the_language_says() -> None:
    source = {"op": "source", "connector": "table", "rows": []}
    graph = graph_document.parse(
        {
            "name": "columns",
            "mode": "batch",
            "vertices": [
                {**source, "id": "a", "schema": "v INT, k INT, j INT"},
                {**source, "id": "b", "schema": "w INT, j INT, k INT"},
                {"id": "both", "op": "join", "inputs": ["a", "b"], "on": ["k", "j"]},
                {"id": "left", "op": "join", "inputs": ["a", "b"], "on": ["k", "j"],
                 "type": "left_semi"},
                {"id": "flat", "op": "flat_map", "inputs": ["both"], "explode": "map(v, w)",
                 "as": ["x", "y"], "keep": ["k"]},
                {"id": "all", "op": "flat_map", "inputs": ["left"], "explode": "array(v)",
                 "as": "x"},
                {"id": "sums", "op": "reduce", "inputs": ["flat"], "key": ["k"],
                 "aggregate": {"n": "count(*)"}},
                {"id": "one", "op": "sink", "inputs": ["sums"], "connector": "blackhole"},
                {"id": "two", "op": "sink", "inputs": ["all"], "connector": "blackhole"},
            ],
        }
    )  # fmt: skip

    found = known_columns(graph.vertices)

    assert found[VertexId("both")] == ("k", "j", "v", "w")
    assert found[VertexId("left")] == ("k", "j", "v")
    assert found[VertexId("flat")] == ("k", "x", "y")
    assert found[VertexId("all")] == ("k", "j", "v", "x")
    assert found[VertexId("sums")] == ("k", "n")
