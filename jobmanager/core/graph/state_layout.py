"""How Spark lays out the keyed state of a vertex over state partitions."""

from enum import StrEnum


class Layout(StrEnum):
    """Where Spark keeps the keyed state of a vertex."""

    HASHED = "hashed"
    """State partition = key group modulo parallelism."""
    SINGLE = "single"
    """No key: one state partition holds everything."""
    GROUPED = "grouped"
    """The key group is itself Spark's key: state partition = its hash modulo parallelism."""
