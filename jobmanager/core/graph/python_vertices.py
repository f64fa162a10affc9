"""Vertices whose work is a user's Python function: process, reduce, cogroup, python."""

from dataclasses import dataclass

from jobmanager.core.graph.clocks import Clock
from jobmanager.core.graph.inputs import Input
from jobmanager.core.ids import VertexId


@dataclass(frozen=True, slots=True)
class Process:
    id: VertexId
    inputs: tuple[Input, ...]
    key: tuple[str, ...]
    function: str
    """`module:Class`."""
    output: str
    """Spark DDL."""
    time: Clock
    time_column: str | None = None
    """The column that the watermark is of; None: the clock is another."""
    parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class KeyedReduce:
    """`reduce` with a function."""

    id: VertexId
    inputs: tuple[Input, ...]
    key: tuple[str, ...]
    function: str
    parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class Cogroup:
    id: VertexId
    inputs: tuple[Input, ...]
    """The left one first."""
    key: tuple[str, ...]
    function: str
    output: str
    parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class Python:
    id: VertexId
    inputs: tuple[Input, ...]
    function: str
    output: str
    parallelism: int | None = None
