"""A plan as Flink shows it: one node a task."""

import hashlib
from collections.abc import Mapping
from typing import Any

from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.graph.sources import Source
from jobmanager.core.graph.vertex import Vertex
from jobmanager.core.graph.vertex_text import text_of
from jobmanager.core.ids import RegionId
from jobmanager.core.plan.job_plan import Plan, Task, plan_of


def task_id(job: str, task: Task) -> str:
    """32 hexadecimal digits, as Flink's clients expect; the same for the life of the job."""
    return hashlib.md5(f"{job}:{task.head}".encode(), usedforsecurity=False).hexdigest()


def task_name(graph: JobGraph, task: Task) -> str:
    return " -> ".join(_name(graph.vertex(vertex_id)) for vertex_id in task.vertices)


def plan_document(
    job: str,
    graph: JobGraph,
    document: Mapping[str, Any],
    parallelism: int,
    spark_plans: Mapping[RegionId, str] | None = None,
) -> dict[str, Any]:
    """`document` is what `graph` was read from: tasks are described in the user's own words.

    `spark_plans`: Spark's own plan of each region, as text, where it was asked for.
    """
    told = spark_plans or {}
    written = {one["id"]: one for one in document["vertices"]}
    plan = plan_of(graph, parallelism)
    return {
        "jid": job,
        "name": graph.name,
        "type": graph.mode.upper(),
        "nodes": [_node(job, graph, written, plan, task) for task in plan.tasks],
        "headgate-regions": [
            {
                "id": region.id,
                "vertices": list(region.vertices),
                "root": region.root,
                "sinks": list(region.sinks),
                "output-mode": region.output_mode,
                **({"spark-plan": told[region.id]} if region.id in told else {}),
            }
            for region in plan.regions
        ],
    }


def _node(
    job: str, graph: JobGraph, written: Mapping[str, Mapping[str, Any]], plan: Plan, task: Task
) -> dict[str, Any]:
    task_of = {vertex: one for one in plan.tasks for vertex in one.vertices}
    into = [
        edge
        for edge in plan.edges
        if edge.target in task.vertices and edge.source not in task.vertices
    ]
    node: dict[str, Any] = {
        "id": task_id(job, task),
        "operator": "",
        "parallelism": task.parallelism,
        "operator_strategy": "",
        "description": "<br/>".join(_describe(graph.vertex(v), written[v]) for v in task.vertices),
        "optimizer_properties": {},
        "headgate-vertices": list(task.vertices),
    }
    if into:
        node["inputs"] = [
            {
                "id": task_id(job, task_of[edge.source]),
                "num": number,
                "exchange": "blocking" if graph.mode == "batch" else "pipelined_bounded",
                "ship_strategy": edge.ship.upper(),
            }
            for number, edge in enumerate(into)
        ]
    return node


def _name(vertex: Vertex) -> str:
    match vertex:
        case Source():
            return f"Source: {vertex.id}"
        case Sink():
            return f"{vertex.id}: Writer"
        case _:
            return str(vertex.id)


def _describe(vertex: Vertex, document: Mapping[str, Any]) -> str:
    texts = [text_of(document)]
    if isinstance(vertex, Sink):
        # the delivery guarantee comes early: where there is little room, the end is cut off
        rest = {name: value for name, value in document.items() if name != "connector"}
        texts = [str(document["connector"]), vertex.connector.guarantee, text_of(rest)]
    return f"{vertex.id}: {vertex.op}({', '.join(text for text in texts if text)})"
