"""The connector `cassandra` on a real node: types, changes, keys and failures."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from taskrunner.core.invalid_vertex import InvalidVertex
from taskrunner.core.store_failures import RowsRefused, RowsWithoutKey
from taskrunner.reports import failure_of
from tests.integration.spark.jobs import JobUnderTest, Row, table
from tests.support.cassandra_server import ADMIN, KEYSPACE, CassandraUnderTest, a_cassandra
from tests.support.certificates import Authority

pytestmark = pytest.mark.long

ORDERS = f"CREATE TABLE {KEYSPACE}.orders (id bigint PRIMARY KEY, k text, v bigint, ts timestamp)"
TEXT = "7f1e2e5c-5a9c-4a83-9c71-0c1f6a9f0d11"


@pytest.fixture(scope="module")
def node() -> Iterator[CassandraUnderTest]:
    with a_cassandra() as running:
        yield running


@pytest.fixture
def cassandra(node: CassandraUnderTest) -> CassandraUnderTest:
    node.empty()
    return node


def rows(*values: tuple[int | None, str, int | None]) -> list[Row]:
    return [{"id": id, "k": k, "v": v, "ts": "2026-01-31T12:00:00Z"} for id, k, v in values]


def copied(
    job: JobUnderTest, cassandra: CassandraUnderTest, found: list[Row], *between: Row, **fields: Any
) -> None:
    """Runs a batch job that writes the rows to the table `orders`."""
    after = between[-1]["id"] if between else "rows"
    out = {"id": "out", "op": "sink", "inputs": [after], "connector": "cassandra"}
    place = {"servers": cassandra.server, "keyspace": KEYSPACE, "table": "orders"}
    job.define(
        table(found), *between, {**out, **place, "key": ["id"], **fields}, mode="batch"
    ).run()


def mapped(**select: str) -> Row:
    return {"id": "shaped", "op": "map", "inputs": ["rows"], "select": select}


def stored(cassandra: CassandraUnderTest) -> list[dict[str, Any]]:
    found = cassandra.done(f"SELECT * FROM {KEYSPACE}.orders")
    return sorted(found, key=lambda row: row["id"])


def test_values_are_stored_by_the_types_of_the_table(
    job: JobUnderTest, cassandra: CassandraUnderTest
) -> None:
    cassandra.done(
        f"CREATE TABLE {KEYSPACE}.orders (id bigint PRIMARY KEY, price decimal, at timestamp, "
        'day date, tags set<text>, steps list<int>, more map<text, bigint>, paid boolean, "Ref" '
        "uuid, bytes blob, ratio double, other text)"
    )
    shape = mapped(
        id="id",
        price="cast(v / 4 as decimal(10,2))",
        at="ts",
        day="to_date(ts)",
        tags="array(k, 'x')",
        steps="array(1, 2)",
        more="map(k, v)",
        paid="v > 1",
        Ref=f"'{TEXT}'",
        bytes="cast(k as binary)",
        ratio="v / 3D",
    )

    copied(job, cassandra, rows((1, "a", 2), (2, "b", None)), shape)

    first, second = stored(cassandra)
    assert first == {
        "id": 1,
        "price": Decimal("0.50"),
        "at": datetime(2026, 1, 31, 12, tzinfo=UTC).replace(tzinfo=None),
        "day": first["day"],
        "tags": {"a", "x"},
        "steps": [1, 2],
        "more": {"a": 2},
        "paid": True,
        "Ref": UUID(TEXT),
        "bytes": b"a",
        "ratio": 2 / 3,
        "other": None,
    }
    assert first["day"].date() == date(2026, 1, 31)
    assert (second["price"], second["paid"], second["ratio"]) == (None, None, None)


def test_a_thousand_rows_are_what_they_were_with_small_requests_too(
    job: JobUnderTest, cassandra: CassandraUnderTest
) -> None:
    cassandra.done(ORDERS)
    many = rows(*((n, f"k{n % 7}", n * n) for n in range(1000)))

    copied(job, cassandra, many, batch_size=37)

    found = {row["id"]: (row["k"], row["v"]) for row in stored(cassandra)}
    assert found == {n: (f"k{n % 7}", n * n) for n in range(1000)}


def test_captured_changes_are_written_in_their_order_and_deletes_delete(
    job: JobUnderTest, cassandra: CassandraUnderTest
) -> None:
    cassandra.done(f"CREATE TABLE {KEYSPACE}.orders (id bigint PRIMARY KEY, at bigint, name text)")
    shape = mapped(id="id", op="k", at="v", name="concat('name ', v)")
    changing = {"op_column": "op", "order_by": ["at"]}
    copied(job, cassandra, rows((1, "c", 0), (2, "c", 0)), shape, **changing)
    changes = rows((1, "c", 1), (1, "d", 2), (2, "d", 3), (2, "u", 4), (3, "c", 1), (3, "u", 2))

    copied(job.successor(), cassandra, changes, shape, **changing)

    assert stored(cassandra) == [
        {"id": 2, "at": 4, "name": "name 4"},
        {"id": 3, "at": 2, "name": "name 2"},
    ]


def test_mode_delete_deletes_and_a_primary_key_may_have_several_columns(
    job: JobUnderTest, cassandra: CassandraUnderTest
) -> None:
    cassandra.done(
        f"CREATE TABLE {KEYSPACE}.orders (k text, id bigint, v bigint, ts timestamp, "
        "PRIMARY KEY ((k), id))"
    )
    both = {"key": ["id", "k"]}
    copied(job, cassandra, rows((1, "a", 1), (2, "a", 2), (2, "b", 3)), **both)
    assert [(row["id"], row["k"], row["v"]) for row in stored(cassandra)] == [
        (1, "a", 1),
        (2, "a", 2),
        (2, "b", 3),
    ]

    copied(job.successor(), cassandra, rows((2, "a", 9), (3, "c", 9)), **both, mode="delete")
    assert [(row["id"], row["k"]) for row in stored(cassandra)] == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (rows((1, "a", 1), (1, "b", 2)), r"2 rows have the key '1' \(id\) and differ"),
        (rows((None, "a", 1)), r"1 rows have a null in the key \(id\)"),
    ],
)
def test_rows_that_do_not_fit_the_key_fail_the_job(
    job: JobUnderTest, cassandra: CassandraUnderTest, found: list[Row], message: str
) -> None:
    cassandra.done(ORDERS)

    with pytest.raises(RowsWithoutKey, match=f"sink out, batch 0: {message}") as failed:
        copied(job, cassandra, found)

    assert failure_of(failed.value).kind == "data"


def test_a_value_that_the_column_refuses_fails_the_job_by_name(
    job: JobUnderTest, cassandra: CassandraUnderTest
) -> None:
    cassandra.done(f"CREATE TABLE {KEYSPACE}.orders (id bigint PRIMARY KEY, k uuid)")

    with pytest.raises(RowsRefused, match="the row with id = 2 has a value that is not") as failed:
        copied(job, cassandra, rows((1, TEXT, 1), (2, "no uuid", 1)), mapped(id="id", k="k"))

    assert failure_of(failed.value).kind == "data"


def test_a_table_that_is_absent_or_has_other_columns_refuses_the_job_at_its_start(
    job: JobUnderTest, cassandra: CassandraUnderTest
) -> None:
    with pytest.raises(InvalidVertex, match=r"there is no table shop\.orders of .*: create the"):
        copied(job, cassandra, rows((1, "a", 1)))
    cassandra.done(f"CREATE TABLE {KEYSPACE}.orders (k text PRIMARY KEY, id int, v bigint)")

    with pytest.raises(InvalidVertex) as refused:
        copied(job.successor(), cassandra, rows((1, "a", 1)))

    for part in (
        "the primary key of the table is (k), and key is (id)",
        "'id' is bigint in the rows and int in the table",
        "no column 'ts'",
    ):
        assert part in str(refused.value)
    assert stored(cassandra) == []


def test_passwords_reach_the_tasks_and_tls_is_spoken(job: JobUnderTest, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "tls")
    with a_cassandra(logins=True, tls=authority) as cassandra:
        cassandra.done(ORDERS)
        login = {"user": ADMIN[0], "password": ADMIN[1]}
        secured = {"tls": True, "ca": str(authority.certificate), **login}
        copied(job, cassandra, rows((1, "a", 1)), **secured, expire="1h")
        [row] = cassandra.done(f"SELECT k, ttl(v) AS left FROM {KEYSPACE}.orders")
    assert row["k"] == "a"
    assert 3000 < row["left"] <= 3600
