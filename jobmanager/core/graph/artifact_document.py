"""The fields of vertices whose code is a user's PySpark."""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from jobmanager.core.artifact import is_id
from jobmanager.core.graph.artifact_vertices import (
    SINGLE,
    Script,
    ScriptOutput,
    Spark,
    StatefulScript,
    StatefulSpark,
    StateKind,
)
from jobmanager.core.graph.document_fields import Fields
from jobmanager.core.graph.inputs import Input
from jobmanager.core.ids import VertexId

if TYPE_CHECKING:
    from jobmanager.core.graph.job_graph import Mode

_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def _spark(
    fields: Fields, vertex_id: VertexId, inputs: tuple[Input, ...], mode: "Mode"
) -> Spark | Script:
    function = fields.text("function")
    if function and not _REFERENCE.fullmatch(function):
        fields.fault("function", f"{function!r} is not of the form module:name")
    output, state = fields.text("output"), _state(fields)
    kind = StatefulSpark if state and mode == "streaming" else Spark
    return kind(vertex_id, inputs, function, output, state)


def _script(
    fields: Fields, vertex_id: VertexId, inputs: tuple[Input, ...], mode: "Mode"
) -> Spark | Script:
    if mode != "streaming":
        fields.fault("op", "a script's queries are streams: leave mode out")
    script = fields.text("script")
    if script and not is_id(script):
        fields.fault("script", f"{script!r} is not the id of an artifact")
    arguments = fields.raw("arguments") or []
    if not isinstance(arguments, list) or not all(isinstance(one, str) for one in arguments):
        fields.fault("arguments", f"{arguments!r} is not a list of texts")
        arguments = []
    state = _state(fields)
    interval = None
    if fields.has("batch_interval"):
        interval = fields.duration("batch_interval", zero=True)
    return (StatefulScript if state else Script)(
        vertex_id,
        inputs,
        script,
        fields.text("query"),
        tuple(arguments),
        fields.choice("output_mode", ScriptOutput, ScriptOutput.APPEND),
        interval,
        fields.raw("available_now") is True,
        state,
    )


def _state(fields: Fields) -> tuple[StateKind, ...]:
    value = fields.raw("state")
    listed = value if isinstance(value, list) else [] if value is None else [value]
    known = [one for one in listed if one in set(StateKind)]
    for one in listed:
        if one not in known:
            fields.fault("state", f"{one!r} is not one of {', '.join(StateKind)}")
    state = tuple(StateKind(one) for one in known)
    if SINGLE.intersection(state) and not SINGLE.issuperset(state):
        fields.fault(
            "state",
            f"{' and '.join(state)}: state of one partition and state of many cannot be in one "
            "vertex, divide it",
        )
    return state


READERS: Mapping[str, Callable[[Fields, VertexId, tuple[Input, ...], "Mode"], Spark | Script]] = {
    "spark": _spark,
    "script": _script,
}
