"""From the documents of process, reduce, cogroup and python to the vertices.

Of a function only the form of its name is read here; whether there is one is for whoever has
the job's artifacts.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from jobmanager.core.graph import spark_ddl
from jobmanager.core.graph.clocks import Clock
from jobmanager.core.graph.document_fields import Faults, Fields
from jobmanager.core.graph.inputs import Input
from jobmanager.core.graph.python_vertices import Cogroup, KeyedReduce, Process, Python
from jobmanager.core.ids import VertexId

if TYPE_CHECKING:
    from jobmanager.core.graph.job_graph import Mode, Source, Vertex

KEYED_OPS = ("process", "reduce", "cogroup")
_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_SIDES = ("left", "right")


def function_of(fields: Fields) -> str:
    """The reference in `function`."""
    text = fields.text("function")
    if text and not _REFERENCE.fullmatch(text):
        fields.fault("function", f"{text!r} is not of the form module:name")
    return text


def output_of(fields: Fields) -> str:
    """The columns in `output`, as Spark DDL."""
    text = fields.text("output")
    if text:
        try:
            spark_ddl.column_names(text)
        except spark_ddl.InvalidDdl as error:
            fields.fault("output", f"{text!r} is not a schema: {error}")
    return text


def settle_time(vertex: Process, sources: Sequence["Source"], faults: Faults) -> Process:
    """With its time column, which is the one that the sources have a watermark on."""
    if vertex.time is not Clock.EVENT:
        return vertex
    columns = sorted({one.watermark.column for one in sources if one.watermark})
    for source in sources:
        if source.watermark is None:
            faults.add(
                source.id,
                "watermark",
                f"missing: {vertex.id!r} has time: event, so every source behind it needs one",
            )
    if len(columns) > 1:
        faults.add(
            vertex.id,
            "time",
            f"the sources have watermarks on {', '.join(columns)}: rename the columns to one",
        )
    return replace(vertex, time_column=columns[0]) if columns else vertex


def _process(
    fields: Fields, vertex_id: VertexId, inputs: tuple[Input, ...], mode: "Mode"
) -> "Vertex":
    return Process(
        vertex_id,
        inputs,
        fields.names("key"),
        function_of(fields),
        output_of(fields),
        fields.choice("time", Clock, Clock.NONE),
    )


def _reduce(
    fields: Fields, vertex_id: VertexId, inputs: tuple[Input, ...], mode: "Mode"
) -> "Vertex":
    return KeyedReduce(vertex_id, inputs, fields.names("key"), function_of(fields))


def _cogroup(
    fields: Fields, vertex_id: VertexId, inputs: tuple[Input, ...], mode: "Mode"
) -> "Vertex":
    key = fields.names("key", required=True)
    if fields.has("key") and not key:
        fields.fault("key", "a cogroup needs at least one column")
    if str(mode) == "streaming":
        fields.fault(
            "op",
            "a cogroup needs all rows of a key, and a stream never has them: set mode: batch, or "
            "take a join with `within`, or a union and a process function that keeps both sides",
        )
    return Cogroup(vertex_id, _sides(fields, inputs), key, function_of(fields), output_of(fields))


def _python(
    fields: Fields, vertex_id: VertexId, inputs: tuple[Input, ...], mode: "Mode"
) -> "Vertex":
    return Python(vertex_id, inputs, function_of(fields), output_of(fields))


def _sides(fields: Fields, inputs: tuple[Input, ...]) -> tuple[Input, ...]:
    """The inputs, the left one first."""
    by_id = {one.vertex: one for one in inputs}
    if len(inputs) != 2 or len(by_id) != 2:
        fields.raw("left"), fields.raw("right")
        if inputs:
            fields.fault("inputs", f"a cogroup has two inputs, not {len(inputs)}")
        return inputs
    names = list(by_id)
    left, right = (
        VertexId(fields.text(side, name)) for side, name in zip(_SIDES, names, strict=True)
    )
    for side, name in zip(_SIDES, (left, right), strict=True):
        if name not in by_id:
            fields.fault(side, f"{name!r} is not an input: take one of {', '.join(names)}")
            return inputs
    if left == right:
        fields.fault("right", f"both sides are {left!r}: name the other input")
        return inputs
    return by_id[left], by_id[right]


Reader = Callable[[Fields, VertexId, tuple[Input, ...], "Mode"], "Vertex"]
READERS: Mapping[str, Reader] = {
    "process": _process,
    "reduce": _reduce,
    "cogroup": _cogroup,
    "python": _python,
}
