"""Why an attempt failed."""

from dataclasses import dataclass
from enum import StrEnum


class FailureKind(StrEnum):
    INVALID_JOB = "invalid_job"
    USER_CODE = "user_code"
    DATA = "data"
    INFRASTRUCTURE = "infrastructure"
    OUT_OF_MEMORY = "out_of_memory"
    LOST = "lost"
    CHECKPOINTS = "checkpoints"
    """More checkpoints in a row failed than the job tolerates."""


@dataclass(frozen=True, slots=True)
class Failure:
    kind: FailureKind
    message: str
    """The root cause, in one line."""
    stack: str = ""
    is_restartable: bool = True
    """False: the next attempt would fail in the same way."""
    region: str | None = None
