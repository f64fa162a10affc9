"""Memory that a flood of requests took goes back to the machine."""

import asyncio
import subprocess
import sys

from jobmanager.memory_return import MemoryReturn

_MIB = 2**20
_PROGRAM = """
import asyncio, gc, psutil
from jobmanager.cycle_collection import collect_rarely
from jobmanager.memory_return import MemoryReturn, use_few_heaps

class Connection:
    def __init__(self):
        self.protocol = [self, bytes(2000)]

def mib():
    return psutil.Process().memory_info().rss >> 20

use_few_heaps()
collect_rarely()
gc.set_threshold(10**9)  # as if the flood were over before the collector's next look
returning = MemoryReturn()
before = mib()
flood = [Connection() for _ in range(50_000)]
del flood
flooded = mib()
asyncio.run(returning.run_once())
print(before, flooded, mib())
"""


def test_what_a_flood_left_behind_is_freed_and_returned() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM], check=True, capture_output=True, text=True
    )
    before, flooded, after = map(int, ran.stdout.splitlines()[-1].split())

    assert flooded > before + 90
    assert after < before + 20


def test_the_collector_is_left_alone_while_memory_grows_little() -> None:
    asked: list[int] = []
    sizes = iter([100, 110, 115, 120, 105])

    def memory() -> int:
        asked.append(1)
        return next(sizes) * _MIB

    returning = MemoryReturn(memory)
    asyncio.run(_run(returning, times=3))
    # At start, and once for each run: the third run, 20 MiB above the least, also looks afterwards.
    assert len(asked) == 5


async def _run(returning: MemoryReturn, times: int) -> None:
    for _ in range(times):
        await returning.run_once()
