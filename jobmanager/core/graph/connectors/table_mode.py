"""What the rows of a batch do to a table of a database, or to a store of keys and values."""

from enum import StrEnum


class TableMode(StrEnum):
    APPEND = "append"
    UPSERT = "upsert"
    """A row replaces the row of the same key, or is added."""
    DELETE = "delete"
    """A row deletes the rows of the same key."""
