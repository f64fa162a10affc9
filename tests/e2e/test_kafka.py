"""Kafka in, Kafka out: on a real broker, with processes killed, against plain Python."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.e2e.test_savepoints import take
from tests.support.kafka import Broker, a_broker
from tests.support.server import ServerProcess, eventually

pytestmark = pytest.mark.long
START = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = 10
Window = tuple[int, str, int, int]
"""Auction, start of the window, bids and revenue."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with a_broker() as started:
        yield started


def bids(first: int, count: int) -> list[dict[str, Any]]:
    """Bids in time order, five a second, of seven auctions."""
    return [
        {"auction": n * n % 7, "price": n * 37 % 101, "ts": at(n / 5)}
        for n in range(first, first + count)
    ]


def at(seconds: float) -> str:
    moment = START + timedelta(seconds=seconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def windows_of(rows: list[dict[str, Any]], before: float) -> set[Window]:
    """The windows that have ended `before` so many seconds."""
    counts: Counter[tuple[int, int]] = Counter()
    sums: Counter[tuple[int, int]] = Counter()
    for row in rows:
        second = datetime.fromisoformat(row["ts"]) - START
        window = int(second.total_seconds()) // WINDOW * WINDOW
        if window + WINDOW <= before:
            counts[row["auction"], window] += 1
            sums[row["auction"], window] += row["price"]
    return {(a, at(w), n, sums[a, w]) for (a, w), n in counts.items()}


def a_job(broker: Broker, topic: str, out: str, **sink: Any) -> dict[str, Any]:
    return {
        "name": f"windows of {topic}",
        "parallelism": 2,
        "checkpointing": {"interval": "1s"},
        "restart": {"strategy": "fixed_delay", "attempts": 20, "delay": "0s"},
        "vertices": [
            {
                "id": "bids",
                "op": "source",
                "connector": "kafka",
                "servers": broker.servers,
                "topic": topic,
                "format": "json",
                "schema": "auction BIGINT, price BIGINT, ts TIMESTAMP",
                "watermark": {"column": "ts", "delay": "0s"},
                "max_rows_per_batch": 100,
                "group": f"group of {topic}",
            },
            {
                "id": "revenue",
                "op": "window",
                "inputs": ["bids"],
                "key": ["auction"],
                "window": {"tumbling": f"{WINDOW}s"},
                "aggregate": {"bids": "count(*)", "revenue": "sum(price)"},
            },
            {
                "id": "out",
                "op": "sink",
                "inputs": ["revenue"],
                "connector": "kafka",
                "servers": broker.servers,
                "topic": out,
                "format": "json",
                "key": "auction",
                **sink,
            },
        ],
    }


def seen_windows(broker: Broker, topic: str) -> Counter[Window]:
    """What a reader of committed records finds, and how often."""
    return Counter(
        (row["auction"], row["window_start"], row["bids"], row["revenue"])
        for row in (record.json for record in broker.records(topic))
    )


def kill_runner(server: ServerProcess, job: str) -> None:
    status = server.until_state(job, "running")
    os.kill(status["runner"]["pid"], signal.SIGKILL)
    eventually(lambda: server.status(job)["attempt"] > status["attempt"], within=60)


def test_every_window_is_published_once_although_the_runner_is_killed(
    server: ServerProcess, broker: Broker
) -> None:
    topic, out = broker.create("bids"), broker.create("windows")
    rows = bids(0, 600)
    broker.send(topic, rows[:300])
    job = server.submit(a_job(broker, topic, out, guarantee="exactly_once"))
    eventually(lambda: bool(broker.records(out)), within=120, explain=lambda: log_of(server, job))

    kill_runner(server, job)
    broker.send(topic, rows[300:])
    expected = windows_of(rows, before=118)
    eventually(
        lambda: set(seen_windows(broker, out)) >= expected,
        within=120,
        explain=lambda: f"{expected - set(seen_windows(broker, out))} {log_of(server, job)}",
    )

    found = seen_windows(broker, out)
    assert set(found.values()) == {1}
    assert set(found) == expected
    assert {one.key for one in broker.records(out)} <= {str(n).encode() for n in range(7)}
    # every tool for Kafka sees how far the job is
    eventually(lambda: sum(broker.committed(f"group of {topic}").values()) == len(rows), within=60)
    server.http.patch(f"/v1/jobs/{job}?mode=cancel")


def log_of(server: ServerProcess, job: str) -> str:
    log = server.http.get(f"/v1/jobs/{job}/logs?tail=30").text
    return f"{server.status(job)}\n{log}"


def a_copy(broker: Broker, topic: str, out: str, **fields: Any) -> dict[str, Any]:
    """A job without state: every record to another topic, with metadata."""
    source = {
        "id": "bids",
        "op": "source",
        "connector": "kafka",
        "servers": broker.servers,
        "topic": topic,
        "format": "json",
        "schema": "n BIGINT",
        "metadata": ["partition", "offset"],
        **fields.pop("source", {}),
    }
    sink = {
        "id": "out",
        "op": "sink",
        "inputs": ["bids"],
        "connector": "kafka",
        "servers": broker.servers,
        "topic": out,
        "format": "json",
        "headers": ["partition"],
        **fields.pop("sink", {}),
    }
    return {
        "name": f"copy of {topic}",
        "checkpointing": {"interval": "1s"},
        "restart": {"strategy": "fixed_delay", "attempts": 20, "delay": "0s"},
        "vertices": [source, *fields.pop("more", []), sink],
        **fields,
    }


def numbers(broker: Broker, topic: str) -> list[int]:
    """The numbers in a topic, for readers of committed records, in ascending order."""
    return sorted(record.json["n"] for record in broker.records(topic))


def until_numbers(
    server: ServerProcess, job: str, broker: Broker, topic: str, expected: list[int]
) -> None:
    eventually(
        lambda: set(numbers(broker, topic)) >= set(expected),
        within=120,
        explain=lambda: f"{numbers(broker, topic)} {log_of(server, job)}",
    )


def rows(first: int, last: int) -> list[dict[str, int]]:
    return [{"n": n} for n in range(first, last)]


def test_at_least_once_with_headers_that_tell_repetitions(
    server: ServerProcess, broker: Broker
) -> None:
    topic, out = broker.create("loose"), broker.create("loose-out")
    broker.send(topic, rows(0, 50))
    job = server.submit(a_copy(broker, topic, out))
    until_numbers(server, job, broker, out, list(range(50)))
    kill_runner(server, job)
    broker.send(topic, rows(50, 100))
    until_numbers(server, job, broker, out, list(range(100)))

    found = broker.records(out)
    ids = {(one.headers["headgate-batch"], one.headers["headgate-row"]) for one in found}
    assert len(ids) == 100
    assert {one.headers["headgate-job"].decode() for one in found} == {f"{job}/out"}
    assert {one.headers["partition"] for one in found} == {b"0", b"1"}
    assert set(found[0].json) == {"n", "offset"}
    server.http.patch(f"/v1/jobs/{job}?mode=cancel")


def test_new_partitions_are_read_and_the_lag_is_told(server: ServerProcess, broker: Broker) -> None:
    topic, out = broker.create("growing", 1), broker.create("growing-out")
    broker.send(topic, rows(0, 10))
    source = {"options": {"kafka.metadata.max.age.ms": "1000"}}
    job = server.submit(a_copy(broker, topic, out, source=source))
    until_numbers(server, job, broker, out, list(range(10)))
    broker.grow(topic, 3)
    for partition in (1, 2):
        broker.send(topic, rows(10 * partition, 10 * partition + 10), partition=partition)
    until_numbers(server, job, broker, out, list(range(30)))

    def told() -> bool:
        metrics = server.http.get("/metrics").text
        names = {f'partition="{topic}-{number}"' for number in range(3)}
        return all(f"{name}" in metrics for name in names)

    eventually(told, within=60, explain=lambda: log_of(server, job))
    [region] = server.status(job)["region_states"]
    [source_told] = region["sources"]
    assert [one["partition"] for one in source_told["lags"]] == [f"{topic}-{n}" for n in range(3)]
    assert all(one["rows"] == 0 and one["seconds"] == 0 for one in source_told["lags"])
    server.http.patch(f"/v1/jobs/{job}?mode=cancel")


def unreadable(server: ServerProcess, job: str) -> list[int]:
    """How many records of each source could not be decoded."""
    regions = server.status(job)["region_states"]
    return [one["unreadable_rows"] for region in regions for one in region["sources"]]


def test_a_poison_record_fails_the_job_and_can_be_skipped_or_kept_apart(
    server: ServerProcess, broker: Broker
) -> None:
    topic = broker.create("poisoned", 1)
    outs = {name: broker.create(f"poisoned-{name}") for name in ("fail", "skip", "side", "bad")}
    broker.send(topic, [*rows(0, 3), b"{not json", b'{"n": "text"}', *rows(3, 6)])

    failing = server.submit(a_copy(broker, topic, outs["fail"]))
    status = server.until_state(failing, "failed")
    assert "the record at offset 3 of partition 0 of topic poisoned" in str(status["reason"])

    skipping = server.submit(a_copy(broker, topic, outs["skip"], source={"on_error": "skip"}))
    until_numbers(server, skipping, broker, outs["skip"], list(range(6)))
    eventually(
        lambda: unreadable(server, skipping) == [2],
        within=60,
        explain=lambda: log_of(server, skipping),
    )
    server.http.patch(f"/v1/jobs/{skipping}?mode=cancel")

    bad = {
        "id": "bad",
        "op": "sink",
        "inputs": [{"from": "bids", "side": "bad"}],
        "connector": "kafka",
        "servers": broker.servers,
        "topic": outs["bad"],
        "format": "raw",
        "key": "key",
        "headers": ["topic", "partition", "offset", "timestamp"],
    }
    source = {"on_error": {"side": "bad"}}
    keeping = server.submit(a_copy(broker, topic, outs["side"], source=source, more=[bad]))
    until_numbers(server, keeping, broker, outs["side"], list(range(6)))
    eventually(lambda: len(broker.records(outs["bad"])) == 2, within=60)
    kept = broker.records(outs["bad"])
    assert {one.value for one in kept} == {b"{not json", b'{"n": "text"}'}
    assert {one.headers["offset"] for one in kept} == {b"3", b"4"}
    server.http.patch(f"/v1/jobs/{keeping}?mode=cancel")


def test_a_batch_job_reads_what_is_there_and_ends(server: ServerProcess, broker: Broker) -> None:
    topic, out = broker.create("finite"), broker.create("finite-out")
    broker.send(topic, rows(0, 20))
    sink = {"guarantee": "exactly_once"}
    job = server.submit(a_copy(broker, topic, out, mode="batch", sink=sink))
    server.until_state(job, "finished")

    assert numbers(broker, out) == list(range(20))


def test_records_that_expired_are_a_named_failure(server: ServerProcess, broker: Broker) -> None:
    topic, out = broker.create("expiring", 1), broker.create("expiring-out")
    broker.send(topic, rows(0, 20))
    starting = {"starting": {"offsets": {"0": 5}}}
    broker.delete_records(topic, 0, 10)
    job = server.submit(a_copy(broker, topic, out, source=starting))

    status = server.until_state(job, "failed")

    assert "no longer in Kafka" in str(status["reason"])


def test_exactly_once_with_broker_and_runner_killed_and_a_rescale_under_way(
    server: ServerProcess, broker: Broker
) -> None:
    topic, out = broker.create("stormy", 4), broker.create("stormy-out", 3)
    sink = {"guarantee": "exactly_once"}
    broker.send(topic, rows(0, 100))
    job = server.submit(a_copy(broker, topic, out, sink=sink, parallelism=1, max_parallelism=4))
    until_numbers(server, job, broker, out, list(range(100)))

    broker.send(topic, rows(100, 200))
    broker.kill()
    broker.start()
    kill_runner(server, job)
    until_numbers(server, job, broker, out, list(range(200)))

    broker.send(topic, rows(200, 300))
    answer = server.http.patch(f"/v1/jobs/{job}/rescaling", params={"parallelism": 2})
    assert answer.is_success, answer.text
    broker.send(topic, rows(300, 400))
    until_numbers(server, job, broker, out, list(range(400)))

    assert numbers(broker, out) == list(range(400))
    server.http.patch(f"/v1/jobs/{job}?mode=cancel")


def test_a_restore_behind_what_is_published_is_refused_unless_rows_may_be_repeated(
    server: ServerProcess, broker: Broker
) -> None:
    topic, out = broker.create("past"), broker.create("past-out")
    broker.send(topic, rows(0, 10))
    document = a_copy(broker, topic, out, sink={"guarantee": "exactly_once"})
    job = server.submit(document)
    until_numbers(server, job, broker, out, list(range(10)))
    saved = take(server, job, "savepoints")["result"]
    broker.send(topic, rows(10, 20))
    until_numbers(server, job, broker, out, list(range(20)))
    server.http.patch(f"/v1/jobs/{job}?mode=cancel")
    server.until_state(job, "cancelled")

    refused = restored(server, document, saved["path"])
    status = server.until_state(refused, "failed")
    assert "Kafka cannot take records back" in str(status["reason"])
    document["vertices"][-1]["rewind"] = "repeat"
    again = restored(server, document, saved["path"])
    eventually(
        lambda: numbers(broker, out) == sorted([*range(20), *range(10, 20)]),
        within=60,
        explain=lambda: log_of(server, again),
    )
    server.http.patch(f"/v1/jobs/{again}?mode=cancel")


def restored(server: ServerProcess, document: dict[str, Any], savepoint: str) -> str:
    answer = server.http.post("/v1/jobs", params={"savepoint": savepoint}, json=document)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["jobid"])
