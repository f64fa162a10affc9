"""How Kafka sources and sinks of format avro are read from a document."""

import json
from typing import Any

import pytest

from jobmanager.core.graph.connector_requirements import required_packages
from jobmanager.core.ids import VertexId
from tests.unit.core.graph.test_kafka_document import a_graph, faults, sink_of, source_of

AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Bid",
    "fields": [
        {"name": "auction", "type": "long"},
        {"name": "price", "type": ["null", "long"], "default": None},
    ],
}


@pytest.mark.parametrize("schema", [AVRO, json.dumps(AVRO)], ids=["a mapping", "JSON"])
def test_the_columns_of_a_source_are_the_fields_of_its_schema(schema: Any) -> None:
    graph = a_graph({"format": "avro", "schema": schema, "metadata": ["offset"]})

    columns = graph.vertex(VertexId("bids")).columns_out(())
    assert columns == ("auction", "price", "offset")


def test_a_job_with_avro_needs_the_package_avro() -> None:
    assert required_packages(a_graph()) == {"kafka"}
    assert required_packages(a_graph({"format": "avro", "schema": AVRO})) == {"kafka", "avro"}
    assert required_packages(a_graph(sink={"format": "avro", "schema": AVRO})) == {"kafka", "avro"}


@pytest.mark.parametrize(
    "schema",
    [None, "auction BIGINT", {"type": "record", "name": "Bid"}, 7],
)
def test_a_schema_that_is_missing_or_no_avro_is_a_fault(schema: Any) -> None:
    assert ("bids", "schema") in faults({"format": "avro", "schema": schema})
    assert ("out", "schema") in faults(sink={"format": "avro", "schema": schema})


def test_a_schema_of_a_sink_is_for_avro_alone() -> None:
    assert ("out", "schema") in faults(sink={"schema": AVRO})


def test_a_metadata_column_cannot_have_the_name_of_a_field() -> None:
    field = {"name": "offset", "type": "long"}
    schema = {**AVRO, "fields": [*AVRO["fields"], field]}
    assert ("bids", "metadata") in faults(
        {"format": "avro", "schema": schema, "metadata": ["offset"]}
    )


def test_columns_that_do_not_fit_the_schema_of_a_sink_are_faults() -> None:
    narrow = {**AVRO, "fields": AVRO["fields"][:1]}
    wide = {**AVRO, "fields": [*AVRO["fields"], {"name": "bidder", "type": "string"}]}

    assert faults(sink={"format": "avro", "schema": narrow}) == [("out", "schema")]
    assert faults(sink={"format": "avro", "schema": wide}) == [("out", "schema")]


def test_a_field_that_may_be_null_needs_no_column() -> None:
    field = {"name": "bidder", "type": ["null", "string"], "default": None}
    wide = {**AVRO, "fields": [*AVRO["fields"], field]}

    assert sink_of(format="avro", schema=wide).avro is not None


def test_a_key_is_part_of_the_value_only_if_the_schema_has_it() -> None:
    narrow = {**AVRO, "fields": AVRO["fields"][1:]}
    with_key = sink_of(format="avro", schema=AVRO, key="auction")
    without_key = sink_of(format="avro", schema=narrow, key="auction")

    assert with_key.value_columns(("auction", "price")) == ("auction", "price")
    assert without_key.value_columns(("auction", "price")) == ("price",)


def test_other_formats_have_no_avro_schema() -> None:
    assert source_of().avro is None


def an_envelope(*left_out: str) -> dict[str, Any]:
    names = ("op", "before", "after", "ts_ms", "source")
    fields = [{"name": one, "type": ["null", "string"]} for one in names if one not in left_out]
    return {"type": "record", "name": "Envelope", "fields": fields}


@pytest.mark.parametrize(
    ("kind", "schema"),
    [("debezium_json", "id BIGINT, name STRING"), ("debezium_avro", an_envelope())],
)
def test_captured_changes_have_the_columns_of_a_change(kind: str, schema: Any) -> None:
    graph = a_graph({"format": kind, "schema": schema, "metadata": ["offset"]})

    columns = graph.vertex(VertexId("bids")).columns_out(())
    assert columns == ("op", "before", "after", "ts_ms", "source", "offset")


def test_an_avro_schema_that_is_no_envelope_of_debezium_is_a_fault() -> None:
    for schema in (AVRO, an_envelope("op"), an_envelope("source")):
        assert ("bids", "schema") in faults({"format": "debezium_avro", "schema": schema})


def test_captured_changes_are_a_format_of_sources() -> None:
    assert ("out", "format") in faults(sink={"format": "debezium_json"})
    assert ("out", "format") in faults(sink={"format": "debezium_avro", "schema": AVRO})
