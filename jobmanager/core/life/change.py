"""What a rescale or an upgrade changes about a job, and which key groups that moves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobmanager.core.graph import graph_document, meta
from jobmanager.core.graph.job_graph import JobGraph, RunnerKind
from jobmanager.core.plan import key_groups


@dataclass(frozen=True, slots=True)
class Revision:
    """The graph and parallelism of a job: immutable, a change makes a new revision."""

    number: int
    document: Mapping[str, Any]
    parallelism: int


@dataclass(frozen=True, slots=True)
class Change:
    before: Revision
    after: Revision
    allow_non_restored_state: bool = False

    @property
    def needs_restart(self) -> bool:
        """Whether the job has to stop for it. Nothing that runs depends on `meta`."""
        is_rescale = self.before.parallelism != self.after.parallelism
        return is_rescale or not meta.is_only_change(self.before.document, self.after.document)

    @property
    def keeps_runner(self) -> bool:
        """Whether the job's runner can run both revisions: not if one of them shares a process with
        other jobs and the other does not.
        """
        return _runner_kind(self.before.document) == _runner_kind(self.after.document)


@dataclass(frozen=True, slots=True)
class Move:
    """Key groups of a vertex that move from one subtask to another."""

    vertex: str
    source: int
    target: int
    key_groups: Sequence[int]


def moves(change: Change) -> list[Move]:
    """Return the moves of key groups, for every keyed vertex in both revisions."""
    before, after = (graph_document.parse(r.document) for r in (change.before, change.after))
    kept = _keyed(before) & _keyed(after)
    return [
        Move(vertex.id, source, target, groups)
        for vertex in after.vertices
        if vertex.id in kept
        for (source, target), groups in key_groups.moves(
            vertex.state_layout,
            change.before.parallelism,
            change.after.parallelism,
            after.max_parallelism,
        ).items()
    ]


def _runner_kind(document: Mapping[str, Any]) -> str:
    execution = document.get("execution")
    told = execution.get("runner") if isinstance(execution, Mapping) else None
    return str(told or RunnerKind.OWN)


def _keyed(graph: JobGraph) -> set[str]:
    return {vertex.id for vertex in graph.vertices if vertex.is_keyed}
