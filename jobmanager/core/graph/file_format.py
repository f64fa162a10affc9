"""The formats of files that sources read and sinks write."""

from enum import StrEnum

from jobmanager.core.graph.document_fields import Fields


class FileFormat(StrEnum):
    PARQUET = "parquet"
    JSON = "json"
    CSV = "csv"
    ORC = "orc"
    TEXT = "text"
    AVRO = "avro"

    @property
    def requires(self) -> tuple[str, ...]:
        """The connector packages that Spark needs for the format."""
        return ("avro",) if self is FileFormat.AVRO else ()


def read_format(fields: Fields) -> FileFormat:
    """Read the field `format`."""
    return fields.choice("format", FileFormat)
