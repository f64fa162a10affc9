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
