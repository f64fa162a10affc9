"""What is in the values of Kafka's records: the formats, and the schemas that they take."""

from collections.abc import Iterator
from enum import StrEnum

from jobmanager.core.graph import avro_schema, json_schema
from jobmanager.core.graph.avro_schema import AvroRecord, InvalidAvroSchema
from jobmanager.core.graph.columns import Columns, missing
from jobmanager.core.graph.connectors.schema_registry import RegistryReference, SchemaType
from jobmanager.core.graph.document_fields import Fields
from jobmanager.core.graph.json_schema import NoColumns


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
    def schema_type(self) -> SchemaType | None:
        """The kind of schemas that a registry has for the format; None: it has none."""
        if self.is_avro:
            return SchemaType.AVRO
        is_json = self in (RecordFormat.JSON, RecordFormat.DEBEZIUM_JSON)
        return SchemaType.JSON if is_json else None

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


def read_avro_schema(
    fields: Fields, kind: RecordFormat, registry: RegistryReference | None
) -> AvroRecord | None:
    """Read the Avro schema, in the field `schema` or of a registry; None: the format is not Avro,
    the registry was not asked yet, or the schema is missing or wrong, and that was noted.
    """
    _check_registry(fields, kind, registry)
    if not kind.is_avro:
        return None
    where, given = "schema", fields.raw("schema")
    if registry is not None and registry.resolved is not None:
        where, given = "registry", registry.resolved.schema
    elif registry is not None and not registry.register:
        return None
    if given is None:
        fields.fault("schema", "missing: the Avro schema of the records is needed")
        return None
    try:
        found = avro_schema.parse(given)
    except InvalidAvroSchema as error:
        fields.fault(where, str(error))
        return None
    if kind.has_changes and (fault := _change_fault(found)):
        fields.fault(where, fault)
    return found


def read_json_columns(fields: Fields, registry: RegistryReference) -> str | None:
    """Read the columns of JSON values: the field `schema`, or what the registry's schema says;
    None: the registry was not asked yet.
    """
    if fields.has("schema"):
        return fields.text("schema")
    if registry.resolved is None:
        return None
    try:
        return json_schema.columns_of(registry.resolved.schema)
    except NoColumns as error:
        fields.fault("schema", f"{error}: name the columns in schema, as Spark DDL")
        return None


def _check_registry(fields: Fields, kind: RecordFormat, registry: RegistryReference | None) -> None:
    if registry is None:
        return
    wanted = kind.schema_type
    if wanted is None:
        fields.fault("registry", f"format {kind} has no schema registry: leave registry out")
        return
    found = registry.resolved
    if found is not None and found.type is not wanted:
        fields.fault(
            "registry",
            f"schema {found.id} of subject {registry.subject!r} is of type {found.type}, and "
            f"format {kind} needs {wanted}",
        )
    if registry.register and not fields.has("schema"):
        fields.fault("schema", "missing: the schema that is to be registered is needed")
    if kind.is_avro and not registry.register and fields.has("schema"):
        fields.fault("schema", "the registry has the schema: leave schema out")


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


def json_column_faults(registry: RegistryReference, columns: Columns) -> Iterator[str]:
    """Why rows with these columns are not as the JSON Schema in the registry says."""
    if registry.resolved is None:
        return
    text = registry.resolved.schema
    for name in json_schema.needed_properties(text):
        if name not in columns:
            yield (
                f"the JSON Schema needs the property {name!r}, and the input has no such column, "
                f"only {', '.join(columns)}"
            )
    allowed = json_schema.allowed_properties(text)
    for name in columns:
        if allowed is not None and name not in allowed:
            yield (
                f"the JSON Schema allows no property {name!r}, only {', '.join(allowed)}: drop the "
                "column in a map before the sink"
            )
