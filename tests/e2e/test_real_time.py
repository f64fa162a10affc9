"""Real-time jobs on a real broker, with processes killed, rescaled and changed in style."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.test_changes import begin_rescale
from tests.e2e.test_kafka import kill_runner, log_of, numbers, rows, until_numbers
from tests.e2e.test_savepoints import take
from tests.support.kafka import Broker, a_broker
from tests.support.server import ServerProcess, eventually

pytestmark = pytest.mark.long
REAL_TIME = {"style": "real_time"}
KEYS = 7
PATIENCE = 600
"""Seconds: other slots mean another JVM, and the first question about state a Spark session."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with a_broker() as started:
        yield started


def a_job(broker: Broker, topic: str, out: str, *between: dict[str, Any]) -> dict[str, Any]:
    """From topic to topic, through the vertices `between`."""
    kafka = {"connector": "kafka", "servers": broker.servers, "format": "json"}
    source = {"id": "input", "op": "source", "topic": topic, "schema": "n BIGINT", **kafka}
    last = between[-1]["id"] if between else "input"
    sink = {"id": "out", "op": "sink", "inputs": [last], "topic": out, **kafka}
    return {
        "name": f"{topic} at once",
        "execution": REAL_TIME,
        "parallelism": 1,
        "max_parallelism": 4,
        "checkpointing": {"interval": "5s"},
        "restart": {"strategy": "fixed_delay", "attempts": 20, "delay": "0s"},
        "vertices": [source, *between, sink],
    }


def counting(broker: Broker, topic: str, out: str) -> dict[str, Any]:
    """How many numbers there are for each key, with each change of that."""
    key = {"id": "keyed", "op": "map", "inputs": ["input"], "add": {"k": f"n % {KEYS}"}}
    counts = {
        "id": "counts",
        "op": "aggregate",
        "inputs": ["keyed"],
        "key": ["k"],
        "aggregate": {"many": "count(*)", "total": "sum(n)"},
    }
    return a_job(broker, topic, out, key, counts)


def counts_up_to(last: int) -> dict[int, tuple[int, int]]:
    many = Counter(n % KEYS for n in range(last))
    totals = Counter[int]()
    for n in range(last):
        totals[n % KEYS] += n
    return {key: (many[key], totals[key]) for key in many}


def seen_counts(broker: Broker, out: str) -> dict[int, tuple[int, int]]:
    """The largest count that was ever written for each key: counts never go back."""
    found: dict[int, tuple[int, int]] = {}
    for record in broker.records(out):
        row = record.json
        found[row["k"]] = max(found.get(row["k"], (0, 0)), (row["many"], row["total"]))
    return found


def until_counts(server: ServerProcess, job: str, broker: Broker, out: str, last: int) -> None:
    """Waits for the counts of the numbers up to `last`, and looks that none was ever higher."""
    expected = counts_up_to(last)
    eventually(
        lambda: all(seen_counts(broker, out).get(k, (0, 0)) >= v for k, v in expected.items()),
        within=PATIENCE,
        explain=lambda: f"{expected} {seen_counts(broker, out)} {log_of(server, job)}",
    )
    assert seen_counts(broker, out) == expected


def until_done(server: ServerProcess, job: str, operation: str) -> None:
    path = f"/v1/operations/{operation}"
    eventually(
        lambda: server.get(path)["status"] != "in_progress",
        within=PATIENCE,
        explain=lambda: f"{server.get(path)} {log_of(server, job)}",
    )
    done = server.get(path)
    assert done["status"] == "completed", (done["error"], log_of(server, job))


def test_records_pass_before_their_commit_and_none_is_lost_by_a_kill(
    server: ServerProcess, broker: Broker
) -> None:
    topic, out = broker.create("quick", 3), broker.create("quick-out")
    broker.send(topic, rows(0, 50))
    document = a_job(broker, topic, out) | {"checkpointing": {"interval": "20s"}}
    job = server.submit(document)
    until_numbers(server, job, broker, out, list(range(50)))
    [region] = server.status(job)["region_states"]
    assert region["batch"] is None  # twenty seconds are not over

    kill_runner(server, job)
    broker.send(topic, rows(50, 100))
    until_numbers(server, job, broker, out, list(range(100)))
    assert set(numbers(broker, out)) == set(range(100))
    headers = broker.records(out)[0].headers
    assert headers["headgate-job"].decode() == f"{job}/out"
    assert "headgate-row" in headers
    server.http.patch(f"/v1/jobs/{job}?mode=cancel")


def test_counts_are_exact_through_kill_rescale_and_a_change_of_style(
    server: ServerProcess, broker: Broker
) -> None:
    topic, out = broker.create("counted", 2), broker.create("counted-out")
    document = counting(broker, topic, out)
    broker.send(topic, rows(0, 100))
    job = server.submit(document)
    until_counts(server, job, broker, out, 100)
    server.until_checkpoint(job, 1)

    broker.send(topic, rows(100, 200))
    kill_runner(server, job)
    until_counts(server, job, broker, out, 200)

    server.until_state(job, "running")
    until_done(server, job, begin_rescale(server, job, 2))
    broker.send(topic, rows(200, 300))
    until_counts(server, job, broker, out, 300)

    for style, last in (({"style": "micro_batch"}, 400), (REAL_TIME, 500)):
        path, changed = f"/v1/jobs/{job}/upgrade", document | {"execution": style}
        plan = server.http.post(path, json=changed, params={"dry_run": True}, timeout=PATIENCE)
        assert plan.json()["verdict"] == "compatible", plan.text
        fields = {one["field"] for one in plan.json()["changes"]}
        assert "execution" in fields
        accepted = server.http.post(path, json=changed, timeout=PATIENCE)
        assert accepted.status_code == 202, accepted.text
        until_done(server, job, accepted.json()["operation"])
        broker.send(topic, rows(last - 100, last))
        until_counts(server, job, broker, out, last)

    take(server, job, "stop")
    assert seen_counts(broker, out) == counts_up_to(500)


def test_a_savepoint_has_all_that_was_read_before_it_and_new_partitions_get_slots(
    server: ServerProcess, broker: Broker
) -> None:
    topic, out = broker.create("saved", 1), broker.create("saved-out")
    document = counting(broker, topic, out)
    document["vertices"][0]["options"] = {"kafka.metadata.max.age.ms": "1000"}
    broker.send(topic, rows(0, 50))
    job = server.submit(document)
    until_counts(server, job, broker, out, 50)
    saved = take(server, job, "savepoints")["result"]
    savepoint = server.get(f"/v1/savepoints/{saved['savepoint']}")
    assert savepoint["regions"]["out"]["offsets"]["input"] == {topic: {"0": 50}}

    broker.grow(topic, 4)
    broker.send(topic, rows(50, 100), partition=3)
    until_counts(server, job, broker, out, 100)
    take(server, job, "stop")

    again = server.http.post("/v1/jobs", params={"savepoint": saved["path"]}, json=document)
    assert again.status_code == 202, again.text
    broker.send(topic, rows(100, 120))
    until_counts(server, str(again.json()["jobid"]), broker, out, 120)
    server.http.patch(f"/v1/jobs/{again.json()['jobid']}?mode=cancel")
