"""Stacks of threads as texts, within bounds."""

import json
from collections.abc import Iterable, Iterator

from jobmanager.protocol.messages import RunnerThread

_MOST_THREADS = 1_000
_MOST_OF_ONE = 16 * 1024
_MOST_OF_ALL = 1024 * 1024
"""Characters."""


def of_jvm(told: str) -> Iterator[RunnerThread]:
    """Return the threads of a JVM, from the JSON of Spark's thread dump."""
    for one in json.loads(told):
        name = str(one.get("threadName"))
        stack = (one.get("stackTrace") or {}).get("elems") or ()
        lines = [f'"{name}" Id={one.get("threadId")} {one.get("threadState")}']
        lines += [f"    at {str(frame).strip()}" for frame in stack]
        yield RunnerThread(name=f"jvm: {name}", text="\n".join(lines) + "\n")


def bounded(threads: Iterable[RunnerThread]) -> list[RunnerThread]:
    """Return the threads, long texts cut, and only as many as fit."""
    found: list[RunnerThread] = []
    left = _MOST_OF_ALL
    for one in threads:
        text = one.text
        if len(text) > _MOST_OF_ONE:
            text = text[:_MOST_OF_ONE] + "\n… cut\n"
        left -= len(text)
        if left < 0 or len(found) == _MOST_THREADS:
            found.append(RunnerThread(name="…", text="further threads are left out\n"))
            break
        found.append(RunnerThread(name=one.name[:500], text=text))
    return found
