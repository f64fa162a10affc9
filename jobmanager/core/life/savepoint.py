"""Savepoint lifecycle.

    IN_PROGRESS ──every subtask acked──▶ COMPLETED ──disposed of──▶ DISPOSED
         └──────its checkpoint aborted─▶ FAILED

A savepoint is asked for and owned by the user: only the user deletes it.
"""

from collections.abc import Mapping
from enum import StrEnum

MOST_LABELS = 64
MOST_LABEL_NAME = 128
MOST_LABEL_VALUE = 1024


class SavepointStatus(StrEnum):
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    DISPOSED = "disposed"


def fault_of_labels(labels: Mapping[str, str]) -> str | None:
    """Return why a savepoint cannot have these labels; None: it can."""
    if len(labels) > MOST_LABELS:
        return f"{len(labels)} labels are too many: {MOST_LABELS} at most; null removes a label"
    for name, value in labels.items():
        if not 1 <= len(name) <= MOST_LABEL_NAME:
            shown = name[:MOST_LABEL_NAME]
            return f"the name of a label has 1 to {MOST_LABEL_NAME} characters, not as {shown!r}"
        if len(value) > MOST_LABEL_VALUE:
            return f"the value of {name!r} has {len(value)} characters: {MOST_LABEL_VALUE} at most"
    return None
