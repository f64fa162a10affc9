"""JSON Schemas as columns of Spark, and what has none."""

import json
from typing import Any

import pytest

from jobmanager.core.graph import json_schema, spark_ddl
from jobmanager.core.graph.json_schema import NoColumns


def ddl(**properties: Any) -> str:
    return json_schema.columns_of(json.dumps({"type": "object", "properties": properties}))


def test_properties_are_columns() -> None:
    found = ddl(
        n={"type": "integer"},
        price={"type": ["null", "number"]},
        at={"type": "string", "format": "date-time"},
        day={"oneOf": [{"type": "null"}, {"type": "string"}]},
        tags={"type": "array", "items": {"type": "string"}},
        who={"type": "object", "properties": {"id": {"type": "boolean"}}},
    )

    assert found == (
        "`n` BIGINT, `price` DOUBLE, `at` TIMESTAMP, `day` STRING, `tags` ARRAY<STRING>, "
        "`who` STRUCT<`id`: BOOLEAN>"
    )
    assert spark_ddl.column_names(found) == ["n", "price", "at", "day", "tags", "who"]


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"type": "string"},
        {"type": "object"},
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "properties": {"a": {}}},
        {"type": "object", "properties": {"a": {"type": ["string", "integer"]}}},
        {"type": "object", "properties": {"a": {"type": "array"}}},
        {"type": "object", "properties": {"a": {"type": "null"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/x"}}},
    ],
)
def test_what_says_no_type_has_no_columns(schema: Any) -> None:
    with pytest.raises(NoColumns):
        json_schema.columns_of(json.dumps(schema))
