"""Savepoint lifecycle.

    IN_PROGRESS ──every subtask acked──▶ COMPLETED ──disposed of──▶ DISPOSED
         └──────its checkpoint aborted─▶ FAILED

Asked for and owned by the user: nothing deletes it but the user.
"""

from enum import StrEnum


class SavepointStatus(StrEnum):
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    DISPOSED = "disposed"


def directory_name(job: str, savepoint: str) -> str:
    """As Flink names them: the beginning of the job, then the savepoint."""
    return f"savepoint-{job[:6]}-{savepoint[:12]}"
