from pathlib import Path
from typing import Any

import pytest

from jobmanager.core.graph import graph_document
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import VertexId
from taskrunner.core.adoptability import FoundCheckpoint, objections
from tests.unit.taskrunner.builders import a_graph

OUT = VertexId("out")


def a_files_graph() -> JobGraph:
    """Files, a sum, a sink."""
    return graph_document.parse(
        {
            "name": "files",
            "vertices": [
                {
                    "id": "rows",
                    "op": "source",
                    "connector": "files",
                    "format": "json",
                    "path": "in",
                    "schema": "k STRING, v BIGINT",
                },
                {
                    "id": "sums",
                    "op": "aggregate",
                    "inputs": ["rows"],
                    "key": ["k"],
                    "aggregate": {"n": "count(*)"},
                },
                {"id": "out", "op": "sink", "inputs": ["sums"], "connector": "blackhole"},
            ],
        }
    )


def told(
    *offsets: Any, operators: tuple[str, ...] = ("stateStoreSave",), file: str | None = None
) -> list[str]:
    found = FoundCheckpoint(offsets, operators, {0: file} if file else {})
    return objections(found, a_files_graph(), OUT, {VertexId("rows"): Path("/data/in")})


@pytest.mark.parametrize(
    "file", [None, "file:///data/in/1.json", "file:/data/in/a%20b.json", "/data/in/1.json"]
)
def test_a_graph_with_the_same_sources_and_operators_goes_on(file: str | None) -> None:
    assert told({"logOffset": 3}, file=file) == []
    assert told(None, file=file) == []


def test_other_numbers_are_told_with_both_sides() -> None:
    assert told({"logOffset": 3}, 7, operators=()) == [
        "the checkpoint has 2 sources, the graph has 1 (rows)",
        "the checkpoint has 0 stateful operators (none), the graph has 1 keyed vertex (sums)",
    ]


def test_files_from_elsewhere_would_all_be_read_again() -> None:
    [objection] = told({"logOffset": 3}, file="file:///data/input/1.json")
    assert "has read file:///data/input/1.json, vertex rows reads /data/in" in objection


def test_another_kind_of_source_is_told() -> None:
    assert told(12) == ["source 0 of the checkpoint does not read files, vertex rows does"]
    found = FoundCheckpoint([{"logOffset": 1}], ["stateStoreSave"], {})
    assert objections(found, a_graph(), OUT, {}) == [
        "source 0 of the checkpoint is no `rate` source, as vertex orders is"
    ]
