"""Savepoint lifecycle.

    IN_PROGRESS ──every subtask acked──▶ COMPLETED ──disposed of──▶ DISPOSED
         └──────its checkpoint aborted─▶ FAILED

A savepoint is asked for and owned by the user: only the user deletes it.
"""

from enum import StrEnum


class SavepointStatus(StrEnum):
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    DISPOSED = "disposed"
