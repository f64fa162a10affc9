"""Whether a process is as it was before it served a job, judged by what is left in it.

The first traces are taken when the session is new. What a job leaves that the next job could see,
or that grows with every job, is a doubt, and a process with a doubt serves no other job.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MOST_HEAP_SHARE = 0.6
"""Of the heap, after a garbage collection."""
MOST_NEW_THREADS = 24
"""Without the threads of Spark's pools."""
MOST_RESIDENT_GROWTH = 256 * 2**20
MOST_NEW_FILES = 512 * 2**20
_OF_JOBS = (
    "stream execution thread",
    "stdout writer for",
    "writer for",
    "worker monitor for",
    "python-udf",
    "state-store-maintenance",
)
"""How the names of threads begin that Spark runs for one query, or one Python worker."""
_OF_POOLS = (
    "block-manager-",
    "broadcast-exchange",
    "dispatcher-",
    "executor task launch worker",
    "files-client",
    "forkjoinpool",
    "map-output-dispatcher",
    "netty",
    "querystagecreator",
    "resultquerystage",
    "rpc-",
    "shuffle-",
    "subquery",
    "task-result-getter",
    "thread-",
)
"""How the names of threads begin that Spark keeps for later, in pools of a bounded size."""
_OF_ATTEMPTS = (
    "attempt",
    "barriers",
    "batch-",
    "heartbeats",
    "directives",
    "reports",
    "last resort",
)
"""How the names of the runner's own threads begin that belong to an attempt."""
_THREAD = re.compile(r"Thread\[(?:#\d+,)?(.*?),\d+,[^\],]*\]")


@dataclass(frozen=True, slots=True)
class ProcessTraces:
    jvm_threads: tuple[str, ...] = ()
    python_threads: tuple[str, ...] = ()
    heap_used_bytes: int = 0
    heap_max_bytes: int = 1
    resident_bytes: int = 0
    """Of the Python process alone."""
    file_bytes: int = 0
    """In the temporary directory of the process."""
    active_jobs: int = 0
    active_queries: int = 0
    cached: int = 0
    """Data sets that Spark keeps."""
    tables: tuple[str, ...] = ()
    """Tables and views that all sessions of the JVM see."""
    workers: int = 0
    """Python workers and their daemons."""


def doubts(first: ProcessTraces, left: ProcessTraces) -> list[str]:
    """Return what speaks against giving the process to another job."""
    return [*_leftovers(left), *_left_threads(left), *_growth(first, left)]


def thread_names(described: str) -> tuple[str, ...]:
    """Return the names in the text of a set of Java threads: `[Thread[#1,main,5,main], …]`."""
    return tuple(_THREAD.findall(described))


def _leftovers(left: ProcessTraces) -> Iterable[str]:
    for what, count in (
        ("Spark jobs run", left.active_jobs),
        ("streaming queries run", left.active_queries),
        ("data sets are cached", left.cached),
        ("Python workers run", left.workers),
    ):
        if count:
            yield f"{count} {what}"
    if left.tables:
        yield f"tables and views are left: {', '.join(sorted(left.tables))}"


def _left_threads(left: ProcessTraces) -> Iterable[str]:
    if of_jobs := _beginning(left.jvm_threads, _OF_JOBS):
        yield f"threads of Spark are left: {', '.join(of_jobs)}"
    if of_attempts := _beginning(left.python_threads, _OF_ATTEMPTS):
        yield f"threads of the runner are left: {', '.join(of_attempts)}"


def _growth(first: ProcessTraces, left: ProcessTraces) -> Iterable[str]:
    for kind, before, after in (
        ("Spark", first.jvm_threads, left.jvm_threads),
        ("Python", first.python_threads, left.python_threads),
    ):
        new = Counter(map(_family, _outside_pools(after)))
        new -= Counter(map(_family, _outside_pools(before)))
        if new.total() > MOST_NEW_THREADS:
            most = ", ".join(f"{count} of {name!r}" for name, count in new.most_common(3))
            yield f"{kind} has {new.total()} threads more than at first: {most}"
    if left.heap_used_bytes > MOST_HEAP_SHARE * left.heap_max_bytes:
        yield (
            f"{_megabytes(left.heap_used_bytes)} of the heap's "
            f"{_megabytes(left.heap_max_bytes)} are in use"
        )
    if (grown := left.resident_bytes - first.resident_bytes) > MOST_RESIDENT_GROWTH:
        yield f"Python's memory has grown by {_megabytes(grown)}"
    if (grown := left.file_bytes - first.file_bytes) > MOST_NEW_FILES:
        yield f"{_megabytes(grown)} of temporary files are left"


def _beginning(names: Sequence[str], prefixes: tuple[str, ...]) -> list[str]:
    return sorted({name for name in names if name.lower().startswith(prefixes)})


def _outside_pools(names: Sequence[str]) -> list[str]:
    return [name for name in names if not name.lower().startswith(_OF_POOLS)]


def _family(name: str) -> str:
    return re.sub(r"\d+", "N", name)


def _megabytes(size: int) -> str:
    return f"{size / 2**20:.0f} MB"
