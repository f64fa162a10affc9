"""Which jobs may share a process (`execution: {runner: shared}`), and in which process each runs.

A shared process runs many small jobs at the same time: one JVM, one Python driver, and for each job
a Spark session, a pool of the scheduler, an attempt and a runner of its own. What belongs to the
process and not to a session cannot be a job's own: users' code and its imports, settings that Spark
keeps until its JVM ends, jars. So a job that needs such a thing has a process of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from jobmanager.core.access.graph_rules import code_in
from jobmanager.core.errors import Fault
from jobmanager.core.graph.connector_requirements import requirements
from jobmanager.core.graph.graph_document import STATE_SETTINGS
from jobmanager.core.graph.job_graph import JobGraph, Mode
from jobmanager.core.runner_reuse import can_be_cleaned, static_settings

MOST_SERVED = 20
"""A process takes no further jobs after this many times the number that it runs at once: a few
kilobytes of each job stay in its JVM.
"""
_FIELD = "execution.runner"
_INSTEAD = f"give it a runner of its own ({_FIELD}: own)"


@dataclass(frozen=True, slots=True)
class Sharing:
    """What a server offers to jobs that share a process."""

    jobs: int
    """How many run in a process at the same time; 0: the server has no shared processes."""
    spark_master: str

    @property
    def obstacle(self) -> str | None:
        """Why jobs cannot share a process on this server; None: they can."""
        if self.jobs == 0:
            return "this server has no shared processes (headgate serve --shared-jobs)"
        if not can_be_cleaned(self.spark_master):
            return (
                "jobs share a process only where Spark runs inside of it, with a master local[n]: "
                f"this server's master is {self.spark_master}"
            )
        return None


def faults(
    document: Mapping[str, Any], graph: JobGraph, sharing: Sharing | None = None
) -> list[Fault]:
    """Return every reason why the job cannot share a process; none if it does not ask for that.
    `sharing` is what the server offers; None: that is not looked at.
    """
    if not graph.execution.is_shared:
        return []
    return [*_of_server(sharing), *_of_graph(document, graph)]


def _of_server(sharing: Sharing | None) -> Iterator[Fault]:
    if sharing is not None and sharing.obstacle is not None:
        yield Fault(None, _FIELD, f"{sharing.obstacle}: {_INSTEAD}")


def _of_graph(document: Mapping[str, Any], graph: JobGraph) -> Iterator[Fault]:
    if graph.mode is Mode.BATCH:
        yield Fault(None, _FIELD, f"a batch job would take all slots of the others: {_INSTEAD}")
    if graph.execution.is_real_time:
        why = f"a real_time job keeps its slots for ever, and the others need them: {_INSTEAD}"
        yield Fault(None, _FIELD, why)
    static = static_settings(graph)
    for name in static:
        why = f"{name} can be set only when Spark starts, for all jobs of a process: {_INSTEAD}"
        yield Fault(None, "spark", why)
    once = [name for name in graph.spark if name in _READ_ONCE]
    for name in once:
        yield Fault(None, "spark", f"{name} is one setting for all jobs of a process: {_INSTEAD}")
    for vertex, package in requirements(graph):
        why = f"its jars ({package}) would be in the JVM of all jobs of a process: {_INSTEAD}"
        yield Fault(vertex, "connector", why)
    for found in code_in(document, graph):
        if found.setting not in (*static, *once):
            why = f"{found.why}, and code cannot be kept apart in one process: {_INSTEAD}"
            yield Fault(found.vertex, found.field, why)


_READ_ONCE = frozenset(name for name in STATE_SETTINGS if ".rocksdb." in name)
"""Settings of state that a JVM reads once."""


@dataclass(frozen=True, slots=True)
class SharedRoom:
    """A shared process, and how much room there is in it."""

    id: UUID
    jobs: int
    """How many run in it, or are about to."""
    served: int
    """How many it was given in all."""
    is_open: bool = True
    """Whether it takes further jobs: it lives, and does not end."""


def place(rooms: Sequence[SharedRoom], most: int) -> UUID | None:
    """Return the process that the next job goes to; None: a new process is needed. The fullest
    process that has room: so the emptier ones can become empty, and end.
    """
    fitting = [
        one for one in rooms if one.is_open and one.jobs < most and one.served < MOST_SERVED * most
    ]
    return max(fitting, key=lambda one: (one.jobs, one.id.int)).id if fitting else None
