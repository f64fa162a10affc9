"""How Kafka sources and sinks are read from a document, with every fault noted."""

import json
from typing import Any

import pytest

from jobmanager.core.errors import InvalidJobGraph
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.connectors import kafka_fields
from jobmanager.core.graph.connectors.kafka import KafkaSink, KafkaSource
from jobmanager.core.graph.inputs import Side
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.graph.sources import Source
from jobmanager.core.ids import VertexId

KAFKA_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SOURCE = {
    "id": "bids",
    "op": "source",
    "connector": "kafka",
    "servers": "one:9092,two:9092",
    "topic": "bids",
    "format": "json",
    "schema": "auction BIGINT, price BIGINT",
}
SINK = {
    "id": "out",
    "op": "sink",
    "inputs": ["bids"],
    "connector": "kafka",
    "servers": ["one:9092"],
    "topic": "out",
    "format": "json",
}


def a_graph(source: dict[str, Any] | None = None, sink: dict[str, Any] | None = None) -> Any:
    vertices = [{**SOURCE, **(source or {})}, {**SINK, **(sink or {})}]
    vertices = [{k: v for k, v in one.items() if v is not None} for one in vertices]
    return graph_document.parse({"name": "kafka", "vertices": vertices})


def source_of(**fields: Any) -> KafkaSource:
    vertex = a_graph(fields).vertex(VertexId("bids"))
    assert isinstance(vertex, Source)
    assert isinstance(vertex.connector, KafkaSource)
    return vertex.connector


def sink_of(**fields: Any) -> KafkaSink:
    vertex = a_graph(sink=fields).vertex(VertexId("out"))
    assert isinstance(vertex, Sink)
    assert isinstance(vertex.connector, KafkaSink)
    return vertex.connector


def faults(source: dict[str, Any] | None = None, sink: dict[str, Any] | None = None) -> list[Any]:
    with pytest.raises(InvalidJobGraph) as refused:
        a_graph(source, sink)
    return [(one.vertex, one.field) for one in refused.value.faults]


def test_a_source_and_a_sink_with_only_what_they_need() -> None:
    source, sink = source_of(), sink_of()

    assert source.servers == ("one:9092", "two:9092")
    assert source.subscription.option == ("subscribe", "bids")
    assert source.starting.options == {"startingOffsets": "earliest"}
    assert sink.guarantee == "at least once"
    assert not sink.is_fenced


@pytest.mark.parametrize(
    ("fields", "option"),
    [
        ({"topic": None, "topics": ["a", "b"]}, ("subscribe", "a,b")),
        ({"topic": None, "pattern": "bids-.*"}, ("subscribePattern", "bids-.*")),
    ],
)
def test_topics_by_name_and_by_pattern(fields: dict[str, Any], option: tuple[str, str]) -> None:
    assert source_of(**fields).subscription.option == option


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"topics": ["b"]}, "topic"),
        ({"topic": None}, "topic"),
        ({"topic": None, "topics": []}, "topics"),
        ({"topic": None, "pattern": "("}, "pattern"),
        ({"topic": "has space"}, "topic"),
        ({"servers": "nowhere"}, "servers"),
        ({"servers": "host:99999"}, "servers"),
        ({"servers": None}, "servers"),
        ({"format": "xml"}, "format"),
        ({"schema": None}, "schema"),
        ({"format": "raw", "schema": "a STRING, b STRING"}, "schema"),
        ({"metadata": ["colour"]}, "metadata"),
        ({"metadata": ["offset"], "schema": "offset BIGINT"}, "metadata"),
        ({"on_error": "shrug"}, "on_error"),
        ({"on_error": {"side": "left"}}, "on_error"),
        ({"on_error": {"side": "bad"}}, "on_error"),  # nobody takes it
        ({"max_rows_per_batch": 0}, "max_rows_per_batch"),
        ({"starting": "yesterday"}, "starting"),
        ({"starting": {"timestamp": "2026-01-31T12:00:00"}}, "starting.timestamp"),
        ({"starting": {"offsets": {"x": 1}}}, "starting.offsets"),
        ({"starting": {"offsets": {"0": "soon"}}}, "starting.offsets"),
        ({"starting": {"offsets": {"other": {"0": 1}}}}, "starting.offsets"),
        ({"options": {"subscribe": "other"}}, "options.subscribe"),
        ({"options": {"kafka.group.id": "mine"}}, "options.kafka.group.id"),
        ({"watermark": {"column": "ts"}}, "watermark.column"),
    ],
)
def test_a_fault_of_a_source_is_noted_at_its_field(fields: dict[str, Any], field: str) -> None:
    assert ("bids", field) in faults(fields)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"topic": None}, "topic"),
        ({"key": "bidder"}, "key"),
        ({"headers": ["bidder"]}, "headers"),
        ({"headers": ["auction", "price"]}, "headers"),
        ({"format": "raw"}, "format"),
        ({"guarantee": "twice"}, "guarantee"),
        ({"visibility": "batch"}, "visibility"),
        ({"rewind": "repeat"}, "rewind"),
        ({"mode": "complete"}, "mode"),
        ({"inputs": ["bids", {"from": "bids", "side": "bad"}]}, "inputs"),
        ({"options": {"kafka.transactional.id": "x"}}, "options.kafka.transactional.id"),
    ],
)
def test_a_fault_of_a_sink_is_noted_at_its_field(fields: dict[str, Any], field: str) -> None:
    assert ("out", field) in faults(sink=fields)


