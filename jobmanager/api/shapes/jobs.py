"""Jobs: what a submission answers, the graph, the key groups, the history."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import WithJsonSchema

from jobmanager.api.shapes.flink.plans import JobPlan
from jobmanager.api.shapes.problems import GraphFault
from jobmanager.api.shapes.shape import Shape
from jobmanager.core.life.job import JobStatus
from jobmanager.services.ports.history import Actor

GraphDocument = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "description": "A job graph, in the language of docs/job-graph.md.",
            "required": ["name", "vertices"],
            "properties": {
                "name": {"type": "string"},
                "mode": {"type": "string"},
                "max_parallelism": {"type": "integer"},
                "vertices": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["id", "op"],
                        "properties": {"id": {"type": "string"}, "op": {"type": "string"}},
                        "additionalProperties": True,
                    },
                },
            },
            "additionalProperties": True,
        }
    ),
]
"""A vertex as submitted. Only the fields that every vertex has are described here."""


class JobState(Shape):
    jobid: str
    state: JobStatus


class JobSubmitted(Shape):
    jobid: str


class DryRun(Shape):
    plan: JobPlan | None
    """Null: the graph has faults."""
    faults: list[GraphFault]


class GraphResponse(Shape):
    graph: GraphDocument
    revision: int
    parallelism: int
    """The parallelism in force, which may differ from the graph's own."""


class KeyGroupSubtask(Shape):
    subtask: int
    key_groups: list[int]


class KeyGroupVertex(Shape):
    vertex: str
    subtasks: list[KeyGroupSubtask]


class KeyGroupsResponse(Shape):
    max_parallelism: int
    parallelism: int
    vertices: list[KeyGroupVertex]


class HistoryItem(Shape):
    id: int
    at: datetime
    kind: str
    cause: str
    actor: Actor
    actor_name: str | None
    """For a client: the name of its token, or `anonymous`."""
    attempt: int | None
    checkpoint: int | None
    detail: dict[str, Any]
    """Details, which depend on the kind of entry."""


class HistoryPage(Shape):
    items: list[HistoryItem]
    next: str | None
