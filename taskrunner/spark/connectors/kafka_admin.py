"""What a Kafka source asks and tells the brokers beside reading, by clients in the driver's JVM."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from jobmanager.core.graph.connectors.kafka_fields import TopicSelection
from taskrunner.core.kafka_lag import Place
from taskrunner.spark.connectors.kafka_transactions import kafka_calls
from taskrunner.spark.session.compiled_java import java_map

_BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_WITHIN_MS = 2000


class KafkaAdmin:
    """The brokers of one source."""

    def __init__(self, spark: SparkSession, settings: Mapping[str, str]) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm
        self._settings = settings

    def commit(self, group: str, offsets: Mapping[Place, int]) -> None:
        """Commits offsets to a consumer group, which must have no members."""
        with self._admin() as admin:
            places = self._jvm.java.util.HashMap()
            committed = self._jvm.org.apache.kafka.clients.consumer.OffsetAndMetadata
            for place, offset in offsets.items():
                places.put(self._partition(place), committed(offset))
            admin.alterConsumerGroupOffsets(group, places).all().get()

    def ends(self, places: Mapping[Place, int]) -> dict[Place, int]:
        """The offset after the last record, of each of these partitions."""
        latest = self._jvm.org.apache.kafka.clients.admin.OffsetSpec.latest()
        with self._admin() as admin:
            asked = self._jvm.java.util.HashMap()
            for place in places:
                asked.put(self._partition(place), latest)
            found = admin.listOffsets(asked)
            return {
                place: int(found.partitionResult(self._partition(place)).get().offset())
                for place in places
            }

    def partitions(self, wanted: TopicSelection) -> int:
        """The number of partitions of all these topics together."""
        with self._admin() as admin:
            topics: Any = self._jvm.java.util.HashSet()
            if wanted.pattern is None:
                for topic in wanted.topics:
                    topics.add(topic)
            else:
                # as Spark does, which matches whole names by Java's rules
                pattern = self._jvm.java.util.regex.Pattern.compile(wanted.pattern)
                for topic in admin.listTopics().names().get():
                    if pattern.matcher(topic).matches():
                        topics.add(topic)
            found = admin.describeTopics(topics).allTopicNames().get()
            return sum(found.get(topic).partitions().size() for topic in topics)

    def written_ms(self, positions: Mapping[Place, int]) -> dict[Place, int]:
        """The timestamps of the records at these positions, as far as they answer in time."""
        if not positions:
            return {}
        own = {
            **self._settings,
            "key.deserializer": _BYTES,
            "value.deserializer": _BYTES,
            "enable.auto.commit": "false",
            "max.poll.records": "1",
            "isolation.level": "read_uncommitted",
        }
        settings = java_map(self._jvm, own)
        consumer = self._jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
        try:
            asked = self._jvm.java.util.HashMap()
            for place, offset in positions.items():
                asked.put(self._partition(place), offset)
            found = kafka_calls(self._spark).oldest(consumer, asked, _WITHIN_MS)
            answers = {place: found.get(self._partition(place)) for place in positions}
            return {place: int(one) for place, one in answers.items() if one is not None}
        finally:
            consumer.close()

    def _partition(self, place: Place) -> Any:
        return self._jvm.org.apache.kafka.common.TopicPartition(*place)

    @contextmanager
    def _admin(self) -> Iterator[Any]:
        own = {"default.api.timeout.ms": "10000", "request.timeout.ms": "8000", **self._settings}
        made = self._jvm.org.apache.kafka.clients.admin.Admin.create(java_map(self._jvm, own))
        try:
            yield made
        finally:
            made.close(self._jvm.java.time.Duration.ofSeconds(5))
