"""Output modes of a streaming query, as in Spark."""

from enum import StrEnum


class OutputMode(StrEnum):
    """Which rows of a changing result a batch gives to the sink."""

    APPEND = "append"
    """Rows that will never change."""
    UPDATE = "update"
    """Those that changed."""
    COMPLETE = "complete"
    """All of it."""
