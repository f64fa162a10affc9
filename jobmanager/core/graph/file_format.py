"""The formats of files that sources read and sinks write."""

from enum import StrEnum

from jobmanager.core.graph.document_fields import Fields


class FileFormat(StrEnum):
    PARQUET = "parquet"
    JSON = "json"
    CSV = "csv"
    ORC = "orc"
    TEXT = "text"


_NOT_YET = ("avro",)


def read_format(fields: Fields) -> FileFormat:
    """Read the field `format`."""
    named = fields.raw("format")
    if named in _NOT_YET:
        fields.fault("format", f"format {named!r} is not supported by this version of Headgate yet")
        return FileFormat.PARQUET
    return fields.choice("format", FileFormat)
