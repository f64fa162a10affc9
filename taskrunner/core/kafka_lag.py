"""How far a Kafka source is behind, partition by partition: in records, and in seconds."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jobmanager.core.progress import PartitionLag

Place = tuple[str, int]
"""Topic and partition."""


def offsets_in(document: Any) -> dict[Place, int]:
    """The offsets in Spark's JSON `{topic: {partition: offset}}`, as text or parsed."""
    try:
        parsed = json.loads(document) if isinstance(document, str) else document
    except ValueError:
        return {}
    return dict(_offsets(parsed)) if isinstance(parsed, Mapping) else {}


def _offsets(parsed: Mapping[str, Any]) -> Iterator[tuple[Place, int]]:
    for topic, partitions in parsed.items():
        if isinstance(partitions, Mapping):
            for partition, offset in partitions.items():
                yield (str(topic), int(partition)), int(offset)


def records_between(start: Any, end: Any) -> int:
    """How many records there are at most between two offsets of Spark. A partition that only the
    second names is new, and begins at 0.
    """
    before = offsets_in(start)
    return sum(max(0, offset - before.get(place, 0)) for place, offset in offsets_in(end).items())


@dataclass(slots=True)
class UnreadRecords:
    """When the first records that were not read were written, as last measured."""

    positions: dict[Place, int] = field(default_factory=dict)
    """Where the source was when that was measured."""
    written_ms: dict[Place, int] = field(default_factory=dict)
    """The timestamp of the record at that position, in milliseconds since 1970."""

    def measured(self, positions: Mapping[Place, int], written_ms: Mapping[Place, int]) -> None:
        self.positions = dict(positions)
        self.written_ms = dict(written_ms)

    def age(self, place: Place, now_ms: int) -> float | None:
        """The age of the first record that was not read, in seconds; None: not measured. If the
        source has read on since, the next record is younger than this.
        """
        written = self.written_ms.get(place)
        return None if written is None else max(0.0, (now_ms - written) / 1000)


def lags(
    read: Mapping[Place, int], ends: Mapping[Place, int], unread: UnreadRecords, now_ms: int
) -> list[PartitionLag]:
    """The lag of each partition: `read` are the offsets up to which the source has read."""
    found = []
    for place, end in sorted(ends.items()):
        position = read.get(place, 0)
        rows = max(0, end - position)
        found.append(
            PartitionLag(
                partition=f"{place[0]}-{place[1]}",
                position=position,
                end=end,
                rows=rows,
                seconds=unread.age(place, now_ms) if rows else 0.0,
            )
        )
    return found
