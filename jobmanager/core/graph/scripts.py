"""The operator `script`: one query of a script, everything from its sources to its sink."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from jobmanager.core.artifact import is_id
from jobmanager.core.graph.document_fields import Fields
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.operator_entry import Arity, Header, Operator
from jobmanager.core.graph.output_mode import OutputMode
from jobmanager.core.graph.state_kinds import StateKind, layout_of_kinds, read_state
from jobmanager.core.graph.state_layout import Layout
from jobmanager.core.graph.vertex import Vertex


@dataclass(frozen=True, slots=True)
class Script(Vertex):
    """A query of a script. Its inputs are its sources, in Spark's order."""

    op: ClassVar[str] = "script"
    script: str
    """The artifact that is the script."""
    query: str
    """The query's name in the script, or q1, q2… in the order in which the queries are started."""
    arguments: tuple[str, ...] = ()
    output_mode: OutputMode = OutputMode.APPEND
    batch_interval: timedelta | None = None
    """None: a batch starts as soon as there is input."""
    available_now: bool = False
    """The query reads the input that exists when it starts, and ends."""
    state: tuple[StateKind, ...] = ()

    def real_time_faults(self) -> Iterator[tuple[str, str]]:
        yield "op", "a script starts its queries with triggers of its own: leave execution out"

    @property
    def is_keyed(self) -> bool:
        return bool(self.state)

    @property
    def state_layout(self) -> Layout:
        return layout_of_kinds(self.state)

    @property
    def spark_state_operators(self) -> int:
        return len(self.state)

    @property
    def waits_for_time(self) -> bool:
        return bool(self.state)

    @property
    def required_output_mode(self) -> OutputMode | None:
        return self.output_mode


def _read(fields: Fields, header: Header) -> Script:
    if header.mode is not Mode.STREAMING:
        fields.fault("op", "a script's queries are streams: leave mode out")
    script = fields.text("script")
    if script and not is_id(script):
        fields.fault("script", f"{script!r} is not the id of an artifact")
    arguments = fields.raw("arguments") or []
    if not isinstance(arguments, list) or not all(isinstance(one, str) for one in arguments):
        fields.fault("arguments", f"{arguments!r} is not a list of texts")
        arguments = []
    state = read_state(fields)
    interval = None
    if fields.has("batch_interval"):
        interval = fields.duration("batch_interval", zero=True)
    return Script(
        header.id,
        header.inputs,
        script,
        fields.text("query"),
        tuple(arguments),
        fields.choice("output_mode", OutputMode, OutputMode.APPEND),
        interval,
        fields.raw("available_now") is True,
        state,
    )


OPERATORS = (Operator("script", _read, Arity.SOME),)
