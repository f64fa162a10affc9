"""Key groups: the unit in which keyed state is assigned, snapshotted and moved.

A key belongs to one of `max_parallelism` key groups for the life of the job:
`pmod(spark_hash(key), max_parallelism)`. Spark keeps a key in state partition
`pmod(spark_hash(key), parallelism)`. Where parallelism divides max_parallelism
the two agree, and the owner of a group is simply `group % parallelism`.
Rescaling changes which subtask owns a group, never which group owns a key.

A keyed vertex without a key is one group for Spark, in one state partition: subtask 0 owns every
key group, whatever the parallelism.

A keyed vertex in Python is called once for each key group, and keeps one value for all keys of the
group. There the group's number is Spark's key, and the owner is the hash of that number modulo
parallelism.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache

from jobmanager.core.graph.state_layout import Layout as Layout
from jobmanager.core.plan import spark_hash


def subtasks(layout: Layout, parallelism: int) -> int:
    """Return how many state partitions a vertex with this layout has."""
    return 1 if layout is Layout.SINGLE else parallelism


def owner(layout: Layout, key_group: int, parallelism: int) -> int:
    """Return the subtask that owns `key_group`."""
    match layout:
        case Layout.SINGLE:
            return 0
        case Layout.HASHED:
            return key_group % parallelism
        case Layout.GROUPED:
            return spark_hash.hash_int(key_group) % parallelism


def owned(layout: Layout, subtask: int, parallelism: int, max_parallelism: int) -> Sequence[int]:
    """Return the key groups that `subtask` owns."""
    match layout:
        case Layout.SINGLE:
            return range(max_parallelism)
        case Layout.HASHED:
            return range(subtask, max_parallelism, parallelism)
        case Layout.GROUPED:
            return _grouped(parallelism, max_parallelism)[subtask]


@cache
def _grouped(parallelism: int, max_parallelism: int) -> Sequence[Sequence[int]]:
    """Return the key groups of each subtask, in one pass over all groups."""
    found: list[list[int]] = [[] for _ in range(parallelism)]
    for group in range(max_parallelism):
        found[owner(Layout.GROUPED, group, parallelism)].append(group)
    return found


def moves(
    layout: Layout, before: int, after: int, max_parallelism: int
) -> Mapping[tuple[int, int], Sequence[int]]:
    """Return the key groups whose owner changes between two parallelisms, by old and new owner."""
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for group in range(max_parallelism):
        old, new = owner(layout, group, before), owner(layout, group, after)
        if old != new:
            found[old, new].append(group)
    return found
