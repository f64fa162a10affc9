"""What of a changing result a sink is given."""

from enum import StrEnum


class OutputMode(StrEnum):
    """What of a changing result comes out of a batch."""

    APPEND = "append"
    """Rows that will never change."""
    UPDATE = "update"
    """Those that changed."""
    COMPLETE = "complete"
    """All of it."""
