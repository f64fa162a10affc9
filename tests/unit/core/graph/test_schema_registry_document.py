"""The field `registry` of Kafka sources and sinks, before and after the server filled it in."""

import json
from typing import Any

import pytest

from jobmanager.core.errors import InvalidJobGraph
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.connectors.schema_registry import ResolvedSchema, SchemaType
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.schema_pins import (
    registry_changes,
    unresolved,
    with_schemas,
    without_schemas,
)
from jobmanager.core.graph.sources import Source
from jobmanager.core.ids import VertexId
from jobmanager.core.snapshots.upgrade import differences
from tests.unit.core.graph.test_kafka_avro_document import AVRO, an_envelope
from tests.unit.core.graph.test_kafka_document import SINK, SOURCE, sink_of, source_of

REGISTRY = {"url": "http://registry:8081"}
WIDER = {**AVRO, "fields": [*AVRO["fields"], {"name": "note", "type": ["null", "string"]}]}
FIRST = ResolvedSchema(7, 1, SchemaType.AVRO, json.dumps(AVRO))
SECOND = ResolvedSchema(9, 2, SchemaType.AVRO, json.dumps(WIDER), ((7, json.dumps(AVRO)),))
OBJECT = {
    "type": "object",
    "properties": {"auction": {"type": "integer"}, "price": {"type": ["null", "number"]}},
    "required": ["auction"],
    "additionalProperties": False,
}
JSON = ResolvedSchema(3, 1, SchemaType.JSON, json.dumps(OBJECT))


def a_document(
    source: dict[str, Any] | None = None, sink: dict[str, Any] | None = None
) -> dict[str, Any]:
    vertices = [{**SOURCE, **(source or {})}, {**SINK, **(sink or {})}]
    vertices = [{k: v for k, v in one.items() if v is not None} for one in vertices]
    return {"name": "kafka", "vertices": vertices}


def avro_source(**registry: Any) -> dict[str, Any]:
    return {"format": "avro", "schema": None, "registry": {**REGISTRY, **registry}}


def avro_sink(**registry: Any) -> dict[str, Any]:
    return {"format": "avro", "registry": {**REGISTRY, **registry}}


def parsed(document: Any) -> JobGraph:
    return graph_document.parse(document)


def faults_of(document: Any) -> set[tuple[str | None, str]]:
    with pytest.raises(InvalidJobGraph) as refused:
        parsed(document)
    return {(one.vertex, one.field) for one in refused.value.faults}


def columns_of(document: Any) -> Any:
    return parsed(document).vertex(VertexId("bids")).columns_out(())


def test_the_subject_is_that_of_the_topics_values_unless_named() -> None:
    source = source_of(**avro_source())
    sink = sink_of(**avro_sink(subject="mine", version=3))

    assert source.registry is not None
    assert (source.registry.subject, source.registry.version) == ("bids-value", None)
    assert sink.registry is not None
    assert (sink.registry.subject, sink.registry.version) == ("mine", 3)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"url": "registry:8081"}, "registry.url"),
        ({"url": "ftp://registry"}, "registry.url"),
        ({"url": "http://me:secret@registry:8081"}, "registry.url"),
        ({"url": "http://${secret:host}:8081"}, "registry.url"),
        ({"url": "http://registry:8081/x/../y"}, "registry.url"),
        ({"url": None}, "registry.url"),
        ({"subject": "a/b"}, "registry.subject"),
        ({"version": 0}, "registry.version"),
        ({"version": "newest"}, "registry.version"),
        ({"version": 1, "id": 2}, "registry.id"),
        ({"user": "me"}, "registry.user"),
        ({"register": True}, "registry.register"),
        ({"color": "red"}, "registry.color"),
        ({"resolved": {"id": "x"}}, "registry.resolved"),
        ({"resolved": 7}, "registry.resolved"),
        ({"resolved": FIRST.document(), "version": 2}, "registry.resolved"),
        ({"resolved": FIRST.document(), "id": 8}, "registry.resolved"),
    ],
)
def test_a_fault_is_noted_at_its_field(given: dict[str, Any], field: str) -> None:
    assert ("bids", field) in faults_of(a_document(avro_source(**given)))


def test_several_topics_need_a_subject() -> None:
    topics = {"topic": None, "topics": ["a", "b"]}

    assert ("bids", "registry.subject") in faults_of(a_document({**avro_source(), **topics}))
    assert source_of(**avro_source(subject="ab"), **topics).registry is not None


def test_a_registry_is_for_avro_and_json_and_has_the_schema() -> None:
    csv = {"format": "csv", "registry": REGISTRY}
    twice = {**avro_source(), "schema": AVRO}

    assert ("bids", "registry") in faults_of(a_document(csv))
    assert ("bids", "schema") in faults_of(a_document(twice))


