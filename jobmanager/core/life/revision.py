"""Makes the new revision of a job for a rescale or an upgrade; raises if it is not valid."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobmanager.core.errors import Fault, InvalidJobGraph, NothingToChange, UnsupportedRequest
from jobmanager.core.graph import graph_document
from jobmanager.core.life.change import Revision
from jobmanager.core.life.records import StoredJob


@dataclass(frozen=True, slots=True)
class WantedRevision:
    """What a client asks for in an upgrade."""

    document: Mapping[str, Any]
    parallelism: int | None = None
    """None: the graph's own."""
    allow_non_restored_state: bool = False


def revision_of(job: StoredJob) -> Revision:
    return Revision(job.revision, job.document, job.parallelism)


def rescaled(job: StoredJob, parallelism: int) -> Revision:
    """Return a revision with the same graph at another parallelism."""
    if fault := graph_document.parallelism_fault(parallelism, job.graph.max_parallelism):
        raise InvalidJobGraph([Fault(None, "parallelism", fault)])
    if parallelism == job.parallelism:
        raise NothingToChange(f"job {job.id.hex} already has parallelism {parallelism}")
    return Revision(job.revision, job.document, parallelism)


def upgraded(job: StoredJob, wanted: WantedRevision) -> Revision:
    graph = graph_document.parse(wanted.document)
    parallelism = wanted.parallelism or graph.parallelism
    if fault := graph_document.parallelism_fault(parallelism, graph.max_parallelism):
        raise InvalidJobGraph([Fault(None, "parallelism", fault)])
    if graph.mode is not job.graph.mode:
        raise UnsupportedRequest(
            f"the job is {job.graph.mode} and the graph {graph.mode}: submit it as another job"
        )
    return Revision(job.revision + 1, wanted.document, parallelism)
