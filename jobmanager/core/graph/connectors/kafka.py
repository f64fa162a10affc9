"""The connector `kafka`: topics that sources read and sinks write."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Self

from jobmanager.core.graph import spark_ddl
from jobmanager.core.graph.avro_schema import AvroRecord
from jobmanager.core.graph.columns import Columns, in_schema, missing, shared
from jobmanager.core.graph.connectors import kafka_fields, record_formats, schema_registry
from jobmanager.core.graph.connectors.files import Visibility
from jobmanager.core.graph.connectors.kafka_fields import StartingPosition, TopicSelection
from jobmanager.core.graph.connectors.record_formats import RecordFormat
from jobmanager.core.graph.connectors.schema_registry import RegistryReference
from jobmanager.core.graph.connectors.sink_connector import SinkConnector
from jobmanager.core.graph.connectors.source_connector import SourceConnector
from jobmanager.core.graph.document_fields import Faults, Fields
from jobmanager.core.graph.inputs import Side

if TYPE_CHECKING:
    from jobmanager.core.graph.graph_view import GraphView
    from jobmanager.core.graph.vertex import Vertex


class Metadata(StrEnum):
    """What a source can add to each row, in a column of this name."""

    TOPIC = "topic"
    PARTITION = "partition"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"
    KEY = "key"
    HEADERS = "headers"


class OnError(StrEnum):
    """What a source does with a record whose value is not as its format and schema say."""

    FAIL = "fail"
    SKIP = "skip"
    SIDE = "side"
    """Other vertices take them, as the side `bad`."""


class Guarantee(StrEnum):
    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once"


class Rewind(StrEnum):
    """What a sink does if a restore goes back behind batches that readers already have."""

    REFUSE = "refuse"
    REPEAT = "repeat"
    """Publish the rows after the restore point a second time."""


@dataclass(frozen=True, slots=True)
class KafkaSource(SourceConnector):
    name: ClassVar[str] = "kafka"
    secret_fields: ClassVar[tuple[str, ...]] = ("registry",)
    servers: tuple[str, ...]
    subscription: TopicSelection
    format: RecordFormat
    starting: StartingPosition
    metadata: tuple[Metadata, ...] = ()
    on_error: OnError = OnError.FAIL
    max_rows_per_batch: int | None = None
    group: str | None = None
    """The consumer group to which offsets are committed after each checkpoint."""
    avro: AvroRecord | None = None
    """The schema of the values, if their format is Avro; None: the registry was not asked yet."""
    registry: RegistryReference | None = None

    @classmethod
    def read(cls, fields: Fields) -> Self:
        subscription = kafka_fields.read_subscription(fields)
        kind = fields.choice("format", RecordFormat)
        registry = schema_registry.read(fields, subscription.subject, is_sink=False)
        return cls(
            kafka_fields.read_servers(fields),
            subscription,
            kind,
            kafka_fields.read_starting(fields, subscription),
            _read_metadata(fields),
            _read_on_error(fields),
            fields.integer("max_rows_per_batch", None, least=1, most=2**53),
            fields.text("group", "") or None,
            record_formats.read_avro_schema(fields, kind, registry),
            registry,
        )

    @property
    def requires(self) -> tuple[str, ...]:
        return ("kafka", *self.format.requires)

    def read_schema(self, fields: Fields) -> str | None:
        if self.format.is_avro:
            return None  # it is not DDL
        if self.format is RecordFormat.JSON and self.registry is not None:
            return record_formats.read_json_columns(fields, self.registry)
        if self.format is not RecordFormat.RAW:
            return fields.text("schema")
        schema = fields.text("schema", "value BINARY")
        try:
            count = len(spark_ddl.column_names(schema))
        except spark_ddl.InvalidDdl:
            return schema  # Spark says what is wrong
        if count != 1:
            fields.fault("schema", f"format raw gives one column, but the schema has {count}")
        return schema

    def columns_out(self, schema: str | None) -> Columns | None:
        decoded = self._decoded_columns(schema)
        return None if decoded is None else (*decoded, *self.metadata)

    def _decoded_columns(self, schema: str | None) -> Columns | None:
        if self.format.has_changes:
            return record_formats.CHANGE_COLUMNS
        if self.format.is_avro:
            return self.avro.names if self.avro else None
        return in_schema(schema) if schema else None

    def places(self) -> Iterator[tuple[str, str]]:
        yield from kafka_fields.places_of(self.servers)
        if self.registry is not None:
            yield from self.registry.places()

    def real_time_faults(self, options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        if self.max_rows_per_batch is not None:
            yield (
                "max_rows_per_batch",
                "records pass at once in real-time mode, and no batch is limited: leave it out",
            )
        for option in options:
            if kafka_fields.plans_batches(option):
                yield (
                    f"options.{option}",
                    "in real-time mode one task reads each partition all the time: leave it out",
                )

    def has_side(self, side: Side) -> bool:
        return side is Side.BAD and self.on_error is OnError.SIDE

    def check(self, vertex: "Vertex", graph: "GraphView", faults: Faults) -> None:
        _check_options(vertex, faults)
        if self.on_error is OnError.SIDE and not graph.is_side_taken(vertex.id, Side.BAD):
            faults.add(
                vertex.id,
                "on_error",
                f"no vertex takes the side: name {{from: {vertex.id}, side: bad}} as an input, or "
                "leave such records out with on_error: skip",
            )
        columns = vertex.columns_out(()) or ()
        for name in shared(self.metadata, columns[: len(columns) - len(self.metadata)]):
            faults.add(
                vertex.id,
                "metadata",
                f"the schema has a column {name!r} too: leave it out of metadata, or name the "
                "column otherwise",
            )

    def code_in(self, options: Mapping[str, str]) -> str | None:
        return kafka_fields.code_in(options)

    def option_fault(self, option: str, value: str) -> str | None:
        return _option_fault(option, value)


@dataclass(frozen=True, slots=True)
class KafkaSink(SinkConnector):
    name: ClassVar[str] = "kafka"
    secret_fields: ClassVar[tuple[str, ...]] = ("registry",)
    servers: tuple[str, ...]
    topic: str
    format: RecordFormat
    key: str | None = None
    """The column that is the records' key, as text."""
    headers: tuple[str, ...] = ()
    """Columns that become headers of the same name, as text, and are not part of the value."""
    promise: Guarantee = Guarantee.AT_LEAST_ONCE
    visibility: Visibility = Visibility.CHECKPOINT
    rewind: Rewind = Rewind.REFUSE
    avro: AvroRecord | None = None
    """The schema of the values, if their format is Avro; None: the registry was not asked yet."""
    registry: RegistryReference | None = None

    @classmethod
    def read(cls, fields: Fields) -> Self:
        kind = record_formats.read_format(fields)
        topic = kafka_fields.read_topic(fields)
        registry = schema_registry.read(fields, f"{topic}-value", is_sink=True)
        promise = fields.choice("guarantee", Guarantee, Guarantee.AT_LEAST_ONCE)
        if promise is Guarantee.AT_LEAST_ONCE:
            for field in ("visibility", "rewind"):
                if fields.has(field):
                    fields.fault(field, f"{field} is for guarantee: exactly_once")
        return cls(
            kafka_fields.read_servers(fields),
            topic,
            kind,
            fields.text("key", "") or None,
            fields.names("headers"),
            promise,
            fields.choice("visibility", Visibility, Visibility.CHECKPOINT),
            fields.choice("rewind", Rewind, Rewind.REFUSE),
            record_formats.read_avro_schema(fields, kind, registry),
            registry,
        )

    @property
    def requires(self) -> tuple[str, ...]:
        return ("kafka", *self.format.requires)

    @property
    def is_exactly_once(self) -> bool:
        return self.promise is Guarantee.EXACTLY_ONCE

    @property
    def guarantee(self) -> str:
        if not self.is_exactly_once:
            return "at least once"
        return "exactly once, for readers with isolation.level read_committed"

    @property
    def is_fenced(self) -> bool:
        return self.is_exactly_once

    @property
    def waits_for_checkpoint(self) -> bool:
        return self.is_exactly_once and self.visibility is Visibility.CHECKPOINT

    def real_time_faults(self, options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        if self.is_exactly_once:
            yield (
                "guarantee",
                (
                    "a transaction publishes a whole batch, and in real-time mode records pass at "
                    "once: take at_least_once"
                ),
            )

    def exclusive_output(self, normal: Callable[[str], str]) -> str | None:
        """The topic's name alone: brokers of one cluster have many addresses."""
        return f"topic {self.topic}" if self.is_exactly_once else None

    @property
    def fault_in_complete_mode(self) -> str | None:
        return (
            "records are added and never replaced, so a topic cannot hold one complete result: "
            "take update, where the newest record of a key counts"
        )

    def places(self) -> Iterator[tuple[str, str]]:
        yield from kafka_fields.places_of(self.servers)
        if self.registry is not None:
            yield from self.registry.places()

    def check(self, vertex: "Vertex", graph: "GraphView", faults: Faults) -> None:
        _check_options(vertex, faults)

    def needed_columns(self) -> Iterator[tuple[str, str]]:
        if self.key is not None:
            yield "key", self.key
        yield from (("headers", column) for column in self.headers)

    def column_faults(self, columns: Columns) -> Iterator[tuple[str, str]]:
        written = self.value_columns(columns)
        if self.format is RecordFormat.RAW and len(written) != 1:
            found = f"{len(written)} ({', '.join(written)})"
            yield (
                "format",
                (
                    f"format raw writes a single column beside key and headers, but the input has "
                    f"{found}: drop or combine columns in a map before the sink"
                ),
            )
        if not written:
            yield "headers", "no column is left for the value: all are headers"
        if self.avro is not None:
            for fault in record_formats.avro_column_faults(self.avro, written):
                yield "schema", fault
        elif self.registry is not None:
            for fault in record_formats.json_column_faults(self.registry, written):
                yield "registry", fault

    def value_columns(self, columns: Columns) -> Columns:
        """The columns that become the value. The key is one of them, except with raw, and with an
        Avro schema that has no such field.
        """
        apart = {one.lower() for one in self.headers}
        if self.key is not None and not self._has_key_in_value(self.key):
            apart.add(self.key.lower())
        return tuple(one for one in columns if one.lower() not in apart)

    def _has_key_in_value(self, key: str) -> bool:
        if self.avro is not None:
            return not missing([key], self.avro.names)
        return self.format is not RecordFormat.RAW

    def code_in(self, options: Mapping[str, str]) -> str | None:
        return kafka_fields.code_in(options)

    def option_fault(self, option: str, value: str) -> str | None:
        return _option_fault(option, value)


def _read_on_error(fields: Fields) -> OnError:
    given = fields.raw("on_error")
    if given is None or given == OnError.FAIL:
        return OnError.FAIL
    if given == OnError.SKIP:
        return OnError.SKIP
    if given != {"side": Side.BAD.value}:
        fields.fault("on_error", f"{given!r} is none of fail, skip and {{side: bad}}")
    return OnError.SIDE


def _read_metadata(fields: Fields) -> tuple[Metadata, ...]:
    found = []
    for name in fields.names("metadata"):
        try:
            found.append(Metadata(name))
        except ValueError:
            fields.fault("metadata", f"{name!r} is not one of {', '.join(Metadata)}")
    return tuple(found)


def _check_options(vertex: "Vertex", faults: Faults) -> None:
    options: Mapping[str, str] = getattr(vertex, "options", {})
    for option in options:
        if fault := kafka_fields.reserved_option_fault(option):
            faults.add(vertex.id, f"options.{option}", fault)


def _option_fault(option: str, value: str) -> str | None:
    if kafka_fields.is_safe(option, value):
        return None
    return (
        f"with {option!r} a Kafka client may load a class or a file, or connect elsewhere: on a "
        "server with allowed paths it is not allowed"
    )


SOURCES = (KafkaSource,)
SINKS = (KafkaSink,)
