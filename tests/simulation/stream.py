"""The input of a simulated job, its state in Spark, and its expected output.

Row `i` of a source has key `i % KEYS`. A region counts the rows of each key and emits, for each
row, its number and the count so far. `Counts` is the state of the simulated Spark, partition by
partition, batch after batch. `expected` computes the same without any state, batch or restore: the
independent recomputation that output is compared with.
"""

from dataclasses import dataclass

from jobmanager.core.plan import key_groups
from jobmanager.core.plan.key_groups import Layout

KEYS = 5
MAX_PARALLELISM = 4

OutputRow = tuple[int, int]
"""The number of the row, and how many rows of its key there are up to it."""


def expected(row: int) -> OutputRow:
    return row, row // KEYS + 1


def expected_count(key: int, rows: int) -> int:
    """How many of the first `rows` rows have this key."""
    return (rows - key + KEYS - 1) // KEYS if rows > key else 0


def partition_of(key: int, parallelism: int) -> int:
    """Where Spark keeps a key: the hash of a key is the key itself here."""
    return key % parallelism


def key_group_of(key: int) -> int:
    return key % MAX_PARALLELISM


@dataclass(frozen=True, slots=True)
class StateFile:
    """The state of one partition after a batch: immutable, and shared by later batches that
    leave the partition alone.
    """

    name: str
    counts: tuple[tuple[int, int], ...]
    """Key to count."""


Counts = tuple[StateFile, ...]
"""One file a partition."""


def empty_state(parallelism: int, name: str) -> Counts:
    return tuple(StateFile(f"{name}-{p}", ()) for p in range(parallelism))


def advance(state: Counts, start: int, end: int, name: str) -> tuple[Counts, list[OutputRow]]:
    """The state after the rows from `start` to `end`, and what they give out."""
    partitions = [dict(file.counts) for file in state]
    touched: set[int] = set()
    rows: list[OutputRow] = []
    for row in range(start, end):
        key = row % KEYS
        place = partition_of(key, len(state))
        counts = partitions[place]
        counts[key] = counts.get(key, 0) + 1
        touched.add(place)
        rows.append((row, counts[key]))
    after = tuple(
        StateFile(f"{name}-{p}", tuple(sorted(partitions[p].items()))) if p in touched else file
        for p, file in enumerate(state)
    )
    return after, rows


def repartitioned(state: Counts, parallelism: int, name: str) -> Counts:
    """The state rewritten for another parallelism, as Spark's offline rewrite does."""
    partitions: list[dict[int, int]] = [{} for _ in range(parallelism)]
    for file in state:
        for key, count in file.counts:
            partitions[partition_of(key, parallelism)][key] = count
    return tuple(
        StateFile(f"{name}-{p}", tuple(sorted(counts.items())))
        for p, counts in enumerate(partitions)
    )


def fault_in(state: Counts, rows: int) -> str | None:
    """What is wrong with the state after the first `rows` rows; None: nothing."""
    found: dict[int, int] = {}
    for place, file in enumerate(state):
        for key, count in file.counts:
            if key in found:
                return f"key {key} is in two partitions"
            owner = key_groups.owner(Layout.HASHED, key_group_of(key), len(state))
            if owner != place:
                return f"key {key} is in partition {place}, its key group belongs to {owner}"
            found[key] = count
    wanted = {key: expected_count(key, rows) for key in range(KEYS) if rows > key}
    return None if found == wanted else f"counts are {found}, and {wanted} after {rows} rows"
