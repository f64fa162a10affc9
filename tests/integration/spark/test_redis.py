"""The connector `redis` on a real server: formats, changes, keys and failures."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskrunner.core.store_failures import RowsWithoutKey
from taskrunner.reports import failure_of
from tests.integration.spark.jobs import JobUnderTest, Row, table
from tests.support.redis_server import RedisUnderTest, a_redis, certificates

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def server() -> Iterator[RedisUnderTest]:
    with a_redis() as running:
        yield running


@pytest.fixture
def redis(server: RedisUnderTest) -> RedisUnderTest:
    with server.client() as client:
        client.flushall()
    return server


def rows(*values: tuple[int, str, int | None]) -> list[Row]:
    return [{"id": id, "k": k, "v": v, "ts": "2026-01-31T12:00:00Z"} for id, k, v in values]


def copied(
    job: JobUnderTest, redis: RedisUnderTest, found: list[Row], *between: Row, **fields: Any
) -> None:
    """Runs a batch job that writes the rows under keys `orders:…`."""
    after = between[-1]["id"] if between else "rows"
    out = {"id": "out", "op": "sink", "inputs": [after], "connector": "redis", "url": redis.url}
    sink = {**out, "prefix": "orders:", "key": ["id"], **fields}
    job.define(table(found), *between, sink, mode="batch").run()


def mapped(**select: str) -> Row:
    return {"id": "shaped", "op": "map", "inputs": ["rows"], "select": select}


def stored(redis: RedisUnderTest) -> dict[str, Any]:
    with redis.client() as client:
        return {
            key.removeprefix("orders:"): client.hgetall(key)
            if client.type(key) == "hash"
            else client.get(key)
            for key in client.scan_iter("orders:*")
        }


def test_a_hash_has_a_field_for_each_column_that_is_not_null(
    job: JobUnderTest, redis: RedisUnderTest
) -> None:
    shape = mapped(
        id="id",
        price="cast(v / 4 as decimal(10,2))",
        at="ts",
        tags="array(k, 'x')",
        more="map('k', k)",
        paid="v > 1",
    )

    copied(job, redis, rows((1, "a", 2), (2, "b", None)), shape)

    at = "2026-01-31T12:00:00.000000Z"
    assert stored(redis) == {
        "1": {
            "id": "1",
            "price": "0.50",
            "at": at,
            "tags": '["a","x"]',
            "more": '{"k":"a"}',
            "paid": "true",
        },
        "2": {"id": "2", "at": at, "tags": '["b","x"]', "more": '{"k":"b"}'},
    }


def test_json_has_all_columns_and_keys_of_several_columns_never_meet(
    job: JobUnderTest, redis: RedisUnderTest
) -> None:
    shape = mapped(a="k", b="cast(v as string)", n="id")
    several = rows((1, "x:1", 2), (2, "x", 12), (3, "%3A", 1), (4, ":", 1))

    copied(job, redis, several, shape, key=["a", "b"], format="json")

    found = {key: json.loads(value) for key, value in stored(redis).items()}
    assert {key: value["n"] for key, value in found.items()} == {
        "x%3A1:2": 1,
        "x:12": 2,
        "%253A:1": 3,
        "%3A:1": 4,
    }
    assert found["x:12"] == {"a": "x", "b": "12", "n": 2}


def test_captured_changes_are_written_in_their_order_and_deletes_delete(
    job: JobUnderTest, redis: RedisUnderTest
) -> None:
    copied(job, redis, rows((1, "before", 0), (2, "before", 0)))
    other = job.successor()
    changes = rows((1, "c", 1), (1, "d", 2), (2, "d", 3), (2, "u", 4), (3, "c", 1), (3, "u", 2))
    shape = mapped(id="id", op="k", at="v", name="concat('name ', v)")

    copied(other, redis, changes, shape, op_column="op", order_by=["at"])

    assert stored(redis) == {
        "2": {"id": "2", "at": "4", "name": "name 4"},
        "3": {"id": "3", "at": "2", "name": "name 2"},
    }


def test_a_raw_value_is_the_other_column_and_mode_delete_deletes(
    job: JobUnderTest, redis: RedisUnderTest
) -> None:
    copied(job, redis, rows((1, "a", 1), (2, "b", 1)), mapped(id="id", k="k"), format="raw")
    assert stored(redis) == {"1": "a", "2": "b"}

    other = job.successor()
    copied(other, redis, rows((2, "", 1), (3, "", 1)), mode="delete")
    assert stored(redis) == {"1": "a"}


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (rows((1, "a", 1), (1, "b", 2)), r"2 rows have the key '1' \(id\) and differ"),
        ([{**rows((1, "a", 1))[0], "id": None}], r"1 rows have a null in the key \(id\)"),
    ],
)
def test_rows_that_do_not_fit_the_key_fail_the_job(
    job: JobUnderTest, redis: RedisUnderTest, found: list[Row], message: str
) -> None:
    with pytest.raises(RowsWithoutKey, match=f"sink out, batch 0: {message}") as failed:
        copied(job, redis, found)

    assert failure_of(failed.value).kind == "data"


def test_equal_rows_of_a_key_are_one(job: JobUnderTest, redis: RedisUnderTest) -> None:
    copied(job, redis, rows((1, "a", 1), (1, "a", 1)), mapped(id="id", m="map(k, v)"))

    assert stored(redis) == {"1": {"id": "1", "m": '{"a":1}'}}


def test_passwords_reach_the_tasks_and_tls_is_spoken(job: JobUnderTest, tmp_path: Path) -> None:
    files = certificates(tmp_path / "tls")
    with a_redis(tls=files) as redis:
        with redis.client() as client:
            client.config_set("requirepass", "geheim-1")
        copied(job, redis, rows((1, "a", 1)), password="geheim-1", ca=files["ca"], format="json")
        with redis.client(password="geheim-1") as client:
            assert json.loads(client.get("orders:1"))["k"] == "a"
