"""What is in the values of Kafka's records: the formats, and the schemas that they take."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from jobmanager.core.graph import avro_schema
from jobmanager.core.graph.avro_schema import AvroRecord, InvalidAvroSchema
from jobmanager.core.graph.columns import Columns, missing
from jobmanager.core.graph.document_fields import Fields


class RecordFormat(StrEnum):
    """What is in the value of a record."""

    JSON = "json"
    CSV = "csv"
    RAW = "raw"
    AVRO = "avro"
    DEBEZIUM_JSON = "debezium_json"
    DEBEZIUM_AVRO = "debezium_avro"

    @property
    def requires(self) -> tuple[str, ...]:
        """The connector packages that Spark needs for the format, beside Kafka's own."""
        return ("avro",) if self.is_avro else ()

    @property
    def is_avro(self) -> bool:
        return self in (RecordFormat.AVRO, RecordFormat.DEBEZIUM_AVRO)

    @property
    def has_changes(self) -> bool:
        """Whether the values are changes of rows of a database, as Debezium captures them."""
        return self in (RecordFormat.DEBEZIUM_JSON, RecordFormat.DEBEZIUM_AVRO)


CHANGE_COLUMNS = ("op", "before", "after", "ts_ms", "source")
"""The columns of captured changes."""
CHANGE_SOURCE = (
    "version STRING, connector STRING, name STRING, ts_ms BIGINT, snapshot STRING, db STRING, "
    "schema STRING, `table` STRING, txId STRING, lsn STRING, file STRING, pos STRING"
)
"""The fields of `source` that are taken from JSON, as DDL. Databases differ in the types of their
positions, so these are texts.
"""


def read_format(fields: Fields) -> RecordFormat:
    """Read the field `format` of a sink."""
    found = fields.choice("format", RecordFormat)
    if found.has_changes:
        fields.fault(
            "format",
            f"{found} is a format of sources: a sink writes rows as json, avro, csv or raw",
        )
    return found


def read_avro_schema(fields: Fields, kind: RecordFormat) -> AvroRecord | None:
    """Read the field `schema` as an Avro schema; None: the format is not Avro, or the schema is
    missing or wrong, and that was noted.
    """
    if not kind.is_avro:
        return None
    given: Any = fields.raw("schema")
    if given is None:
        fields.fault("schema", "missing: the Avro schema of the records is needed")
        return None
    try:
        found = avro_schema.parse(given)
    except InvalidAvroSchema as error:
        fields.fault("schema", str(error))
        return None
    if kind.has_changes and (fault := _change_fault(found)):
        fields.fault("schema", fault)
    return found


def _change_fault(schema: AvroRecord) -> str | None:
    """Why an Avro schema is not that of captured changes; None: it is."""
    lacking = [one for one in CHANGE_COLUMNS if one not in schema.names]
    if not lacking:
        return None
    return (
        f"the Avro schema has no field {', '.join(map(repr, lacking))}: debezium_avro takes "
        f"Debezium's envelope, with {', '.join(CHANGE_COLUMNS)}"
    )


def avro_column_faults(schema: AvroRecord, columns: Columns) -> Iterator[str]:
    """Why rows with these columns cannot be written as records of the schema."""
    for name in missing(columns, schema.names):
        yield (
            f"the Avro schema has no field {name!r}, only {', '.join(schema.names)}: drop the "
            "column in a map before the sink, or add the field to the schema"
        )
    needed = [one.name for one in schema.fields if not one.is_nullable]
    for name in missing(needed, columns):
        yield (
            f"the Avro schema needs the field {name!r}, and the input has no such column, only "
            f"{', '.join(columns)}"
        )
