"""Upgrades: what another graph would do to a running job, and the accepted request."""

from datetime import datetime
from typing import Any

from jobmanager.api.shapes.operations import FromTo
from jobmanager.api.shapes.shape import Shape
from jobmanager.core.life.operation import OperationKind
from jobmanager.core.snapshots.fit import Fate
from jobmanager.core.snapshots.upgrade import Verdict


class ChangedField(Shape):
    vertex: str | None
    """Null: the change is in the graph itself."""
    field: str
    """Empty: the whole vertex was added or removed."""
    before: Any
    after: Any


class VertexState(Shape):
    region: str
    vertex: str | None
    """Null: the state is the offsets of the region."""
    fate: Fate


class SparkJudgement(Shape):
    region: str
    accepted: bool
    error: str | None


class PlanResponse(Shape):
    verdict: Verdict
    reasons: list[str]
    changes: list[ChangedField]
    state: list[VertexState]
    spark: list[SparkJudgement]
    """What Spark answered to the new graph with a copy of the newest checkpoint; empty: there is no
    checkpoint to try.
    """
    needs_restart: bool
    """False: only `meta` changes, and the job runs on."""


class UpgradeAccepted(Shape):
    operation: str


class RevisionItem(Shape):
    """What one upgrade or rescale changed."""

    operation: str
    kind: OperationKind
    at: datetime
    revision: FromTo
    parallelism: FromTo
    needs_restart: bool
    """False: only `meta` changed, and the job ran on."""
    changes: list[ChangedField]


class RevisionList(Shape):
    revision: int
    """The present revision, and its parallelism."""
    parallelism: int
    submitted_at: datetime
    items: list[RevisionItem]
    """The newest first."""
