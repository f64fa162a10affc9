"""Finds the columns of a frame that carry event time."""

from pyspark.sql import DataFrame

TIME = "headgate.time"
"""Marks the time column in a batch, as Spark does in a stream."""
DELAY = "spark.watermarkDelayMs"
"""Spark's mark of a column with a watermark: how late its rows may be."""


def time_columns(rows: DataFrame) -> list[str]:
    """The columns that carry a watermark; in a batch those that would in a stream."""
    return [one.name for one in rows.schema.fields if DELAY in one.metadata or TIME in one.metadata]


def which_time(times: list[str]) -> str:
    """The fault for a frame that does not have exactly one such column."""
    found = ", ".join(times) or "none"
    return f"one column with a watermark is needed, and there is {found}"
