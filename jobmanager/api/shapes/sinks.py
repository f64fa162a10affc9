"""The newest rows of a sink."""

from typing import Any

from jobmanager.api.shapes.shape import Shape


class SinkColumnResponse(Shape):
    name: str
    type: str
    """In Spark's DDL."""


class SinkRowsResponse(Shape):
    vertex: str
    origin: str
    """What was read: batches, a version of a table, the ends of a topic's partitions."""
    columns: list[SinkColumnResponse]
    """Empty: the job has not written any rows yet."""
    rows: list[dict[str, Any]]
    """Rows of the newest output, in no particular order. Long texts are cut off."""
