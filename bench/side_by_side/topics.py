"""Fills topics of a Kafka broker with the rows of a table."""

from pathlib import Path

from confluent_kafka import Producer

from bench.side_by_side.input_data import Table

_filled: set[str] = set()


def fill(servers: str, table: Table, rows: int, directory: Path) -> str:
    """Sends the rows, unless they are there; returns the topic. Each file goes to a partition."""
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    topic = f"{table.name}-{rows}"
    if topic in _filled:
        return topic
    files = sorted(directory.glob("*.json"))
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, len(files), 1)])[topic].result(30)
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000}
    )
    for partition, file in enumerate(files):
        with file.open("rb") as lines:
            for line in lines:
                while True:
                    try:
                        producer.produce(topic, line.rstrip(b"\n"), partition=partition)
                        break
                    except BufferError:
                        producer.poll(0.1)
            producer.poll(0)
    assert producer.flush(120) == 0
    _filled.add(topic)
    return topic
