"""Kafka in, Kafka out: on a real broker, with processes killed, against plain Python."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.kafka import Broker, a_broker
from tests.support.server import ServerProcess, eventually

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
