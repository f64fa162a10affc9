"""What the JobManager asks Spark without a job: reading state, trying another graph."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from jobmanager.core.ids import (
    JobId,
)
from jobmanager.core.life.change import Change
from jobmanager.core.snapshots.upgrade import SparkVerdict
from jobmanager.protocol.inspection import AnswerBody, QuestionBody


class Trials(Protocol):
    """Lets Spark try a graph on a copy of the newest checkpoint."""

    async def judge(self, job_id: JobId, change: Change) -> Sequence[SparkVerdict]: ...


@dataclass(frozen=True, slots=True)
class InspectorStatus:
    state: str
    """stopped, starting or ready."""
    pid: int | None
    spark_version: str | None
    log_path: str


class Inspector(Protocol):
    """Reads state, with a Spark session of its own."""

    async def ask(self, question: QuestionBody, within: timedelta) -> AnswerBody:
        """Return the answer to a question. Raises `InspectorUnavailable` with the reason why there
        is none.
        """
        ...

    def status(self) -> InspectorStatus: ...
