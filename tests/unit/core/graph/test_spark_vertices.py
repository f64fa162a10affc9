"""The plan of vertices whose code is a user's PySpark."""

from typing import Any

import pytest

from jobmanager.core.errors import InvalidJobGraph
from jobmanager.core.graph import graph_document
from jobmanager.core.ids import VertexId
from jobmanager.core.plan import spark_order
from jobmanager.core.plan.job_plan import SnapshotKind, assignment, awaited, plan_of
from tests.support.builders import a_document


def _document(**fields: Any) -> dict[str, Any]:
    document = a_document()
    vertex = {"id": "own", "op": "spark", "inputs": ["big"], "function": "m:f", "output": "a INT"}
    document["vertices"][2:] = [
        {**vertex, **fields},
        {"id": "out", "op": "sink", "inputs": ["own"], "connector": "blackhole"},
    ]
    return document


def test_a_function_without_state_is_awaited_by_nobody() -> None:
    graph = graph_document.parse(_document())

    assert SnapshotKind.STATE not in awaited(graph, 2).values()
    assert graph.vertex(VertexId("own")).op == "spark"


@pytest.mark.parametrize(
    ("state", "subtasks", "mode"),
    [
        (["window"], 2, "append"),
        (["aggregate"], 2, "update"),
        (["distinct", "join"], 2, "append"),
        (["total"], 1, "update"),
        (["limit", "total"], 1, "update"),
    ],
)
def test_declared_state_is_awaited_from_each_of_its_partitions(
    state: list[str], subtasks: int, mode: str
) -> None:
    graph = graph_document.parse(_document(state=state))

    found = [ref.subtask for ref, kind in awaited(graph, 2).items() if kind is SnapshotKind.STATE]
    assert found == list(range(subtasks))
    assert spark_order.keyed(graph, VertexId("out")) == ["own"] * len(state)
    assert plan_of(graph).regions[0].output_mode == mode
    owned = assignment(graph, 2)
    assert sorted(group for groups in owned.values() for group in groups) == list(range(720))
    assert graph.vertex(VertexId("own")).op == "spark"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"function": "f"}, "own.function: 'f' is not of the form module:name"),
        ({"function": "m:f()"}, "is not of the form module:name"),
        ({"output": None}, "own.output: missing"),
        ({"state": ["magic"]}, "own.state: 'magic' is not one of aggregate"),
        ({"state": ["total", "window"]}, "split the vertex in two"),
    ],
)
def test_faults_of_a_function_vertex(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidJobGraph) as raised:
        graph_document.parse(_document(**fields))

    assert told in str(raised.value)
