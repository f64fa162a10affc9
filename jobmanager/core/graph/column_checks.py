"""Columns that are named and are not there, and names that would come out twice.

Only where the graph itself tells the columns: the rest is found when Spark analyses it.
Names are compared as Spark does, without regard to case.
"""

from collections.abc import Iterable, Iterator, Sequence

from jobmanager.core.graph.columns import Columns, columns_into, known_columns
from jobmanager.core.graph.document_fields import Faults
from jobmanager.core.graph.job_graph import (
    Aggregate,
    FileFormat,
    FilesSink,
    Map,
    Sink,
    Source,
    Union,
    Vertex,
    Window,
)
from jobmanager.core.graph.relational_vertices import ONLY_LEFT, Distinct, FlatMap, Join, Reduce
from jobmanager.core.ids import VertexId


def check(vertices: Sequence[Vertex], faults: Faults) -> None:
    """Notes every fault. The shape is sound."""
    columns = known_columns(vertices)
    for vertex in vertices:
        if isinstance(vertex, Source):
            _check_watermark(vertex, columns[vertex.id], faults)
            continue
        into = [columns_into(one, vertices, columns) for one in vertex.inputs]
        if any(one is None for one in into):
            continue
        known = [one for one in into if one is not None]
        if isinstance(vertex, Join):
            _check_join(vertex, known, faults)
        elif isinstance(vertex, Union):
            _check_union(vertex, known, faults)
        elif known:
            _check_names(vertex, known[0], faults)


def _check_watermark(source: Source, columns: Columns | None, faults: Faults) -> None:
    if source.watermark is None or columns is None:
        return
    for name in _missing([source.watermark.column], columns):
        faults.add(source.id, "watermark.column", _no_column(name, columns))


def _check_names(vertex: Vertex, columns: Columns, faults: Faults) -> None:
    for field, names in _named(vertex):
        for name in _missing(names, columns):
            faults.add(vertex.id, field, _no_column(name, columns))
    if isinstance(vertex, FlatMap) and vertex.keep is None:
        for name in _both(vertex.names, columns):
            message = f"column {name!r} is there already: name it otherwise, or keep others only"
            faults.add(vertex.id, "as", message)
    if isinstance(vertex, Sink):
        _check_text(vertex, columns, faults)


def _named(vertex: Vertex) -> Iterator[tuple[str, Iterable[str]]]:
    """The input's columns that a vertex names, by field."""
    match vertex:
        case Aggregate() | Reduce() | Distinct():
            yield "key", vertex.key
        case Window():
            yield "key", vertex.key
        case FlatMap():
            yield "keep", vertex.keep or ()
        case Map(select=None):
            yield "drop", [name for name in vertex.drop if name not in vertex.add]
        case Sink(connector=FilesSink(partition_by=partition_by)):
            yield "partition_by", partition_by
        case _:
            return


def _check_text(sink: Sink, columns: Columns, faults: Faults) -> None:
    files = sink.connector
    if not isinstance(files, FilesSink) or files.format is not FileFormat.TEXT:
        return
    written = [name for name in columns if name not in files.partition_by]
    if len(written) != 1:
        faults.add(
            sink.id,
            "format",
            f"text has one column, and here come {len(written)} ({', '.join(written)}): "
            "make one text of them in a map",
        )


def _check_union(union: Union, inputs: Sequence[Columns], faults: Faults) -> None:
    first = inputs[0]
    for one, other in zip(union.inputs[1:], inputs[1:], strict=True):
        lacking = [*_missing(first, other), *_missing(other, first)]
        if lacking:
            faults.add(
                union.id,
                "inputs",
                f"{union.inputs[0].vertex!r} and {one.vertex!r} do not both have "
                + ", ".join(lacking),
            )


def _check_join(join: Join, inputs: Sequence[Columns], faults: Faults) -> None:
    left, right = inputs
    for side, columns in ((join.left, left), (join.right, right)):
        for name in _missing(join.on, columns):
            faults.add(join.id, "on", f"of {side!r}: {_no_column(name, columns)}")
    if join.type in ONLY_LEFT:
        return
    rest = [name for name in left if not _both([name], join.on)]
    for name in _both(rest, right):
        faults.add(join.id, "inputs", twice(name, join.left, join.right))


def twice(column: str, left: VertexId, right: VertexId) -> str:
    return f"column {column!r} is in {left!r} and in {right!r}: rename or drop it in a map before"


def _no_column(name: str, columns: Columns) -> str:
    return f"there is no column {name!r}, only {', '.join(columns)}"


def _missing(names: Iterable[str], columns: Iterable[str]) -> list[str]:
    there = {name.lower() for name in columns}
    return [name for name in names if name.lower() not in there]


def _both(names: Iterable[str], columns: Iterable[str]) -> list[str]:
    there = {name.lower() for name in columns}
    return [name for name in names if name.lower() in there]
