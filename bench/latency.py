"""From event to output: how long a record takes from topic to topic, in both styles of execution.

    python -m bench.latency --seconds 60 --interval 30s --rates 200,10000

One broker, one server, one job at a time: stateless (each record to another topic) and per key (a
running count), in micro-batches, in real time, and in Flink where `make bench-flink` has installed
it, at each rate. Flink runs at its defaults, with the same parallelism and checkpoint interval, and
like the others writes at least once. A record has its number; the time
from just before it is sent until the consumer of the output has the row that contains it is
measured in one process, so with one clock. For a count that is the first row of the key whose
count is at least that of the record. Reported are p50, p90, p99 and the largest, over all records
sent after the job has warmed up; and of Spark's batches the mean time in each phase: of a real-time
job all but `add_batch`, and what `add_batch` takes longer than the interval, is the gap between two
intervals in which no record passes. Needs the jars of `make jars` (`HEADGATE_CONNECTOR_JARS`).
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any, Protocol

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.side_by_side.engines import Talk, a_flink
from bench.support import FLINK, a_server, say, table
from tests.support.kafka import Broker, a_broker
from tests.support.server import ServerProcess, eventually

_KEYS = 100
_PARTITIONS = 2
_TICK = 0.005
_LONG = 600.0
STYLES = ("micro_batch", "real_time", "flink")
KINDS = ("stateless", "per key")


@dataclass(frozen=True, slots=True)
class Case:
    kind: str
    style: str
    rate: int

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.style}-{self.rate}".replace(" ", "-")


@dataclass
class Clock:
    """When each record was sent, and when its output was there."""

    sent: dict[tuple[int, int], float] = field(default_factory=dict)
    """Key, and number of the record among those of its key, from 1."""
    latencies: list[float] = field(default_factory=list)
    done: dict[int, int] = field(default_factory=dict)
    """Key to the number of its records whose output was seen."""
    phases: dict[str, float] = field(default_factory=dict)
    """Milliseconds of a batch in each of Spark's phases, on average."""
    counts_from: float = float("inf")
    """Records that were sent before are not counted: the job warms up."""

    def see(self, key: int, number: int, now: float) -> None:
        """There is output for all records of the key up to `number`."""
        for one in range(self.done.get(key, 0) + 1, number + 1):
            began = self.sent.pop((key, one), None)
            if began is not None and began >= self.counts_from:
                self.latencies.append(now - began)
        self.done[key] = max(self.done.get(key, 0), number)

    def percentile(self, share: float) -> float:
        ordered = sorted(self.latencies)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Sender(Thread):
    """Sends records at a rate, each key to its own partition, until it is told to end."""

    def __init__(self, broker: Broker, topic: str, rate: int, clock: Clock) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 0})
        self._topic = topic
        self._rate = rate
        self._clock = clock
        self.ends = Event()
        self.sent = 0

    def run(self) -> None:
        began = time.perf_counter()
        while not self.ends.is_set():
            due = int((time.perf_counter() - began) * self._rate)
            while self.sent < due:
                self._send(self.sent)
                self.sent += 1
            self._producer.poll(0)
            time.sleep(_TICK)
        self._producer.flush(30)

    def _send(self, n: int) -> None:
        key, number = n % _KEYS, n // _KEYS + 1
        value = b'{"k":%d,"n":%d}' % (key, number)
        self._clock.sent[key, number] = time.perf_counter()
        self._producer.produce(self._topic, value, partition=key % _PARTITIONS)


class Receiver(Thread):
    """Reads the output, until it is told to end."""

    def __init__(self, broker: Broker, topic: str, clock: Clock) -> None:
        super().__init__(daemon=True)
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.servers,
                "group.id": f"latency-{topic}",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 5,
            }
        )
        self._consumer.assign([TopicPartition(topic, one, 0) for one in range(_PARTITIONS)])
        self._clock = clock
        self.ends = Event()
        self.rows = 0

    def run(self) -> None:
        while not self.ends.is_set():
            for record in self._consumer.consume(500, timeout=0.02):
                now = time.perf_counter()
                value = record.value()
                if record.error() is None and value is not None:
                    row = json.loads(value)
                    self._clock.see(row["k"], row["n"], now)
                    self.rows += 1
        self._consumer.close()


class Jobs(Protocol):
    """Where a job of a case runs, one at a time."""

    def start(self, case: Case, topic: str, out: str) -> None: ...

    def explain(self) -> str: ...

    def end(self) -> dict[str, float]:
        """Cancels the job; returns the milliseconds of a batch in each phase, on average."""
        ...


@dataclass
class HeadgateJobs:
    server: ServerProcess
    broker: Broker
    interval: str
    _job: str = ""

    def start(self, case: Case, topic: str, out: str) -> None:
        self._job = self.server.submit(document(self.broker, topic, out, case, self.interval))

    def explain(self) -> str:
        return str(self.server.status(self._job))

    def end(self) -> dict[str, float]:
        phases = phases_of(self.server, self._job)
        self.server.http.patch(f"/v1/jobs/{self._job}?mode=cancel")
        self.server.until_state(self._job, "cancelled")
        return phases


