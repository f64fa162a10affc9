"""A plan as Flink shows it: one node a task."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Any

from jobmanager.core import durations
from jobmanager.core.graph.aggregates import Aggregate, Distinct, Reduce
from jobmanager.core.graph.graph_algorithms import GraphAlgorithm
from jobmanager.core.graph.iterations import DeltaIterate, Iterate
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.joins import Join
from jobmanager.core.graph.ml import Ml
from jobmanager.core.graph.process_functions import Cogroup, KeyedReduce, Process, Python
from jobmanager.core.graph.projection import Filter, FlatMap, Map, Union
from jobmanager.core.graph.pyspark_functions import Spark
from jobmanager.core.graph.scripts import Script
from jobmanager.core.graph.sinks import (
    BlackholeSink,
    ConsoleSink,
    FilesSink,
    PythonSink,
    ScriptSink,
    Sink,
)
from jobmanager.core.graph.sources import Source
from jobmanager.core.graph.sql_queries import Sql
from jobmanager.core.graph.vertex import Vertex
from jobmanager.core.graph.windows import Window
from jobmanager.core.ids import RegionId
from jobmanager.core.plan.job_plan import Plan, Task, plan_of


def task_id(job: str, task: Task) -> str:
    """32 hexadecimal digits, as Flink's clients expect; the same for the life of the job."""
    return hashlib.md5(f"{job}:{task.head}".encode(), usedforsecurity=False).hexdigest()


def task_name(graph: JobGraph, task: Task) -> str:
    return " -> ".join(_name(graph.vertex(vertex_id)) for vertex_id in task.vertices)


def plan_document(
    job: str, graph: JobGraph, parallelism: int, spark_plans: Mapping[RegionId, str] | None = None
) -> dict[str, Any]:
    """`spark_plans`: Spark's own plan of each region, as text, where it was asked for."""
    told = spark_plans or {}
    plan = plan_of(graph, parallelism)
    return {
        "jid": job,
        "name": graph.name,
        "type": graph.mode.upper(),
        "nodes": [_node(job, graph, plan, task) for task in plan.tasks],
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


def _node(job: str, graph: JobGraph, plan: Plan, task: Task) -> dict[str, Any]:
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
        "description": "<br/>".join(_describe(graph.vertex(v)) for v in task.vertices),
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


def _describe(vertex: Vertex) -> str:
    return f"{vertex.id}: {vertex.op}({_what(vertex)})"


def _what(vertex: Vertex) -> str:
    match vertex:
        case Source() | Sink():
            return _connector(vertex)
        case Map(select=None):
            return f"add={dict(vertex.add)}, drop={list(vertex.drop)}"
        case Map():
            return f"select={dict(vertex.select or {})}"
        case Filter():
            return f"where={vertex.where}"
        case Union():
            return ""
        case FlatMap():
            return f"explode={vertex.explode}, as={list(vertex.names)}"
        case Join():
            condition = vertex.where or f"on={list(vertex.on)}"
            return _listed(
                f"{vertex.type}, {condition}", within=vertex.within, static=vertex.static
            )
        case Distinct():
            return _listed(f"key={list(vertex.key)}", within=vertex.within)
        case Sql():
            return vertex.query
        case Aggregate() | Reduce():
            return f"key={list(vertex.key)}, aggregate={dict(vertex.aggregate)}"
        case Process() | KeyedReduce() | Cogroup():
            return f"key={list(vertex.key)}, function={vertex.function}"
        case Python():
            return f"function={vertex.function}"
        case Spark():
            return f"function={vertex.function}, output={vertex.output}, state={_kinds(vertex)}"
        case Script():
            return f"query={vertex.query}, state={_kinds(vertex)}"
        case Window():
            return _listed(
                f"key={list(vertex.key)}",
                aggregate=dict(vertex.aggregate) or None,
                function=vertex.function,
                time=vertex.time or None,
                window=vertex.window,
                trigger=vertex.trigger,
                evictor=vertex.evictor,
                allowed_lateness=vertex.allowed_lateness or None,
            )
        case Iterate() | DeltaIterate():
            body = ", ".join(one.id for one in vertex.body)
            return f"body=[{body}], max_iterations={vertex.max_iterations}, until={vertex.until}"
        case GraphAlgorithm():
            return f"{vertex.algorithm}"
        case Ml(model=None):
            return f"fit={vertex.fit}, stages=[{', '.join(one.kind for one in vertex.stages)}]"
        case Ml():
            return f"model={vertex.model}"
        case _:
            return ""


def _listed(first: str, **settings: Any) -> str:
    """What is set, as a user would write it."""
    told = [f"{name}={_plain(value)}" for name, value in settings.items() if value is not None]
    return ", ".join([first, *told])


def _plain(value: Any) -> str:
    if isinstance(value, timedelta):
        return durations.render(value)
    if not is_dataclass(value) or isinstance(value, type):
        return str(value)
    kind = re.sub("(Window|Trigger|Evictor)$", "", type(value).__name__)
    words = re.sub("(?<=[a-z])(?=[A-Z])", " ", kind).lower()
    parts = [getattr(value, one.name) for one in fields(value)]
    return " ".join([words, *(_plain(part) for part in parts if part is not None)])


def _kinds(vertex: Spark | Script) -> list[str]:
    return [kind.value for kind in vertex.state]


def _connector(vertex: Source | Sink) -> str:
    kind = type(vertex.connector).__name__.removesuffix("Source").removesuffix("Sink").lower()
    if isinstance(vertex, Sink):
        return f"{kind}, {_promise(vertex)}"
    return kind


def _promise(sink: Sink) -> str:
    match sink.connector:
        case FilesSink():
            return "exactly once"
        case ConsoleSink() | ScriptSink():
            return "at least once"
        case BlackholeSink():
            return "nothing kept"
        case PythonSink():
            return "what its class gives"
