"""Which columns of rows fit a Cassandra table, and how values are given to the driver."""

from uuid import UUID

import pytest

from taskrunner.core.cql_types import CqlColumn, cql_value, fits, table_faults

TABLE = [
    CqlColumn("shop", "text", "partition_key"),
    CqlColumn("id", "bigint", "clustering"),
    CqlColumn("v", "int", "regular"),
    CqlColumn("tags", "frozen<set<text>>", "regular"),
    CqlColumn("clicks", "counter", "regular"),
    CqlColumn("owner", "text", "static"),
]


@pytest.mark.parametrize(
    ("spark", "cql"),
    [
        ("string", "text"),
        ("string", "uuid"),
        ("int", "bigint"),
        ("bigint", "varint"),
        ("float", "double"),
        ("decimal(10,2)", "decimal"),
        ("timestamp", "timestamp"),
        ("binary", "blob"),
        ("array<bigint>", "list<bigint>"),
        ("array<string>", "frozen<set<text>>"),
        ("map<string,array<int>>", "map<text, frozen<list<bigint>>>"),
        ("array<decimal(10,2)>", "list<decimal>"),
        ("map<string,decimal(10,2)>", "map<text, decimal>"),
    ],
)
def test_values_that_always_fit(spark: str, cql: str) -> None:
    assert fits(spark, cql)


@pytest.mark.parametrize(
    ("spark", "cql"),
    [
        ("bigint", "int"),
        ("bigint", "text"),
        ("bigint", "counter"),
        ("double", "float"),
        ("timestamp_ntz", "timestamp"),
        ("struct<a:int>", "text"),
        ("array<bigint>", "list<int>"),
        ("array<bigint>", "bigint"),
        ("map<string,int>", "map<int, int>"),
        ("string", "list<text>"),
    ],
)
def test_values_that_may_not_fit(spark: str, cql: str) -> None:
    assert not fits(spark, cql)


def test_every_fault_of_a_table_is_named_at_once() -> None:
    rows = {
        "shop": "string",
        "id": "bigint",
        "v": "bigint",
        "Tags": "array<string>",
        "clicks": "bigint",
        "owner": "string",
        "more": "string",
    }

    faults = list(table_faults(TABLE, rows, ["shop"], is_delete=False))

    assert [field for field, _ in faults] == ["key", "table", "table", "table", "table", "table"]
    messages = " | ".join(message for _, message in faults)
    for part in (
        "the primary key of the table is (shop, id), and key is (shop)",
        "'v' is bigint in the rows and int in the table: cast it",
        "no column 'Tags', but 'tags', and upper and lower case differ",
        "counters cannot be written by key",
        "'owner' is static",
        "no column 'more'",
    ):
        assert part in messages


def test_rows_that_only_delete_need_the_key_alone() -> None:
    rows = {"shop": "string", "id": "int", "whatever": "string"}

    assert list(table_faults(TABLE, rows, ["id", "shop"], is_delete=True)) == []


def test_values_are_given_as_the_driver_takes_them() -> None:
    text = "7f1e2e5c-5a9c-4a83-9c71-0c1f6a9f0d11"

    assert cql_value(text, "uuid") == UUID(text)
    assert cql_value(None, "uuid") is None
    assert cql_value([("a", [text])], "map<text, frozen<list<uuid>>>") == {"a": [UUID(text)]}
    assert cql_value({"a": 1}, "map<text, int>") == {"a": 1}
    assert cql_value(["x", "y"], "frozen<set<text>>") == ["x", "y"]
    assert cql_value(12, "bigint") == 12
    with pytest.raises(ValueError, match="badly formed"):
        cql_value("no uuid", "uuid")
