"""Stacks of threads as texts: the JVM's text in pieces, and all of them within bounds."""

import re
from collections.abc import Iterable, Iterator

from jobmanager.protocol.messages import RunnerThread

_MOST_THREADS = 1_000
_MOST_OF_ONE = 16 * 1024
_MOST_OF_ALL = 1024 * 1024
"""Characters."""
_HEAD = re.compile(r'^"(?P<name>.*?)"(?= |$)')


def of_jvm(printed: str) -> Iterator[RunnerThread]:
    """Return the threads of a JVM, from what `Thread.print` prints: a block for each, which begins
    with its name in quotes.
    """
    for block in re.split(r"\n\s*\n", printed):
        head = _HEAD.match(block.strip())
        if head is not None:
            yield RunnerThread(name=f"jvm: {head['name']}", text=block.strip() + "\n")


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
