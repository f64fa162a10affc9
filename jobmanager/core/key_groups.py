"""Key groups: the unit in which keyed state is assigned, snapshotted and moved.

A key belongs to one of `max_parallelism` key groups for the life of the job:
`pmod(spark_hash(key), max_parallelism)`. Spark keeps a key in state partition
`pmod(spark_hash(key), parallelism)`. Where parallelism divides max_parallelism
the two agree, and the owner of a group is simply `group % parallelism`.
Rescaling changes which subtask owns a group, never which group owns a key.

A keyed vertex without a key is one group for Spark, in one state partition:
there subtask 0 owns every group, whatever the parallelism.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from enum import StrEnum


class Layout(StrEnum):
    """Where Spark keeps the keyed state of a vertex."""

    HASHED = "hashed"
    """State partition = key group modulo parallelism."""
    SINGLE = "single"
    """No key: one state partition holds everything."""


def subtasks(layout: Layout, parallelism: int) -> int:
    """How many state partitions a vertex of this layout has."""
    return 1 if layout is Layout.SINGLE else parallelism


def owner(layout: Layout, key_group: int, parallelism: int) -> int:
    """The subtask that owns `key_group`."""
    return 0 if layout is Layout.SINGLE else key_group % parallelism


def owned(layout: Layout, subtask: int, parallelism: int, max_parallelism: int) -> Sequence[int]:
    """The key groups that `subtask` owns."""
    if layout is Layout.SINGLE:
        return range(max_parallelism)
    return range(subtask, max_parallelism, parallelism)


def moves(
    layout: Layout, before: int, after: int, max_parallelism: int
) -> Mapping[tuple[int, int], Sequence[int]]:
    """The key groups that get another owner from one parallelism to the other, by the old
    owner and the new one.
    """
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for group in range(max_parallelism):
        old, new = owner(layout, group, before), owner(layout, group, after)
        if old != new:
            found[old, new].append(group)
    return found


def divisors(max_parallelism: int) -> list[int]:
    """Every parallelism that `max_parallelism` key groups allow."""
    return [p for p in range(1, max_parallelism + 1) if max_parallelism % p == 0]