@dataclass
class FlinkJobs:
    talk: Talk
    broker: Broker

    def start(self, case: Case, topic: str, out: str) -> None:
        kafka = f"'properties.bootstrap.servers' = '{self.broker.servers}'"
        source = (
            f"CREATE TABLE `{topic}` (k INT, n BIGINT) WITH ('connector' = 'kafka', 'topic' = "
            f"'{topic}', {kafka}, 'format' = 'json', 'scan.startup.mode' = 'earliest-offset')"
        )
        columns, options = "k INT, n BIGINT", "'connector' = 'kafka', 'format' = 'json'"
        query = f"SELECT k, n FROM `{topic}`"
        if case.kind == "per key":
            columns += ", PRIMARY KEY (k) NOT ENFORCED"
            options = "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'"
            query = f"SELECT k, count(*) AS n FROM `{topic}` GROUP BY k"
        sink = f"CREATE TABLE `{out}` ({columns}) WITH ({options}, 'topic' = '{out}', {kafka})"
        insert = f"INSERT INTO `{out}` {query}"
        self.talk.ask({"tables": [source, sink], "insert": insert, "waits": False})

    def explain(self) -> str:
        return "Flink has given no output"

    def end(self) -> dict[str, float]:
        self.talk.ask({"cancel": True})
        return {}


def main(cases: list[Case], rounds: int, seconds: float, warm_up: float, interval: str) -> None:
    found: list[list[object]] = []
    with ExitStack() as stack:
        broker = stack.enter_context(a_broker())
        server = stack.enter_context(a_server("--connectors", "kafka"))
        headgate = HeadgateJobs(server, broker, interval)
        styles: dict[str, Jobs] = {"micro_batch": headgate, "real_time": headgate}
        if any(case.style == "flink" for case in cases):
            log = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hgbench"))) / "log"
            flink = stack.enter_context(a_flink(FLINK, log, f"{interval[:-1]} {interval[-1]}"))
            styles["flink"] = FlinkJobs(flink, broker)
        for number in range(rounds):
            for case in cases:
                clock = measure(styles[case.style], broker, case, number, seconds, warm_up)
                figures = [f"{clock.percentile(share):.1f}" for share in (0.5, 0.9, 0.99, 1.0)]
                say(f"{case.name}: p50 {figures[0]} ms, p99 {figures[2]} ms")
                phases = ", ".join(f"{name} {spent:.0f}" for name, spent in clock.phases.items())
                measured = len(clock.latencies)
                found.append([case.kind, case.rate, case.style, measured, *figures, phases])
    names = ["p50, ms", "p90, ms", "p99, ms", "largest, ms"]
    table(["job", "records/s", "style", "measured", *names, "a batch, ms"], found, "latency")


def measure(
    jobs: Jobs, broker: Broker, case: Case, number: int, seconds: float, warm_up: float
) -> Clock:
    topic = broker.create(f"in-{case.name}-{number}", _PARTITIONS)
    out = broker.create(f"out-{case.name}-{number}", _PARTITIONS)
    clock = Clock()
    jobs.start(case, topic, out)
    sender, receiver = Sender(broker, topic, case.rate, clock), Receiver(broker, out, clock)
    receiver.start()
    sender.start()
    try:
        eventually(lambda: receiver.rows > 0, within=_LONG, explain=jobs.explain)
        time.sleep(warm_up)
        clock.counts_from = time.perf_counter()
        time.sleep(seconds)
    finally:
        sender.ends.set()
        sender.join()
        eventually(lambda: not clock.sent, within=_LONG, explain=lambda: f"{len(clock.sent)} left")
        receiver.ends.set()
        receiver.join()
        clock.phases = jobs.end()
    return clock


def phases_of(server: ServerProcess, job: str) -> dict[str, float]:
    """The mean time of a batch in each phase, over all samples of the job."""
    found: dict[str, float] = {}
    for region in server.get(f"/v1/jobs/{job}/samples")["regions"]:
        for phase, series in region["phases_ms"].items():
            known = [one for one in series if one is not None]
            if known:
                found[phase] = sum(known) / len(known)
    return found


def document(broker: Broker, topic: str, out: str, case: Case, interval: str) -> dict[str, Any]:
    kafka = {"connector": "kafka", "servers": broker.servers, "format": "json"}
    source = {"id": "input", "op": "source", "topic": topic, "schema": "k INT, n BIGINT", **kafka}
    counts = {
        "id": "counts",
        "op": "aggregate",
        "inputs": ["input"],
        "key": ["k"],
        "aggregate": {"n": "count(*)"},
    }
    last = "input" if case.kind == "stateless" else "counts"
    sink = {"id": "out", "op": "sink", "inputs": [last], "topic": out, **kafka}
    return {
        "name": case.name,
        "parallelism": 2,
        "execution": {"style": case.style},
        "checkpointing": {"interval": interval},
        "vertices": [source, *([] if last == "input" else [counts]), sink],
    }


def _cases(kinds: str, styles: str, rates: str) -> Iterator[Case]:
    for rate in rates.split(","):
        for kind in kinds.split(","):
            for style in styles.split(","):
                yield Case(kind, style, int(rate))


def _arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.latency")
    parser.add_argument("--seconds", type=float, default=60.0, help="measured for each job")
    parser.add_argument("--warm-up", type=float, default=20.0, help="seconds before that")
    parser.add_argument("--interval", default="30s", help="the checkpoint interval")
    parser.add_argument("--rates", default="200,10000")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--styles", default=",".join(STYLES))
    parser.add_argument("--rounds", type=int, default=1)
    return parser.parse_args(given)


if __name__ == "__main__":
    asked = _arguments(sys.argv[1:])
    chosen = list(_cases(asked.kinds, asked.styles, asked.rates))
    if not FLINK.exists() and any(case.style == "flink" for case in chosen):
        say("Flink is left out: make bench-flink installs it")
        chosen = [case for case in chosen if case.style != "flink"]
    main(
        chosen,
        asked.rounds,
        asked.seconds,
        asked.warm_up,
        asked.interval,
    )
