"""Kafka sources and sinks on a real broker: what readers find, attempt after attempt."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from taskrunner.core import kafka_failures
from taskrunner.core.transactional_output import RewindRefused
from taskrunner.snapshots.fence import Superseded
from taskrunner.spark.connectors import kafka_transactions
from taskrunner.spark.run.causes import causes_of
from taskrunner.spark.run.region_query import QueryPhase
from tests.integration.spark.jobs import OUT, JobUnderTest
from tests.support.connector_jars import VARIABLE, installed_jars
from tests.support.databases import fresh_database
from tests.support.kafka import Broker, a_broker
from tests.support.postgres_tcp import over_tcp

pytestmark = pytest.mark.skipif(not installed_jars(), reason=f"needs make jars, and {VARIABLE}")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with a_broker() as started:
        yield started


def source(broker: Broker, topic: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": "rows",
        "op": "source",
        "connector": "kafka",
        "servers": broker.servers,
        "topic": topic,
        "format": "json",
        "schema": "n BIGINT, k STRING, ts TIMESTAMP",
        **fields,
    }


def sink(broker: Broker, topic: str, after: Any = "rows", **fields: Any) -> dict[str, Any]:
    return {
        "id": "out",
        "op": "sink",
        "inputs": [after],
        "connector": "kafka",
        "servers": broker.servers,
        "topic": topic,
        "format": "json",
        **fields,
    }


def rows(first: int, last: int) -> list[dict[str, Any]]:
    """Rows of three keys, one a second."""
    return [
        {"n": n, "k": f"k{n % 3}", "ts": f"2026-01-01T00:{n // 60:02}:{n % 60:02}Z"}
        for n in range(first, last)
    ]


def numbers(broker: Broker, topic: str, **reading: Any) -> list[int]:
    return sorted(one.json["n"] for one in broker.records(topic, **reading))


def poll(job: JobUnderTest) -> bool:
    assert job.running is not None
    for region in job.running.regions:
        region.poll()
    return True


def test_windows_are_published_once_and_only_after_their_checkpoint(
    job: JobUnderTest, broker: Broker
) -> None:
    # Given a job with a window, and rows of which two windows are complete
    topic, out = broker.create("timed"), broker.create("timed-out")
    window = {
        "id": "w",
        "op": "window",
        "inputs": ["rows"],
        "key": ["k"],
        "window": {"tumbling": "10s"},
        "aggregate": {"n": "sum(n)"},
    }
    watermark = {"column": "ts", "delay": "0s"}
    exactly_once = sink(broker, out, "w", key="k", guarantee="exactly_once")
    job.define(source(broker, topic, watermark=watermark), window, exactly_once)
    broker.send(topic, rows(0, 25))
    running = job.start()
    job.wait_for_commit(lambda log, batch: batch >= 1)

    # When there was no checkpoint yet, then readers find nothing
    job.stop_at_boundary()
    assert broker.records(out, committed_only=False) == []

    # When a checkpoint is complete, then they find the complete windows
    batch = job.log().last_committed()
    assert batch is not None
    [held] = running.held_sinks[OUT]
    held.show_up_to(batch)
    running.checkpointed(running.regions[0].id, batch)
    expected = {("k0", s): sum(n for n in range(s, s + 10) if n % 3 == 0) for s in (0, 10)}
    found = {
        (one.json["k"], int(one.json["window_start"][17:19])): one.json["n"]
        for one in broker.records(out)
        if one.json["k"] == "k0"
    }
    assert found == expected
    assert Counter(one.key for one in broker.records(out)) == {b"k0": 2, b"k1": 2, b"k2": 2}

    # When the next attempt runs on, then it repeats nothing, and the older one can publish nothing
    completed = job.checkpoint(1)
    broker.send(topic, rows(25, 45))
    kafka_transactions._producers.clear()  # as in another process: the older producer stays open
    again = job.start(completed=completed)
    job.wait_for_commit(lambda log, now: now > batch + 1)
    job.stop_at_boundary()
    for _ in range(2):  # the older producer is fenced, then the older attempt may not take over
        with pytest.raises(Superseded):
            held.show_up_to(10_000)
    again.show_everything()
    assert Counter(one.key for one in broker.records(out)) == {b"k0": 4, b"k1": 4, b"k2": 4}


def test_a_source_tells_its_lag_and_commits_to_its_group(job: JobUnderTest, broker: Broker) -> None:
    topic = broker.create("lagging")
    out = {"id": "out", "op": "sink", "inputs": ["rows"], "connector": "blackhole"}
    job.define(source(broker, topic, group="watchers", max_rows_per_batch=10), out)
    broker.send(topic, rows(0, 20))
    running = job.start()
    [region] = running.regions
    # Spark shares a batch's limit between the partitions in whole rows: two batches may read 18.
    job.wait(lambda: region.progress().input_rows == 20)
    job.stop_at_boundary()

    batch = job.log().last_committed()
    assert batch is not None
    broker.send(topic, rows(20, 23))
    running.checkpointed(region.id, batch)

    assert sum(broker.committed("watchers").values()) == 20
    [told] = region.progress().sources
    assert sum(one.rows for one in told.lags) == 0
    assert {one.partition for one in told.lags} == {"lagging-0", "lagging-1"}


@pytest.mark.long
def test_records_that_cannot_be_decoded_are_skipped_and_counted(
    job: JobUnderTest, broker: Broker
) -> None:
    topic, out = broker.create("dirty", 1), broker.create("dirty-out")
    broker.send(topic, [*rows(0, 3), b"{not json", b'{"n": "text"}', *rows(3, 5)])
    job.define(source(broker, topic, on_error="skip"), sink(broker, out))
    running = job.start()
    job.wait_for_commit(lambda log, batch: True)
    [region] = running.regions
    job.wait(lambda: [one.unreadable_rows for one in region.progress().sources] == [2])
    job.stop_at_boundary()

    assert numbers(broker, out) == [0, 1, 2, 3, 4]
    assert {one.headers["headgate-batch"] for one in broker.records(out)} == {b"0"}


@pytest.mark.long
def test_records_that_cannot_be_decoded_go_to_a_side_as_they_came(
    job: JobUnderTest, broker: Broker
) -> None:
    topic, out, bad = broker.create("sided", 1), broker.create("sided-out"), broker.create("bad")
    broker.send(topic, [*rows(0, 2), b"{not json"])
    side = {"from": "rows", "side": "bad"}
    kept = ["key", "topic", "partition", "offset", "timestamp"]
    apart = {**sink(broker, bad, side, format="raw", headers=kept), "id": "bad"}
    job.define(source(broker, topic, on_error={"side": "bad"}), sink(broker, out), apart)
    job.start()
    job.wait(lambda: poll(job) and len(broker.records(bad)) == 1 and len(broker.records(out)) == 2)
    job.stop_at_boundary()

    [found] = broker.records(bad)
    assert (found.value, found.headers["offset"]) == (b"{not json", b"2")


def test_a_record_that_cannot_be_decoded_fails_the_job_and_is_named(
    job: JobUnderTest, broker: Broker
) -> None:
    topic, out = broker.create("poisoned", 1), broker.create("poisoned-out")
    broker.send(topic, [*rows(0, 2), b"{not json"])
    job.define(source(broker, topic), sink(broker, out))
    region = job.start().regions[0]
    job.wait(lambda: region.poll() is QueryPhase.FAILED or region.error is not None)

    assert region.error is not None
    explained = kafka_failures.explain(causes_of(region.error))
    assert explained is not None
    assert "offset 2 of partition 0 of topic poisoned" in explained.message


@pytest.mark.long
def test_a_batch_job_ends_with_what_is_there(job: JobUnderTest, broker: Broker) -> None:
    topic, out = broker.create("finite"), broker.create("finite-out")
    broker.send(topic, rows(0, 10))
    starting = {"offsets": {"0": "earliest", "1": "earliest"}}
    metadata = ["partition", "offset", "timestamp", "key", "headers", "topic"]
    reading = source(broker, topic, starting=starting, metadata=metadata)
    job.define(reading, sink(broker, out, guarantee="exactly_once"), mode="batch").run()

    assert numbers(broker, out) == list(range(10))
    assert {one.json["topic"] for one in broker.records(out)} == {topic}


@pytest.mark.long
def test_a_restore_behind_what_is_published_is_refused(job: JobUnderTest, broker: Broker) -> None:
    topic, out = broker.create("past"), broker.create("past-out")
    reading = source(broker, topic, max_rows_per_batch=10)
    job.define(reading, sink(broker, out, guarantee="exactly_once", visibility="batch"))
    broker.send(topic, rows(0, 10))
    job.start()
    job.wait_for_commit(lambda log, batch: True)
    savepoint = job.savepoint()
    broker.send(topic, rows(10, 20))
    job.wait(lambda: poll(job) and len(broker.records(out)) == 20)
    job.stop_at_boundary()

    other = job.successor()
    with pytest.raises(RewindRefused, match="Kafka cannot take records back"):
        other.start(savepoint=savepoint)
    job.forget_attempts()
    with pytest.raises(RewindRefused, match="Kafka cannot take records back"):
        job.start()
    assert numbers(broker, out) == list(range(20))


END = 99
"""The key of the last change."""


def changes_of_a_table(count: int, seed: int) -> tuple[list[bytes | None], dict[int, str]]:
    """What Debezium would send for random changes of a table with a few keys, with tombstones, and
    the table in the end.
    """
    chance = random.Random(seed)
    table: dict[int, str] = {}
    sent: list[bytes | None] = []
    for number in range(count):
        key, name = chance.randrange(12), f"name {number}"
        before = {"id": key, "name": table[key]} if key in table else None
        if before is not None and chance.random() < 0.4:
            del table[key]
            change: dict[str, Any] = {"op": "d", "before": before, "after": None}
        else:
            op = "u" if before else chance.choice("cr")
            change = {"op": op, "before": before, "after": {"id": key, "name": name}}
            table[key] = name
        # all in the same millisecond: only the offset tells which change of a key is the last
        change |= {"ts_ms": 1, "source": {"table": "users", "lsn": number}}
        enveloped = {"schema": {"type": "struct"}, "payload": change}
        sent.append(json.dumps(enveloped if chance.random() < 0.5 else change).encode())
        if change["op"] == "d":
            sent.append(None)
    last = {"op": "c", "before": None, "after": {"id": END, "name": "end"}, "ts_ms": 1}
    return [*sent, json.dumps(last).encode()], {**table, END: "end"}


@pytest.mark.long
def test_captured_changes_make_a_copy_of_their_table(
    job: JobUnderTest, broker: Broker, postgres_url: str
) -> None:
    # Given the job in the documentation of the JDBC sink, and a table that has an old row
    sent, expected = changes_of_a_table(400, seed=4)
    topic = broker.create("users", 1)
    with fresh_database(postgres_url) as url, over_tcp(url) as postgres:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE users (id BIGINT PRIMARY KEY, name TEXT)")
            connection.execute("INSERT INTO users VALUES (0, 'old')")
        job.define(
            source(
                broker,
                topic,
                format="debezium_json",
                schema="id BIGINT, name STRING",
                metadata=["offset"],
                max_rows_per_batch=60,
                on_error="skip",
            ),
            {
                "id": "changes",
                "op": "map",
                "inputs": ["rows"],
                "select": {
                    "id": "coalesce(after.id, before.id)",
                    "name": "after.name",
                    "op": "op",
                    "at": "offset",
                },
            },
            {
                "id": "out",
                "op": "sink",
                "inputs": ["changes"],
                "connector": "jdbc",
                "url": postgres.jdbc_url,
                "user": postgres.user,
                "password": postgres.password,
                "table": "users",
                "key": ["id"],
                "op_column": "op",
                "order_by": ["at"],
            },
        )

        # When changes arrive before and after a restart, with a poison record among them
        half = len(sent) // 2
        broker.send(topic, [*sent[:half], b"{not json"])
        job.start()
        job.wait_for_commit(lambda log, batch: batch >= 1)
        job.stop()
        broker.send(topic, sent[half:])
        job.start()

        def table() -> dict[int, str]:
            with psycopg.connect(url) as connection:
                return dict(connection.execute("SELECT id, name FROM users").fetchall())

        # Then the table is the table that the changes came from
        job.wait(lambda: poll(job) and END in table(), seconds=240)
        job.stop_at_boundary()
        assert table() == expected
