"""A real Kafka broker in a process of its own, and a plain client of it."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyspark
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.support.maven_jars import jars_of
from tests.support.server import eventually

_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
_SHIPPED_WITH_SPARK = ("scala-", "slf4j-api", "jackson-")
_QUIET: dict[str, Any] = {"log_level": 0, "error_cb": lambda error: None}
"""The client would write to the tests' output while the broker is down."""
_SECONDS = 30.0


@dataclass(frozen=True)
class Seen:
    """One record of a topic, as a consumer sees it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def json(self) -> Any:
        assert self.value is not None
        return json.loads(self.value)


class Broker:
    """A broker that can be killed and started again on the same port, with the same data."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self._directory / "broker.log"

    def start(self) -> "Broker":
        """Starts the broker, on the port it had before if it had one. Returns when it answers."""
        for _ in range(3):  # somebody may take a port before the broker does
            if not (self._directory / "server.properties").exists():
                self._format()
            self._process = self._launch("kafka.Kafka", str(self._properties))
            if self._answers():
                return self
            self.end()
            self._properties.unlink()
            self.__dict__.pop("_admin", None)
        raise AssertionError(self.log.read_text()[-3000:])

    def kill(self) -> None:
        """kill -9: the broker has no time to write anything down."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def create(self, topic: str, partitions: int = 2, **settings: str) -> str:
        made = self._admin.create_topics(
            [NewTopic(topic, partitions, 1, config=settings)], request_timeout=_SECONDS
        )
        made[topic].result(_SECONDS)
        eventually(lambda: self._has(topic, partitions), _SECONDS)
        return topic

    def grow(self, topic: str, partitions: int) -> None:
        """Adds partitions, until the topic has that many."""
        self._admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(_SECONDS)
        eventually(lambda: self._has(topic, partitions), _SECONDS)

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(_SECONDS)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Deletes the records of a partition before an offset, as its retention would."""
        at = TopicPartition(topic, partition, before)
        self._admin.delete_records([at])[at].result(_SECONDS)

    def send(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        key: str | None = None,
        partition: int = -1,
        headers: Mapping[str, str] | None = None,
        timestamp: int = 0,
    ) -> None:
        """Sends values and waits until the broker has them. Bytes are sent as they are, None is a
        tombstone, and anything else is sent as JSON.
        """
        refused: list[Any] = []
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 0, **_QUIET})
        for value in values:
            producer.produce(
                topic,
                value if isinstance(value, bytes | None) else json.dumps(value).encode(),
                key=key,
                partition=partition,
                headers=dict(headers or {}),
                timestamp=timestamp,
                on_delivery=lambda error, _: refused.append(error) if error else None,
            )
            producer.poll(0)
        assert producer.flush(_SECONDS) == 0, "the broker did not take all records"
        assert not refused, refused

    def records(self, topic: str, *, committed_only: bool = True) -> list[Seen]:
        """All records of a topic up to now, for readers of committed or of all records."""
        isolation = "read_committed" if committed_only else "read_uncommitted"
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": f"reader-{time.monotonic_ns()}",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                **_QUIET,
            }
        )
        try:
            return list(_read(consumer, topic, len(self.ends(topic))))
        finally:
            consumer.close()

    def ends(self, topic: str) -> dict[int, int]:
        """Partition to the offset after its last record; empty: there is no such topic."""
        found = self._admin.list_topics(timeout=_SECONDS).topics.get(topic)
        if found is None or found.error is not None:
            return {}
        latest: Any = OffsetSpec.latest
        answers = self._admin.list_offsets(
            {TopicPartition(topic, one): latest() for one in found.partitions}
        )
        return {at.partition: one.result(_SECONDS).offset for at, one in answers.items()}

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The offsets that a consumer group has committed."""
        asked = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        try:
            found = asked[group].result(_SECONDS).topic_partitions
        except KafkaException:
            return {}
        return {(one.topic, one.partition): one.offset for one in found if one.offset >= 0}

    def _has(self, topic: str, partitions: int) -> bool:
        """Whether the topic has so many partitions, and each its leader."""
        try:
            return len(self.ends(topic)) == partitions
        except KafkaException:
            return False

    @cached_property
    def _admin(self) -> AdminClient:
        """Kept: a client that is collected as garbage takes its calls under way with it."""
        return AdminClient({"bootstrap.servers": self.servers, **_QUIET})

    @property
    def _properties(self) -> Path:
        return self._directory / "server.properties"

    def _format(self) -> None:
        if not self.port:
            self.port = _free_port()
        data, controller = self._directory / "data", _free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(data),
            "auto.create.topics.enable": "false",
            "num.partitions": "2",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.retention.check.interval.ms": "600000",
        }
        lines = "".join(f"{name}={value}\n" for name, value in settings.items())
        self._properties.write_text(lines)
        if not data.exists():
            tool = ("kafka.tools.StorageTool", "format", "-t", _CLUSTER)
            formatted = self._launch(*tool, "-c", str(self._properties))
            assert formatted.wait(120) == 0, self.log.read_text()[-3000:]

    def _launch(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [_java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        with self.log.open("ab") as output:
            return subprocess.Popen(
                [*command, "-cp", _class_path(), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={k: v for k, v in os.environ.items() if k != "JAVA_TOOL_OPTIONS"},
                start_new_session=True,
            )

    def _answers(self) -> bool:
        """Waits until the broker answers; False: it ended before."""
        process = self._process
        assert process is not None

        def is_ready() -> bool:
            try:
                return bool(self._admin.list_topics(timeout=2).brokers)
            except KafkaException:
                return False

        eventually(
            lambda: process.poll() is not None or is_ready(),
            within=120,
            explain=lambda: self.log.read_text()[-3000:],
        )
        return process.poll() is None


@contextmanager
def a_broker() -> Iterator[Broker]:
    """A broker that runs, with an empty directory of its own. It ends with the block."""
    with tempfile.TemporaryDirectory(prefix="hgk", ignore_cleanup_errors=True) as name:
        broker = Broker(Path(name))
        try:
            yield broker.start()
        finally:
            broker.end()


def _read(consumer: Consumer, topic: str, partitions: int) -> Iterator[Seen]:
    consumer.assign([TopicPartition(topic, one, 0) for one in range(partitions)])
    ended: set[int] = set()
    deadline = time.monotonic() + 60
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"the end of {topic} was not reached in 60 s"
        found = consumer.poll(1)
        if found is None:
            continue
        partition = found.partition()
        assert partition is not None
        error = found.error()
        if error is not None:
            ended.add(partition)
            continue
        yield _seen(found)


def _seen(found: Any) -> Seen:
    headers = dict(found.headers() or [])
    timestamp = found.timestamp()[1]
    at = (found.topic(), found.partition(), found.offset())
    return Seen(*at, found.key(), found.value(), timestamp, headers)


def _class_path() -> str:
    shipped = Path(pyspark.__file__).parent / "jars"
    needed = [
        one for one in sorted(shipped.glob("*.jar")) if one.name.startswith(_SHIPPED_WITH_SPARK)
    ]
    return os.pathsep.join(map(str, [*jars_of("kafka-broker"), *needed]))


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
