from typing import Any

from jobmanager.core.graph import graph_document
from jobmanager.core.graph.inputs import Ship
from jobmanager.core.graph.output_mode import OutputMode
from jobmanager.core.plan.job_plan import SnapshotKind, awaited, plan_of
from tests.support.builders import a_document


def a_graph(vertices: list[dict[str, Any]]) -> Any:
    return graph_document.parse(a_document(vertices=vertices))


def two_sinks() -> Any:
    source = {
        "id": "rows",
        "op": "source",
        "connector": "generator",
        "rows_per_second": 1,
        "rows": 10,
        "columns": {"k": "id"},
    }
    return a_graph(
        [
            source,
            {"id": "total", "op": "aggregate", "inputs": ["rows"], "aggregate": {"n": "count(*)"}},
            {"id": "a", "op": "sink", "inputs": ["total"], "connector": "blackhole"},
            {
                "id": "b",
                "op": "sink",
                "inputs": ["rows"],
                "connector": "console",
                "parallelism": 1,
            },
        ]
    )


def test_forward_edges_chain_vertices_into_tasks() -> None:
    plan = plan_of(graph_document.parse(a_document()))

    assert [task.vertices for task in plan.tasks] == [("bids", "big"), ("revenue", "out")]
    assert [edge.ship for edge in plan.edges] == [Ship.FORWARD, Ship.HASH, Ship.FORWARD]


def test_a_barrier_awaits_each_state_partition_one_source_and_one_sink() -> None:
    found = awaited(graph_document.parse(a_document()), parallelism=3)

    told = sorted((ref.vertex, ref.subtask, str(kind)) for ref, kind in found.items())
    assert told == [
        ("bids", 0, "offsets"),
        ("out", 0, "sink"),
        ("revenue", 0, "state"),
        ("revenue", 1, "state"),
        ("revenue", 2, "state"),
    ]


def test_each_sink_is_a_region_and_a_shared_source_is_awaited_in_both() -> None:
    graph = two_sinks()
    plan = plan_of(graph)

    assert [region.id for region in plan.regions] == ["a", "b"]
    assert [region.output_mode for region in plan.regions] == [OutputMode.UPDATE, OutputMode.APPEND]
    assert all(region.is_bounded for region in plan.regions)
    sources = [ref for ref, kind in awaited(graph, 2).items() if kind is SnapshotKind.OFFSETS]
    assert [ref.region for ref in sources] == ["a", "b"]


def test_an_aggregate_without_a_key_has_one_subtask_whatever_the_parallelism() -> None:
    found = awaited(two_sinks(), parallelism=4)

    assert [ref.subtask for ref, kind in found.items() if kind is SnapshotKind.STATE] == [0]


def test_a_vertex_with_a_parallelism_of_its_own_is_rebalanced_into_a_task_of_its_own() -> None:
    plan = plan_of(two_sinks())

    task = next(task for task in plan.tasks if task.head == "b")
    assert task.parallelism == 1
    assert next(edge.ship for edge in plan.edges if edge.target == "b") is Ship.REBALANCE
