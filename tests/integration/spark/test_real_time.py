"""Real-time queries on a real broker, attempt after attempt, in a session with two slots."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import PySparkException

from jobmanager.core.graph.connectors.kafka_fields import TopicSelection
from jobmanager.core.ids import AttemptNumber, VertexId
from taskrunner.snapshots.fence import Fence, Superseded
from taskrunner.snapshots.real_time_log import RealTimeLog
from taskrunner.spark.connectors.kafka_admin import KafkaAdmin
from taskrunner.spark.run.real_time_query import PartitionsAdded
from taskrunner.spark.run.region_query import QueryPhase
from tests.integration.spark.jobs import JobUnderTest
from tests.integration.spark.test_kafka import numbers, poll, rows, sink, source
from tests.support.connector_jars import VARIABLE, installed_jars
from tests.support.kafka import Broker, a_broker

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not installed_jars(), reason=f"needs make jars, and {VARIABLE}"),
]
SHORT = {"spark.sql.streaming.realTimeMode.minBatchDuration": "1000"}
REAL_TIME: dict[str, Any] = {
    "execution": {"style": "real_time"},
    "checkpointing": {"interval": "3s"},
    "spark": SHORT,
}
COUNTS = {
    "id": "counts",
    "op": "aggregate",
    "inputs": ["rows"],
    "key": ["k"],
    "aggregate": {"many": "count(*)", "total": "sum(n)"},
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with a_broker() as started:
        yield started


@pytest.fixture(autouse=True)
def short_intervals(job: JobUnderTest) -> Iterator[None]:
    for setting, value in SHORT.items():
        job.spark.conf.set(setting, value)
    job.partitions = {VertexId("rows"): 1}
    yield
    for setting in SHORT:
        job.spark.conf.unset(setting)


def counts_of(last: int) -> dict[str, tuple[int, int]]:
    keys = [[n for n in range(last) if n % 3 == key] for key in range(3)]
    return {f"k{key}": (len(found), sum(found)) for key, found in enumerate(keys) if found}


def seen_counts(broker: Broker, out: str) -> dict[str, tuple[int, int]]:
    """The highest count that was ever written for each key."""
    found: dict[str, tuple[int, int]] = {}
    for one in broker.records(out):
        key, count = one.json["k"], (one.json["many"], one.json["total"])
        found[key] = max(found.get(key, (0, 0)), count)
    return found


def until(job: JobUnderTest, broker: Broker, out: str, last: int) -> None:
    job.wait(lambda: poll(job) and seen_counts(broker, out) == counts_of(last))


def test_rows_pass_before_the_commit_and_are_read_again_after_a_cut(
    job: JobUnderTest, broker: Broker
) -> None:
    topic, out = broker.create("at-once", 1), broker.create("at-once-out", 1)
    broker.send(topic, rows(0, 10))
    long = REAL_TIME | {"checkpointing": {"interval": "10m", "timeout": "1h"}}
    job.define(source(broker, topic), sink(broker, out), parallelism=1, **long)
    job.start()
    job.wait(lambda: poll(job) and numbers(broker, out) == list(range(10)))
    assert job.log().last_committed() is None

    job.stop()
    job.define(source(broker, topic), sink(broker, out), parallelism=1, **REAL_TIME)
    broker.send(topic, rows(10, 20))
    running = job.start()
    expected = sorted([*range(10), *range(20)])
    job.wait(lambda: poll(job) and numbers(broker, out) == expected)
    job.stop_at_boundary()

    # the stop waited for the end of the interval: all that was read is committed
    last = job.log().last_committed()
    assert last is not None
    assert job.log().offsets(last).offsets == [{topic: {"0": 20}}]
    progress = running.regions[0].progress()
    assert (progress.input_rows, progress.output_rows) == (20, 20)
    headers = broker.records(out)[0].headers
    assert headers["headgate-job"].decode() == f"{job.id.hex}/out"
    assert "headgate-batch" not in headers


def test_counts_stay_exact_through_changes_of_style_and_parallelism(
    job: JobUnderTest, broker: Broker
) -> None:
    topic, out = broker.create("styles", 1), broker.create("styles-out", 1)
    vertices = (source(broker, topic), COUNTS, sink(broker, out, "counts"))
    broker.send(topic, rows(0, 20))
    job.define(*vertices, parallelism=1, **REAL_TIME)
    job.start()
    until(job, broker, out, 20)
    job.stop_at_boundary()
    assert job.state_operators() == {"counts": "StatefulStreamlineAggregate"}

    # cut off in the middle of an interval, after rows that were not committed
    job.start()
    broker.send(topic, rows(20, 40))
    until(job, broker, out, 40)
    job.stop()
    job.start()
    broker.send(topic, rows(40, 50))
    until(job, broker, out, 50)

    last = 50
    for style, parallelism in (({}, 2), (REAL_TIME, 1), ({}, 1), (REAL_TIME, 1)):
        job.stop_at_boundary()
        savepoint = job.savepoint(f"before {last}")
        job.define(*vertices, parallelism=parallelism, **style)
        job.start(savepoint=savepoint, base_attempt=job.attempt + 1)
        broker.send(topic, rows(last, last + 10))
        last += 10
        until(job, broker, out, last)
    job.stop_at_boundary()
    assert seen_counts(broker, out) == counts_of(last)


def test_a_real_time_aggregate_is_repartitioned_for_real_time(
    job: JobUnderTest, broker: Broker
) -> None:
    """Two slots do not do for two subtasks: it is enough that Spark says how many it needs."""
    topic, out = broker.create("wider", 1), broker.create("wider-out", 1)
    vertices = (source(broker, topic), COUNTS, sink(broker, out, "counts"))
    broker.send(topic, rows(0, 20))
    job.define(*vertices, parallelism=1, **REAL_TIME)
    job.start()
    until(job, broker, out, 20)
    job.stop_at_boundary()
    savepoint = job.savepoint()

    job.define(*vertices, parallelism=2, **REAL_TIME)
    job.start(savepoint=savepoint, base_attempt=job.attempt + 1)
    with pytest.raises(PySparkException, match="needs 3 concurrent task slots"):
        job.wait(lambda: not poll(job))
    assert job.state_operators() == {"counts": "stateStoreSave"}
    state = job.spark.read.format("statestore").load(job.spark_dir().as_uri())
    misplaced = state.where("partition_id != pmod(hash(key.k), 2)").count()
    assert (state.count(), misplaced) == (3, 0)


def test_distinct_and_a_static_side_run_in_real_time(job: JobUnderTest, broker: Broker) -> None:
    topic, out = broker.create("firsts", 1), broker.create("firsts-out", 1)
    names = {
        "id": "names",
        "op": "source",
        "connector": "table",
        "schema": "k STRING, name STRING",
        "rows": [{"k": "k0", "name": "zero"}, {"k": "k1", "name": "one"}],
    }
    named = {"id": "named", "op": "join", "inputs": ["rows", "names"], "on": ["k"]}
    job.define(source(broker, topic), names, named, sink(broker, out, "named"), **REAL_TIME)
    broker.send(topic, rows(0, 6))
    job.start()
    job.wait(lambda: poll(job) and numbers(broker, out) == [0, 1, 3, 4])
    job.stop_at_boundary()
    assert {one.json["name"] for one in broker.records(out)} == {"zero", "one"}

    other, again = job.successor(), broker.create("firsts-again", 1)
    other.partitions = job.partitions
    first = {"id": "first", "op": "distinct", "inputs": ["rows"], "key": ["k"]}
    other.define(
        source(broker, topic), first, sink(broker, again, "first"), parallelism=1, **REAL_TIME
    )
    other.start()
    other.wait(lambda: poll(other) and numbers(broker, again) == [0, 1, 2])
    other.stop_at_boundary()


def test_a_replaced_attempt_and_new_partitions_end_the_query(
    job: JobUnderTest, broker: Broker
) -> None:
    topic, out = broker.create("grows", 1), broker.create("grows-out", 1)
    options = {"kafka.metadata.max.age.ms": "500"}
    job.define(source(broker, topic, options=options), sink(broker, out), **REAL_TIME)
    running = job.start()
    job.wait_for_commit(lambda log, batch: batch >= 0)
    assert RealTimeLog(job.spark_dir()).last_begun() == job.log().last_committed() + 1  # type: ignore[operator]
    broker.grow(topic, 3)

    admin = KafkaAdmin(job.spark, {"bootstrap.servers": broker.servers})
    assert admin.partitions(TopicSelection((topic,))) == 3
    assert admin.partitions(TopicSelection((), "gro.s")) == 3
    with pytest.raises(PartitionsAdded, match="has 3 partitions now, and the runner has slots for"):
        job.wait(lambda: not poll(job))

    job.partitions = {VertexId("rows"): 3}
    running = job.start()
    Fence(job.layout, AttemptNumber(job.attempt + 1)).raise_epoch()
    with pytest.raises(Superseded):
        job.wait(lambda: not poll(job))
    assert running.regions[0].phase is QueryPhase.FAILED


@pytest.mark.parametrize(
    ("vertices", "expected"),
    [
        (
            [
                {"id": "more", "op": "flat_map", "inputs": ["rows"], "explode": "array(n, -n)"}
                | {"as": "m"},
                {"id": "result", "op": "filter", "inputs": ["more"], "where": "m < 0"},
            ],
            {"-1", "-2", "-3", "-4", "-5"},
        ),
        (
            [
                {"id": "result", "op": "sql", "inputs": ["rows"]}
                | {"query": "SELECT k, count(*) AS m FROM rows GROUP BY k"},
            ],
            {"1", "2"},
        ),
        (
            [
                {"id": "result", "op": "aggregate", "inputs": ["rows"]}
                | {"aggregate": {"m": "sum(n)"}},
            ],
            {"0", "1", "3", "6", "10", "15"},
        ),
        (
            [
                {"id": "minute", "op": "map", "inputs": ["rows"]}
                | {"add": {"minute": "window(ts, '1 minute').start"}},
                {"id": "result", "op": "aggregate", "inputs": ["minute"], "key": ["minute"]}
                | {"aggregate": {"m": "max(n)"}},
            ],
            {"0", "1", "2", "3", "4", "5"},
        ),
        (
            [
                {"id": "result", "op": "map", "inputs": ["rows"], "select": {"m": "n"}}
                | {"parallelism": 1},
            ],
            {"0", "1", "2", "3", "4", "5"},
        ),
    ],
    ids=["flat_map", "sql", "without key", "of windows", "rebalanced"],
)
def test_operators_of_the_language_run_in_real_time(
    job: JobUnderTest,
    broker: Broker,
    request: pytest.FixtureRequest,
    vertices: list[dict[str, Any]],
    expected: set[str],
) -> None:
    name = request.node.callspec.id.replace(" ", "-")
    topic, out = broker.create(f"op-{name}", 1), broker.create(f"op-{name}-out", 1)
    broker.send(topic, rows(0, 6))
    given = source(broker, topic, watermark={"column": "ts", "delay": "1s"})
    job.define(given, *vertices, sink(broker, out, "result"), parallelism=1, **REAL_TIME)
    job.start()
    job.wait(lambda: poll(job) and {str(one.json["m"]) for one in broker.records(out)} == expected)
    job.stop_at_boundary()


def test_two_sources_are_united(job: JobUnderTest, broker: Broker) -> None:
    topics, out = [broker.create(f"half-{n}", 1) for n in range(2)], broker.create("whole", 1)
    job.partitions[VertexId("other")] = 1
    other = source(broker, topics[1]) | {"id": "other"}
    both = {"id": "both", "op": "union", "inputs": ["rows", "other"]}
    job.define(source(broker, topics[0]), other, both, sink(broker, out, "both"), **REAL_TIME)
    for n, topic in enumerate(topics):
        broker.send(topic, rows(5 * n, 5 * n + 5))
    job.start()
    job.wait(lambda: poll(job) and numbers(broker, out) == list(range(10)))
    job.stop_at_boundary()
