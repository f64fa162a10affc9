"""Avro schemas: what passes, what is refused with a reason, and which columns a record has."""

import json
from typing import Any

import pytest

from jobmanager.core.graph import avro_schema
from jobmanager.core.graph.avro_schema import InvalidAvroSchema

BID: dict[str, Any] = {
    "type": "record",
    "name": "Bid",
    "namespace": "shop",
    "fields": [
        {"name": "auction", "type": "long"},
        {"name": "price", "type": ["null", "double"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "bidder",
            "type": {"type": "record", "name": "Person", "fields": [{"name": "n", "type": "int"}]},
        },
        {"name": "seller", "type": "shop.Person"},
        {"name": "buyer", "type": ["null", "Person"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "more", "type": {"type": "map", "values": {"type": "array", "items": "Bid"}}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Md5", "size": 16}},
    ],
}


def a_record(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}


@pytest.mark.parametrize("given", [BID, json.dumps(BID)], ids=["a mapping", "JSON"])
def test_the_fields_of_a_record_are_its_columns(given: Any) -> None:
    found = avro_schema.parse(given)

    assert found.names[:4] == ("auction", "price", "at", "bidder")
    assert [one.name for one in found.fields if one.is_nullable] == ["price", "buyer"]
    assert [one.name for one in found.fields if one.has_default] == ["price"]
    assert json.loads(found.text) == BID


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("{not json", "JSON"),
        ("auction BIGINT", "JSON"),
        ('"string"', "record"),
        (["null", BID], "record"),
        ({"type": "record", "fields": [{"name": "a", "type": "int"}]}, "no name"),
        (a_record(), "without fields"),
        (a_record({"name": "a"}), "'a'"),
        (a_record({"name": "a", "type": "bigint"}), "'bigint'"),
        (a_record({"name": "a", "type": []}), "no types"),
        (a_record({"name": "a", "type": ["null", ["int"]]}), "inside of a union"),
        (a_record({"name": "a b", "type": "int"}), "'a b'"),
        (a_record({"name": "a", "type": "int"}, {"name": "A", "type": "int"}), "twice"),
        (a_record({"name": "a", "type": {"type": "array"}}), r"'a'\[\]"),
        (a_record({"name": "a", "type": {"type": "enum", "name": "E"}}), "symbols"),
        (a_record({"name": "a", "type": {"type": "fixed", "name": "F"}}), "size"),
        (a_record({"name": "a", "type": "Later"}), "'Later'"),
    ],
)
def test_what_is_no_schema_of_a_record_is_refused_with_the_reason(given: Any, reason: str) -> None:
    with pytest.raises(InvalidAvroSchema, match=reason):
        avro_schema.parse(given)


def test_a_field_with_a_default_is_added_for_readers() -> None:
    made = json.loads(avro_schema.parse(BID).with_default("ok", "boolean", True))

    assert made["fields"][:-1] == BID["fields"]
    assert made["fields"][-1] == {"name": "ok", "type": "boolean", "default": True}
