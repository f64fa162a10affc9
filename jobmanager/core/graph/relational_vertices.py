"""Vertices of relational algebra: flat_map, join, distinct, reduce and sql."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from jobmanager.core.graph.inputs import Input
from jobmanager.core.ids import VertexId


class JoinType(StrEnum):
    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    LEFT_SEMI = "left_semi"
    LEFT_ANTI = "left_anti"


OUTER = (JoinType.LEFT, JoinType.RIGHT, JoinType.FULL)
ONLY_LEFT = (JoinType.LEFT_SEMI, JoinType.LEFT_ANTI)
"""Those that give columns of the left side alone."""


class SqlState(StrEnum):
    """What a query keeps in a stream."""

    NONE = "none"
    AGGREGATE = "aggregate"
    """By key: it emits the keys that changed."""
    TOTAL = "total"
    """The same without a key."""
    WINDOW = "window"
    """By window: it emits a window once."""
    JOIN = "join"
    """Of two streams."""


@dataclass(frozen=True, slots=True)
class FlatMap:
    id: VertexId
    inputs: tuple[Input, ...]
    explode: str
    """An expression that gives an array, or a map."""
    names: tuple[str, ...]
    """Of the new column; of a map's key and value."""
    keep: tuple[str, ...] | None
    """None: every column."""
    parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class Join:
    id: VertexId
    inputs: tuple[Input, ...]
    """The left one first."""
    type: JoinType
    on: tuple[str, ...]
    where: str | None
    """A condition instead of `on`."""
    within: timedelta | None
    """How far the two time columns may be apart."""
    static: VertexId | None = None
    """The input that is no stream in a streaming job: read as a whole, anew in each batch."""
    parallelism: int | None = None

    @property
    def left(self) -> VertexId:
        return self.inputs[0].vertex

    @property
    def right(self) -> VertexId:
        return self.inputs[1].vertex

    @property
    def waits(self) -> bool:
        """Rows without a partner come out when the watermark says that none can come."""
        return self.static is None and self.type in OUTER


@dataclass(frozen=True, slots=True)
class Distinct:
    id: VertexId
    inputs: tuple[Input, ...]
    key: tuple[str, ...]
    within: timedelta | None
    """How long a key is remembered, in event time; None: for ever."""
    parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class Reduce:
    id: VertexId
    inputs: tuple[Input, ...]
    key: tuple[str, ...]
    aggregate: Mapping[str, str]
    parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class Sql:
    id: VertexId
    inputs: tuple[Input, ...]
    query: str
    state: SqlState = SqlState.NONE
    static: tuple[VertexId, ...] = ()
    """The inputs that are no streams in a streaming job."""
    parallelism: int | None = None
