"""Operations: savepoints, stops, rescales and upgrades under way or done."""

from datetime import datetime

from pydantic import ConfigDict, Field

from jobmanager.api.shapes.shape import Shape
from jobmanager.core.life.operation import OperationKind, OperationStatus


class PhaseResponse(Shape):
    name: str
    started_at: datetime
    ended_at: datetime | None
    detail: str | None


class FromTo(Shape):
    model_config = ConfigDict(populate_by_name=True)

    before: int = Field(alias="from")
    after: int = Field(alias="to")


class KeyGroupMove(Shape):
    """Key groups of a vertex that moved to another subtask."""

    model_config = ConfigDict(populate_by_name=True)

    vertex: str
    source: int = Field(alias="from")
    """The subtask that had them."""
    target: int = Field(alias="to")
    """The subtask that has them."""
    key_groups: list[int]


class SavepointMade(Shape):
    """The result of an operation that took a savepoint."""

    savepoint: str
    path: str


class JobChanged(Shape):
    """The result of a rescale or an upgrade."""

    savepoint: str | None
    """Null: only `meta` changed, and the job ran on."""
    path: str | None
    parallelism: FromTo
    graph_revision: FromTo
    key_groups_moved: int
    moves: list[KeyGroupMove]


class OperationResponse(Shape):
    id: str
    job: str
    kind: OperationKind
    status: OperationStatus
    phases: list[PhaseResponse]
    result: JobChanged | SavepointMade | None
    """Null until the savepoint of the operation is complete."""
    error: str | None
    created_at: datetime
    ended_at: datetime | None


class OperationList(Shape):
    items: list[OperationResponse]
    next: str | None