def test_a_sink_that_registers_brings_its_schema_and_no_version() -> None:
    without = avro_sink(register=True)
    versioned = {**avro_sink(register=True, version=2), "schema": AVRO}

    assert ("out", "schema") in faults_of(a_document(sink=without))
    assert ("out", "registry.register") in faults_of(a_document(sink=versioned))
    assert sink_of(**avro_sink(register=True), schema=AVRO).avro is not None


def test_a_password_is_a_secret_and_the_address_a_place() -> None:
    given = avro_source(user="me", password="${secret:registry}")
    source = source_of(**given)

    assert list(source.places())[-1] == ("registry.url", "http://registry:8081")


def test_what_the_registry_has_becomes_part_of_the_graph() -> None:
    document = a_document(avro_source(), avro_sink())
    wanted = [(vertex, one.subject) for vertex, _, one in unresolved(parsed(document))]
    assert wanted == [("bids", "bids-value"), ("out", "out-value")]
    assert columns_of(document) is None  # nobody knows yet

    filled = with_schemas(document, {"bids": FIRST, "out": FIRST})

    assert columns_of(filled) == ("auction", "price")
    assert list(unresolved(parsed(filled))) == []
    assert without_schemas(filled) == document
    vertex = parsed(filled).vertex(VertexId("bids"))
    assert isinstance(vertex, Source)
    assert getattr(vertex.connector, "registry").resolved == FIRST  # noqa: B009


def test_a_schema_of_the_registry_is_checked_against_the_graph() -> None:
    envelope = {**avro_source(), "format": "debezium_avro"}
    narrow = ResolvedSchema(
        7, 1, SchemaType.AVRO, json.dumps({**AVRO, "fields": AVRO["fields"][:1]})
    )
    assert faults_of(with_schemas(a_document(avro_source()), {"bids": JSON})) >= {
        ("bids", "registry")
    }
    assert ("bids", "registry") in faults_of(with_schemas(a_document(envelope), {"bids": FIRST}))
    assert ("out", "schema") in faults_of(
        with_schemas(a_document(sink=avro_sink()), {"out": narrow})
    )
    right = ResolvedSchema(1, 1, SchemaType.AVRO, json.dumps(an_envelope()))
    changes = columns_of(with_schemas({**a_document(envelope)}, {"bids": right}))
    assert changes == ("op", "before", "after", "ts_ms", "source")


def test_the_columns_of_json_are_those_of_its_schema_unless_they_are_named() -> None:
    derived = a_document({"schema": None, "registry": REGISTRY})
    named = a_document({"schema": "auction BIGINT, price DOUBLE", "registry": REGISTRY})
    vague = ResolvedSchema(3, 1, SchemaType.JSON, '{"type": "object"}')

    assert columns_of(with_schemas(derived, {"bids": JSON})) == ("auction", "price")
    assert columns_of(with_schemas(named, {"bids": vague})) == ("auction", "price")
    assert ("bids", "schema") in faults_of(with_schemas(derived, {"bids": vague}))


def test_the_columns_of_a_json_sink_are_as_its_schema_allows() -> None:
    lacking = {**OBJECT, "required": ["bidder"]}
    closed = {**OBJECT, "properties": {"auction": {"type": "integer"}}}
    document = a_document(sink={"registry": REGISTRY})

    parsed(with_schemas(document, {"out": JSON}))  # is right
    for schema in (lacking, closed):
        other = ResolvedSchema(4, 1, SchemaType.JSON, json.dumps(schema))
        assert ("out", "registry") in faults_of(with_schemas(document, {"out": other}))


def test_values_begin_with_a_zero_byte_and_the_id() -> None:
    assert FIRST.header == b"\x00\x00\x00\x00\x07"
    assert ResolvedSchema(66051, 1, SchemaType.AVRO, "{}").header == b"\x00\x00\x01\x02\x03"


def test_a_plan_says_which_version_and_which_fields_change() -> None:
    before = {**REGISTRY, "resolved": FIRST.document()}
    after = {**REGISTRY, "resolved": SECOND.document()}

    assert list(registry_changes(before, after)) == [
        ("registry.resolved.version", 1, 2),
        ("registry.resolved.id", 7, 9),
        ("registry.resolved.schema.note", None, ["null", "string"]),
    ]
    document = a_document(avro_source())
    document["vertices"][1] = {
        "id": "out",
        "op": "sink",
        "inputs": ["bids"],
        "connector": "console",
    }
    changed = differences(
        with_schemas(document, {"bids": FIRST}), with_schemas(document, {"bids": SECOND})
    )
    assert [one.field for one in changed][:2] == [
        "registry.resolved.version",
        "registry.resolved.id",
    ]
    assert list(registry_changes(before, {**before, "subject": "x"})) == [
        ("registry.subject", None, "x")
    ]
