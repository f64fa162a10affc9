"""The bound on RocksDB's memory: how much native memory the state of a JVM may take.

Without a bound, every state partition has a block cache and write buffers of its own outside of
the heap, so that a job with many partitions or regions outgrows the memory of its machine. With a
bound, all RocksDB instances of a JVM share one cache, and write buffers are charged to that cache.
RocksDB takes the bound as a target: blocks in use by a running task may exceed the target for a
moment.
"""

import re
from collections.abc import Mapping

from taskrunner.core.memory_sizes import megabytes

_ROCKSDB = "spark.sql.streaming.stateStore.rocksdb"
BOUNDED = f"{_ROCKSDB}.boundedMemoryUsage"
MAX_MEGABYTES = f"{_ROCKSDB}.maxMemoryUsageMB"
OF_THE_JVM = frozenset(
    {
        BOUNDED,
        MAX_MEGABYTES,
        f"{_ROCKSDB}.writeBufferCacheRatio",
        f"{_ROCKSDB}.highPriorityPoolRatio",
    }
)
"""Settings that a JVM reads at its first RocksDB instance and keeps until the JVM ends."""

LEAST_MEGABYTES_PER_SLOT = 64
"""Each task that runs needs its write buffers and the blocks that the task reads."""


def bounds(chosen: Mapping[str, str], *, cores: int) -> dict[str, str]:
    """Settings that bound RocksDB's memory in each JVM with state, for a session with the settings
    `chosen` on a machine with so many `cores`: half of the heap, and at least 64 MB for each slot.
    """
    master = chosen.get("spark.master", "local[*]")
    if master.startswith("local"):
        heap = chosen.get("spark.driver.memory", "")
        slots = _local_slots(master, cores)
    else:
        heap = chosen.get("spark.executor.memory", "")
        slots = int(chosen.get("spark.executor.cores", "1"))
    bound = max(megabytes(heap) // 2, slots * LEAST_MEGABYTES_PER_SLOT)
    return {BOUNDED: "true", MAX_MEGABYTES: str(bound)}


def _local_slots(master: str, cores: int) -> int:
    found = re.fullmatch(r"local\[(\*|\d+)(?:,.*)?\]", master.replace(" ", ""))
    if found is None:
        return 1
    return cores if found[1] == "*" else int(found[1])
