"""Vertices whose code is a user's PySpark: a function of frames, or a query of a script.

What state such code keeps only Spark can tell, and the plan must know it before a barrier is
sent. So the graph declares it, and the runner compares that with what Spark has before the
query starts.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from jobmanager.core.graph.inputs import Input
from jobmanager.core.ids import VertexId


class StateKind(StrEnum):
    """One of Spark's stateful operators, as far as the plan has to know it."""

    AGGREGATE = "aggregate"
    """By key: it emits the keys that changed."""
    TOTAL = "total"
    """The same without a key."""
    WINDOW = "window"
    """By window, or another column with a watermark: it emits a group once."""
    DISTINCT = "distinct"
    JOIN = "join"
    """Of two streams."""
    GROUPS = "groups"
    """A function with state for each key."""
    LIMIT = "limit"
    """So many rows, and no more."""


SINGLE = frozenset([StateKind.TOTAL, StateKind.LIMIT])
"""Those that Spark keeps in one partition, whatever the parallelism."""
UPDATING = frozenset([StateKind.AGGREGATE, StateKind.TOTAL])


@dataclass(frozen=True, slots=True)
class Spark:
    """Any PySpark: `(spark, *inputs) -> DataFrame`."""

    id: VertexId
    inputs: tuple[Input, ...]
    function: str
    output: str
    """Spark DDL: the columns that come out."""
    state: tuple[StateKind, ...] = ()
    """Spark's stateful operators in it, from its output backwards."""
    parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class StatefulSpark(Spark):
    """The same with state."""


class ScriptOutput(StrEnum):
    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class Script:
    """One query of a script: everything from its sources to its sink."""

    id: VertexId
    inputs: tuple[Input, ...]
    """Its sources, in the order in which Spark numbers them."""
    script: str
    """The artifact that is the script."""
    query: str
    """The query's name in the script, else q1, q2… in the order in which they are started."""
    arguments: tuple[str, ...] = ()
    output_mode: ScriptOutput = ScriptOutput.APPEND
    batch_interval: timedelta | None = None
    """None: a batch as soon as there is something to do."""
    available_now: bool = False
    """What is there when it starts is read, and the query ends."""
    state: tuple[StateKind, ...] = ()
    parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class StatefulScript(Script):
    """The same with state."""


@dataclass(frozen=True, slots=True)
class ScriptSource:
    """A source that a script reads by itself."""

    description: str


@dataclass(frozen=True, slots=True)
class ScriptSink:
    """What the script itself does with each batch."""

    description: str
