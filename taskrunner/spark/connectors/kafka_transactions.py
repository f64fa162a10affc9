"""Transactions of a Kafka sink, by a producer in the driver's JVM.

One producer for each job and sink, with a fixed `transactional.id`: a new attempt's producer fences
the older one, and ends the transaction that a killed process left open. The marker is the committed
offset of a consumer group that no consumer uses; it is part of the transaction.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from taskrunner import logs
from taskrunner.spark.session.compiled_java import KAFKA_CALLS, java_map, java_object
from taskrunner.spark.session.hadoop_path import hadoop_path

STAGED = "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, "
STAGED += "partition INT, timestamp BIGINT"
"""The columns of staged rows, in the order in which `KafkaCalls` sends them."""
_BYTES = "org.apache.kafka.common.serialization.ByteArraySerializer"
_producers: dict[str, Any] = {}
"""The open producers of this process, by transactional id. A runner has one job after the other."""
log = logs.get("kafka")

DEFAULTS: Mapping[str, str] = {
    "acks": "all",
    "enable.idempotence": "true",
    # as long as brokers allow: a transaction that takes longer is aborted
    "transaction.timeout.ms": "900000",
    "max.block.ms": "30000",
    "linger.ms": "5",
}


def kafka_calls(spark: SparkSession) -> Any:
    """An object of the class `KafkaCalls`."""
    return java_object(spark, KAFKA_CALLS)


class KafkaTransactions:
    """The transactions of one sink, as `StagedTransactions` uses them."""

    def __init__(
        self, spark: SparkSession, name: str, topic: str, settings: Mapping[str, str]
    ) -> None:
        """`name` is the transactional id, and the group that keeps the marker; `settings` are
        those of a Kafka client.
        """
        self._spark = spark
        self._jvm: Any = spark._jvm
        self._name = name
        self._topic = topic
        self._settings = settings
        self._calls: Any = None
        self._producer: Any = None

    def take_over(self) -> int | None:
        self.close()
        older = _producers.pop(self._name, None)  # of an earlier attempt in this same process
        if older is not None:
            self._close(older)
        own = {
            **DEFAULTS,
            **self._settings,
            "transactional.id": self._name,
            "key.serializer": _BYTES,
            "value.serializer": _BYTES,
        }
        self._producer = self._jvm.org.apache.kafka.clients.producer.KafkaProducer(
            java_map(self._jvm, own)
        )
        _producers[self._name] = self._producer
        self._producer.initTransactions()
        return self._marker()

    def publish(self, files: Sequence[Path], marker: int) -> None:
        assert self._producer is not None, "the sink has not taken over"
        if self._calls is None:
            self._calls = kafka_calls(self._spark)
        self._producer.beginTransaction()
        if files:
            staged = self._spark.read.schema(STAGED).parquet(*(hadoop_path(one) for one in files))
            rows: Any = staged._jdf.toLocalIterator()
            self._calls.send(self._producer, self._topic, rows)
        group = self._jvm.org.apache.kafka.clients.consumer.ConsumerGroupMetadata(self._name)
        self._producer.sendOffsetsToTransaction(self._offsets(marker), group)
        self._producer.commitTransaction()

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            if _producers.get(self._name) is producer:
                del _producers[self._name]
            self._close(producer)

    def _close(self, producer: Any) -> None:
        try:
            producer.close(self._jvm.java.time.Duration.ofSeconds(5))
        except Exception as error:  # it may be broken, or its JVM gone
            log.warning("producer_not_closed", reason=f"{type(error).__name__}: {error}")

    def _marker(self) -> int | None:
        clients = self._jvm.org.apache.kafka.clients.admin
        admin = clients.Admin.create(java_map(self._jvm, self._settings))
        try:
            stable = clients.ListConsumerGroupOffsetsOptions().requireStable(True)
            asked = admin.listConsumerGroupOffsets(self._name, stable)
            found = asked.partitionsToOffsetAndMetadata().get().get(self._place)
            return None if found is None else int(found.offset())
        finally:
            admin.close(self._jvm.java.time.Duration.ofSeconds(5))

    def _offsets(self, marker: int) -> Any:
        offsets = self._jvm.java.util.HashMap()
        committed = self._jvm.org.apache.kafka.clients.consumer.OffsetAndMetadata
        offsets.put(self._place, committed(marker, "batches published by Headgate"))
        return offsets

    @property
    def _place(self) -> Any:
        """The partition under which the group keeps the marker: partition 0 always exists."""
        return self._jvm.org.apache.kafka.common.TopicPartition(self._topic, 0)
