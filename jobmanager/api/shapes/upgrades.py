"""What another graph would do to a running job, and that it was asked for."""

from typing import Any

from jobmanager.api.shapes.shape import Shape
from jobmanager.core.snapshots.fit import Fate
from jobmanager.core.snapshots.upgrade import Verdict


class ChangedField(Shape):
    vertex: str | None
    """Null: of the graph itself."""
    field: str
    """Empty: the whole vertex came or went."""
    before: Any
    after: Any


class VertexState(Shape):
    region: str
    vertex: str | None
    """Null: the offsets of the region."""
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
    """What Spark said to the new graph and a copy of the newest checkpoint; empty: there is no
    checkpoint to try."""


class UpgradeAccepted(Shape):
    operation: str
