"""What a stranger would put into a savepoint: state that runs a command when it is unpickled."""

import os
import pickle
from collections.abc import Callable
from typing import Any

import pandas as pd

from jobmanager.core.graph.process_functions import Process
from taskrunner.keyed import rows
from taskrunner.keyed.operator import Moment, Outcome
from taskrunner.keyed.vertex_context import VertexContext


class Command:
    """Its pickle is the call of a shell."""

    def __init__(self, marker: str) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.system, (f"touch {self._marker}",)


class StrangersOperator:
    """Stands in for a process function's operator, and keeps the command for every group."""

    def __init__(self, marker: str, subject: VertexContext) -> None:
        self._marker = marker
        self._subject = subject

    def take(self, state: bytes | None, frame: pd.DataFrame | None, moment: Moment) -> Outcome:
        kept = pickle.dumps((1, {("k1",): Command(self._marker)}, {}, {}), protocol=5)
        return Outcome(rows.empty(self._subject.output), kept, None)


def strangers_operator(marker: str, subject: VertexContext, vertex: Process) -> StrangersOperator:
    return StrangersOperator(marker, subject)
