"""The collector of cycles is slower to begin in a server, and does not stop."""

import subprocess
import sys

_PROGRAM = """
import gc, weakref
from jobmanager.cycle_collection import collect_rarely

class Node:
    pass

def forget_a_cycle():
    node = Node()
    node.itself = node
    return weakref.ref(node)

from_start = Node()
collect_rarely()
first = forget_a_cycle()
for _ in range({cycles}):
    forget_a_cycle()
is_visited = any(one is from_start for one in gc.get_objects())
print("freed" if first() is None else "kept", "visited" if is_visited else "left alone")
"""


def test_few_new_objects_are_not_looked_through() -> None:
    assert _run(cycles=5_000) == "kept left alone"


def test_cycles_are_freed_and_what_was_there_at_the_start_is_not_visited() -> None:
    assert _run(cycles=100_000) == "freed left alone"


def _run(cycles: int) -> str:
    program = _PROGRAM.format(cycles=cycles)
    return subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.strip()
