"""Queryable state: which states there are, their rows, and their key groups."""

from datetime import datetime
from typing import Any, Literal

from jobmanager.api.shapes.shape import Shape


class SnapshotResponse(Shape):
    """The snapshot that an answer about state was read from."""

    checkpoint: int
    """The number of the checkpoint that was read."""
    savepoint: str | None
    """The id of the savepoint, where a savepoint was read."""
    completed_at: datetime


class ColumnResponse(Shape):
    name: str
    type: str
    """In Spark's DDL."""
    spark_name: str


class StateResponse(Shape):
    region: str
    vertex: str
    name: str
    operator: str
    """Spark's name of the stateful operator."""
    subtasks: int
    key_schema: str
    """Spark DDL."""
    value_schema: str
    """Spark DDL."""
    key: list[ColumnResponse]
    value: list[ColumnResponse]


class StateList(SnapshotResponse):
    items: list[StateResponse]
    next: str | None = None


class RowResponse(Shape):
    checkpoint: int
    key: dict[str, Any]
    value: dict[str, Any]
    key_group: int | None
    """Null: the vertex has no key."""
    subtask: int


class RowPage(SnapshotResponse):
    region: str
    vertex: str
    name: str
    items: list[RowResponse]
    next: str | None


class KeyResponse(RowPage):
    """The rows of a key. Where there is exactly one row, its fields are also at the top level."""

    key: dict[str, Any] | None
    value: dict[str, Any] | None
    key_group: int | None
    subtask: int | None


class KeyGroupResponse(Shape):
    key_group: int | None
    subtask: int
    rows: int
    bytes: int
    """Size of keys and values as Spark serialises them."""


class SkewResponse(Shape):
    """Rows or bytes of the largest group, divided by the mean of all groups including empty groups;
    null: there are no rows.
    """

    rows: float | None
    bytes: float | None


class KeyGroupHistogram(SnapshotResponse):
    region: str
    vertex: str
    name: str
    max_parallelism: int
    groups: list[KeyGroupResponse]
    """The groups that have rows."""
    empty_groups: int
    skew: SkewResponse


class InspectorResponse(Shape):
    """The process that reads state."""

    state: Literal["stopped", "starting", "ready"]
    pid: int | None
    spark_version: str | None
    log: str
    """The path of the log."""
