"""What has to be done so that a server runs the jobs that files describe. Pure.

    no live job of that name    create it
    another parallelism         rescale it
    another graph               upgrade it, if the plan of the upgrade allows it
    the same                    nothing

A job that was stopped, cancelled or failed has state that a new job could go on with. Whether it
shall is the user's choice, because neither is right for everybody: `restore` or `fresh`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobmanager.client.errors import AmbiguousJob, HeadgateError
from jobmanager.core.snapshots.upgrade import FieldChange, differences


@dataclass(frozen=True)
class DescribedJob:
    """A job as a file describes it."""

    file: str
    graph: Mapping[str, Any]
    """Its artifacts are ids, where these are known."""

    @property
    def name(self) -> str:
        return str(self.graph.get("name"))

    @property
    def parallelism(self) -> int | None:
        found = self.graph.get("parallelism")
        return found if isinstance(found, int) else None


@dataclass(frozen=True)
class PresentJob:
    """A live job of that name on the server."""

    id: str
    graph: Mapping[str, Any]
    parallelism: int
    """The one in force."""


@dataclass(frozen=True)
class PastJob:
    """The newest job of that name, which has ended."""

    id: str
    state: str
    graph: Mapping[str, Any]
    ran_to_its_end: bool
    """Whether its input ended, as of a batch job; not if it was stopped."""
    savepoint: str | None = None
    checkpoint: str | None = None
    """<job id>:<number>. At most one of the two is given: the newer."""


@dataclass(frozen=True)
class CreateJob:
    savepoint: str | None = None
    checkpoint: str | None = None


@dataclass(frozen=True)
class RescaleJob:
    job_id: str
    before: int
    after: int


@dataclass(frozen=True)
class UpgradeJob:
    job_id: str
    changes: Sequence[FieldChange]
    parallelism: int | None


@dataclass(frozen=True)
class LeaveJob:
    job_id: str
    why: str = "unchanged"


JobStep = CreateJob | RescaleJob | UpgradeJob | LeaveJob


@dataclass(frozen=True)
class ApplyChoices:
    restore: bool = False
    fresh: bool = False
    keep_parallelism: bool = False


def decide(
    wanted: DescribedJob,
    present: Sequence[PresentJob],
    past: PastJob | None,
    choices: ApplyChoices,
) -> JobStep:
    """Return what has to be done. Raises `HeadgateError` if that cannot be known."""
    if len(present) > 1:
        ids = ", ".join(one.id[:12] for one in present)
        raise AmbiguousJob(
            f"{wanted.file}: {len(present)} live jobs are called {wanted.name!r} ({ids}): "
            "cancel all but one, or rename them"
        )
    if present:
        return _change(wanted, present[0], choices)
    return _start(wanted, past, choices)


def _change(wanted: DescribedJob, job: PresentJob, choices: ApplyChoices) -> JobStep:
    changes = [
        one
        for one in differences(job.graph, wanted.graph)
        if (one.vertex, one.field) != (None, "parallelism")
    ]
    asked = None if choices.keep_parallelism else wanted.parallelism
    if changes:
        return UpgradeJob(job.id, changes, asked or job.parallelism)
    if asked is not None and asked != job.parallelism:
        return RescaleJob(job.id, job.parallelism, asked)
    return LeaveJob(job.id)


def _start(wanted: DescribedJob, past: PastJob | None, choices: ApplyChoices) -> JobStep:
    if past is None or choices.fresh:
        return CreateJob()
    if past.ran_to_its_end and not choices.restore:
        if any(differences(past.graph, wanted.graph)):
            return CreateJob()
        return LeaveJob(past.id, "it has run to its end: --fresh runs it again")
    if not past.savepoint and not past.checkpoint:
        return CreateJob()
    if choices.restore:
        return CreateJob(past.savepoint, past.checkpoint)
    state = f"savepoint {past.savepoint}" if past.savepoint else f"checkpoint {past.checkpoint}"
    raise HeadgateError(
        f"{wanted.file}: the last job called {wanted.name!r} is {past.state} and has {state}: "
        "--restore starts from there, --fresh starts without state"
    )


def are_comparable(graph: Mapping[str, Any]) -> bool:
    """Whether the vertices have ids; if not, the server says what is wrong with the graph."""
    vertices = graph.get("vertices")
    return isinstance(vertices, list) and all(
        isinstance(one, Mapping) and "id" in one for one in vertices
    )