def test_a_start_by_offsets_is_json_for_spark() -> None:
    found = source_of(starting={"offsets": {"0": 5, "1": "latest"}}).starting.options

    assert json.loads(found["startingOffsets"]) == {"bids": {"0": 5, "1": -1}}


@pytest.mark.parametrize("moment", ["2026-01-31T12:00:00Z", 1769860800000])
def test_a_start_by_time_is_in_milliseconds(moment: str | int) -> None:
    found = source_of(starting={"timestamp": moment}).starting.options

    assert found["startingTimestamp"] == "1769860800000"


def test_metadata_become_columns_after_those_of_the_schema() -> None:
    graph = a_graph({"metadata": ["partition", "key"]})

    columns = graph.vertex(VertexId("bids")).columns_out(())
    assert columns == ("auction", "price", "partition", "key")


def test_an_exactly_once_sink_shows_rows_after_their_checkpoint_unless_told() -> None:
    held = sink_of(guarantee="exactly_once")
    at_once = sink_of(guarantee="exactly_once", visibility="batch")

    assert held.is_fenced
    assert held.waits_for_checkpoint
    assert not at_once.waits_for_checkpoint
    assert "read_committed" in held.guarantee


def test_brokers_are_places_that_a_server_can_allow() -> None:
    assert list(source_of().places()) == [
        ("servers", "kafka://one:9092"),
        ("servers", "kafka://two:9092"),
    ]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("kafka.interceptor.classes", "evil.Class"),
        ("Kafka.Interceptor.Classes", "evil.Class"),
        ("kafka.metric.reporters", "evil.Class"),
        ("kafka.sasl.jaas.config", "com.sun.security.auth.module.JndiLoginModule required;"),
        ("kafka.sasl.client.callback.handler.class", "evil.Class"),
        ("kafka.config.providers", "file"),
    ],
)
def test_an_option_that_can_load_a_class_needs_the_role_developer(option: str, value: str) -> None:
    assert option in str(source_of().code_in({option: value}))
    assert source_of().option_fault(option, value) is not None


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("kafka.security.protocol", "SASL_SSL"),
        ("failOnDataLoss", "false"),
        ("timestampFormat", "yyyy"),
        (
            "kafka.sasl.jaas.config",
            f'{KAFKA_LOGIN} required username="me" password="${{secret:kafka}}";',
        ),
    ],
)
def test_usual_options_need_no_role(option: str, value: str) -> None:
    assert source_of().code_in({option: value}) is None
    assert source_of().option_fault(option, value) is None


def test_settings_of_a_client_are_the_options_without_their_prefix() -> None:
    found = kafka_fields.client_settings(
        ["a:1", "b:2"], {"kafka.acks": "all", "minPartitions": "4"}
    )

    assert found == {"bootstrap.servers": "a:1,b:2", "acks": "all"}


def test_records_that_cannot_be_decoded_are_a_side_for_other_vertices() -> None:
    bad = {**SINK, "id": "bad", "inputs": [{"from": "bids", "side": "bad"}], "topic": "bad"}
    vertices = [{**SOURCE, "on_error": {"side": "bad"}}, SINK, bad]

    graph = graph_document.parse({"name": "kafka", "vertices": vertices})

    assert graph.vertex(VertexId("bids")).has_side(Side.BAD)
