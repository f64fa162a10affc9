"""The values of Kafka's records as rows, and rows as values, without a broker."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from jobmanager.core.graph.connectors.kafka import KafkaSink, KafkaSource
from jobmanager.core.graph.connectors.schema_registry import ResolvedSchema, SchemaType
from jobmanager.core.graph.document_fields import Faults, Fields
from taskrunner.core import kafka_failures
from taskrunner.core.invalid_vertex import VertexRefused
from taskrunner.core.writer_schemas import WriterSchemas
from taskrunner.keyed.windows.spec import SIDE_ROW
from taskrunner.spark.connectors import kafka_records
from taskrunner.spark.run.causes import causes_of
from tests.support.connector_jars import VARIABLE, installed_jars

pytestmark = [
    pytest.mark.skipif(not installed_jars(), reason=f"needs make jars, and {VARIABLE}"),
    pytest.mark.long,
]
RECORDS = "value BINARY, key BINARY, topic STRING, partition INT, offset BIGINT, timestamp DATE"
AVRO = {
    "type": "record",
    "name": "Bid",
    "fields": [
        {"name": "n", "type": ["null", "long"]},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {
            "name": "who",
            "type": [
                "null",
                {"type": "record", "name": "Who", "fields": [{"name": "id", "type": "string"}]},
            ],
        },
    ],
}


def records(spark: SparkSession, values: Sequence[bytes | None]) -> DataFrame:
    rows = [(one, b"k", "bids", 0, offset, None) for offset, one in enumerate(values)]
    return spark.createDataFrame(rows, RECORDS)


def read(
    spark: SparkSession,
    values: Sequence[bytes | None],
    writers: WriterSchemas = WriterSchemas(),  # noqa: B008 (it is immutable)
    **fields: Any,
) -> DataFrame:
    given = {"servers": "a:1", "topic": "bids", **fields}
    faults = Faults()
    reader = Fields(given, faults, "bids")
    source = KafkaSource.read(reader)
    schema = source.read_schema(reader)
    assert faults.found == []
    return kafka_records.decoded(records(spark, values), "bids", source, schema, {}, writers)


def a_sink(**fields: Any) -> KafkaSink:
    faults = Faults()
    sink = KafkaSink.read(Fields({"servers": "a:1", "topic": "out", **fields}, faults, "out"))
    assert faults.found == []
    return sink


def values(rows: DataFrame, **fields: Any) -> list[bytes]:
    made = kafka_records.encoded(rows, "out", a_sink(**fields), {})
    return [bytes(one.value) for one in made.collect()]


def explained(error: Exception) -> str:
    found = kafka_failures.explain(causes_of(error))
    assert found is not None, error
    return found.message


def plain(row: Row) -> Mapping[str, Any]:
    return row.asDict(recursive=True)


def test_avro_rows_come_back_as_they_were_and_other_bytes_are_found(spark: SparkSession) -> None:
    # Given rows with nulls and structs, as Avro
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).replace(tzinfo=None)
    rows = spark.createDataFrame(
        [(1, at, ("a",)), (None, None, None)], "n BIGINT, at TIMESTAMP, who STRUCT<id: STRING>"
    )
    encoded = values(rows, format="avro", schema=AVRO)

    # When they are read between bytes that are no Avro
    skipping = {"format": "avro", "schema": AVRO, "on_error": "skip", "metadata": ["offset"]}
    found = read(spark, [encoded[0], b"{not avro", None, encoded[1]], **skipping)

    # Then the rows are there, also the row of nulls, and nothing else
    assert [plain(one) for one in found.collect()] == [
        {"n": 1, "at": at, "who": {"id": "a"}, "offset": 0},
        {"n": None, "at": None, "who": None, "offset": 3},
    ]
    with pytest.raises(Exception, match=kafka_failures.UNREADABLE) as failed:
        read(spark, [b"{not avro"], format="avro", schema=AVRO).collect()
    assert "offset 0 of partition 0 of topic bids" in explained(failed.value)
    assert b"{not avro".hex().upper() in explained(failed.value)


def test_columns_that_are_not_as_the_avro_schema_says_are_refused(spark: SparkSession) -> None:
    sink = a_sink(format="avro", schema=AVRO)
    right = "n BIGINT, at TIMESTAMP, who STRUCT<id: STRING>"
    kafka_records.check_value(spark.createDataFrame([], right), sink)

    for wrong in ("n STRING", "n BIGINT, who STRUCT<id: BIGINT>", "n BIGINT, other STRING"):
        with pytest.raises(VertexRefused, match="schema"):
            kafka_records.check_value(spark.createDataFrame([], wrong), sink)


def test_a_null_where_the_avro_schema_has_none_is_named(spark: SparkSession) -> None:
    schema = {"type": "record", "name": "Bid", "fields": [{"name": "n", "type": "long"}]}
    with pytest.raises(Exception, match=kafka_failures.NULL_IN_AVRO) as failed:
        values(spark.createDataFrame([(1,), (None,)], "n BIGINT"), format="avro", schema=schema)

    assert "a row has a null in 'n'" in explained(failed.value)


def change(op: str, before: Any = None, after: Any = None, **more: Any) -> dict[str, Any]:
    source = {
        "connector": "postgresql",
        "db": "shop",
        "table": "users",
        "lsn": 77,
        "snapshot": "no",
    }
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 5, **more}


def test_captured_changes_come_with_and_without_their_schema(spark: SparkSession) -> None:
    # Given changes of each kind, some in an envelope, with tombstones between them
    one, other = {"id": 1, "name": "a"}, {"id": 1, "name": "b"}
    envelope = {"schema": {"type": "struct", "fields": []}, "payload": change("u", one, other)}
    sent: list[Any] = [
        change("r", after=one),
        change("c", after=one, transaction=None),
        envelope,
        change("d", before={"id": 1, "name": None}),
    ]
    tombstones = [None, b"null", b'{"schema": null, "payload": null}']
    texts = [*(json.dumps(change).encode() for change in sent), *tombstones]

    # When they are read, then a row is as it was before and after
    asked = {"format": "debezium_json", "schema": "id BIGINT, name STRING", "metadata": ["offset"]}
    found = [plain(row) for row in read(spark, texts, **asked).collect()]
    assert [(row["op"], row["before"], row["after"]) for row in found] == [
        ("r", None, one),
        ("c", None, one),
        ("u", one, other),
        ("d", {"id": 1, "name": None}, None),
    ]
    assert {row["ts_ms"] for row in found} == {5}
    assert [row["offset"] for row in found] == [0, 1, 2, 3]
    assert {(row["source"]["table"], row["source"]["lsn"]) for row in found} == {("users", "77")}


POISON = [
    b"{not json",
    b"[]",
    b"{}",
    b'{"schema": {}, "payload": 7}',
    json.dumps(change("x", after={"id": 1})).encode(),
    json.dumps(change("t")).encode(),
    json.dumps(change("u", before={"id": 1})).encode(),
    json.dumps(change("d", after={"id": 1})).encode(),
    json.dumps(change("c", after={"id": "one"})).encode(),
    json.dumps({"schema": {}, "payload": change("c", after={"id": "one"})}).encode(),
]


def test_what_is_no_change_of_a_row_follows_on_error(spark: SparkSession) -> None:
    asked: dict[str, Any] = {"format": "debezium_json", "schema": "id BIGINT, name STRING"}
    good = json.dumps(change("c", after={"id": 1})).encode()

    skipped = read(spark, [*POISON, good], **asked, on_error="skip", metadata=["offset"])
    assert [row.offset for row in skipped.collect()] == [len(POISON)]
    with pytest.raises(Exception, match=kafka_failures.UNREADABLE) as failed:
        read(spark, [good, POISON[0]], **asked).collect()
    assert "offset 1 of partition 0" in explained(failed.value)
    aside = read(spark, [good, POISON[0]], **asked, on_error={"side": "bad"})
    assert [row.side_row and bytes(row.side_row.value) for row in _sides(aside)] == [
        None,
        POISON[0],
    ]


def _sides(rows: DataFrame) -> list[Row]:
    return rows.withColumnsRenamed({SIDE_ROW: "side_row"}).collect()


def test_captured_changes_in_avro(spark: SparkSession) -> None:
    table = {
        "type": "record",
        "name": "Value",
        "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}],
    }
    fields = [
        {"name": "before", "type": ["null", table], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {
            "name": "source",
            "type": {"type": "record", "name": "S", "fields": [{"name": "db", "type": "string"}]},
        },
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"]},
    ]
    schema = {"type": "record", "name": "Envelope", "namespace": "shop.users", "fields": fields}
    row = "STRUCT<id: BIGINT, name: STRING>"
    changes = spark.createDataFrame(
        [
            (None, (1, "a"), ("shop",), "c", 5),
            ((1, "a"), None, ("shop",), "d", 6),
            (None, None, ("shop",), "u", 7),
        ],
        f"before {row}, after {row}, source STRUCT<db: STRING>, op STRING, ts_ms BIGINT",
    )
    encoded = values(changes, format="avro", schema=schema)

    asked = {"format": "debezium_avro", "schema": schema, "on_error": "skip"}
    found = read(spark, [*encoded, None, b"poison"], **asked)
    assert found.columns == ["op", "before", "after", "ts_ms", "source"]
    assert [(one.op, one.before, one.after) for one in found.collect()] == [
        ("c", None, (1, "a")),
        ("d", (1, "a"), None),
    ]


def test_values_of_a_registry_are_read_with_the_schema_of_their_writer(
    spark: SparkSession,
) -> None:
    # Given values of two versions of a schema, with their ids before them
    older = {"type": "record", "name": "B", "fields": [{"name": "n", "type": "long"}]}
    note = {"name": "note", "type": ["null", "string"], "default": None}
    newer = {**older, "fields": [*older["fields"], note]}
    first = ResolvedSchema(7, 1, SchemaType.AVRO, json.dumps(older))
    second = ResolvedSchema(66051, 2, SchemaType.AVRO, json.dumps(newer), ((7, first.schema),))

    def registry(resolved: ResolvedSchema) -> dict[str, Any]:
        return {"url": "http://registry", "resolved": resolved.document()}

    narrow = spark.createDataFrame([(1,)], "n BIGINT")
    wide = spark.createDataFrame([(2, "x")], "n BIGINT, note STRING")
    sent = [
        *values(narrow, format="avro", registry=registry(first)),
        *values(wide, format="avro", registry=registry(second)),
    ]
    assert [one[:5] for one in sent] == [b"\x00\x00\x00\x00\x07", b"\x00\x00\x01\x02\x03"]

    # When they are read by either version, then every row is there, and poison is not
    poison = [b"", b"\x00\x00\x00", b"\x01" + sent[0][1:], sent[1][:6], None]
    asked = {"format": "avro", "on_error": "skip"}
    both = WriterSchemas().with_submitted(second)
    found = read(spark, [*sent, *poison], writers=both, **asked, registry=registry(second))
    assert [tuple(row) for row in found.collect()] == [(1, None), (2, "x")]
    found = read(spark, [*sent, *poison], writers=both, **asked, registry=registry(first))
    assert [tuple(row) for row in found.collect()] == [(1,), (2,)]

    # And an id that nobody knows fails the query, whatever on_error says
    only_first = WriterSchemas().with_submitted(first)
    unread = read(spark, sent, writers=only_first, **asked, registry=registry(first))
    with pytest.raises(Exception, match=kafka_failures.UNKNOWN_SCHEMA) as failed:
        unread.collect()
    met = kafka_failures.unknown_schema(causes_of(failed.value))
    assert met is not None
    assert (met.vertex, met.offset, met.schema) == ("bids", 1, 66051)
    # unless the registry was asked, and has no such schema
    absent = only_first.met(66051).asked(lambda number: None)
    found = read(spark, sent, writers=absent, **asked, registry=registry(first))
    assert [tuple(row) for row in found.collect()] == [(1,)]


def test_json_of_a_registry_has_its_header(spark: SparkSession) -> None:
    schema = '{"type": "object", "properties": {"n": {"type": "integer"}}}'
    resolved = ResolvedSchema(5, 1, SchemaType.JSON, schema)
    registry = {"url": "http://registry", "resolved": resolved.document()}

    [sent] = values(spark.createDataFrame([(1,)], "n BIGINT"), format="json", registry=registry)
    assert sent == b'\x00\x00\x00\x00\x05{"n":1}'
    asked = {"format": "json", "registry": registry, "on_error": "skip"}
    found = read(spark, [sent, b'{"n":2}', b"\x00\x00\x00\x00\x05{"], **asked)
    assert [tuple(row) for row in found.collect()] == [(1,)]
