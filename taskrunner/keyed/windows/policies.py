"""Triggers and evictors: when a window emits, and which rows are removed before."""

from collections.abc import Sequence
from typing import Any

from taskrunner.keyed.windows.aggregators import Columns
from taskrunner.keyed.windows.spec import (
    EveryRows,
    Evictor,
    KeepNear,
    KeepRows,
    KeepTime,
    Trigger,
    WhenMoved,
)


def cuts(
    trigger: Trigger, memory: Any, columns: Columns, begin: int, end: int
) -> tuple[Sequence[int], Any]:
    """The positions after which the window emits, and the trigger's new memory. Triggers that wait
    for a time have no such positions.
    """
    if isinstance(trigger, EveryRows):
        return _cuts_by_count(trigger.count, memory or 0, begin, end)
    if isinstance(trigger, WhenMoved):
        return _cuts_by_delta(trigger, memory, columns, begin, end)
    return (), memory


def merged(trigger: Trigger, memory: Any, other: Any) -> Any:
    """Merges a trigger's memory of two windows that became one."""
    if memory is None or other is None:
        return other if memory is None else memory
    return memory + other if isinstance(trigger, EveryRows) else min(memory, other)


def _cuts_by_count(count: int, memory: int, begin: int, end: int) -> tuple[Sequence[int], int]:
    first = begin + max(count - memory, 1)
    if first > end:
        return (), memory + end - begin
    found = range(first, end + 1, count)
    return found, end - found[-1]


def _cuts_by_delta(
    trigger: WhenMoved, memory: Any, columns: Columns, begin: int, end: int
) -> tuple[Sequence[int], Any]:
    found: list[int] = []
    values = columns[trigger.column]
    for at in range(begin, end):
        value = values[at]
        if value is None:
            continue
        if memory is None:
            memory = value
        elif abs(value - memory) > trigger.threshold:
            memory = value
            found.append(at + 1)
    return found, memory


def evict(evictor: Evictor, buffer: list[list[Any]]) -> list[list[Any]]:
    """The rows that remain in the buffer."""
    match evictor:
        case KeepRows(count=count):
            return [column[-count:] for column in buffer]
        case KeepTime(column=at, within_us=within):
            times = [time for time in buffer[at] if time is not None]
            if not times:
                return buffer
            earliest = max(times) - within
            return _only(buffer, [time is not None and time > earliest for time in buffer[at]])
        case KeepNear(column=at, threshold=threshold):
            last = buffer[at][-1]
            if last is None:
                return buffer
            near = [value is not None and abs(value - last) < threshold for value in buffer[at]]
            return _only(buffer, near)


def trim(evictor: Evictor, buffer: list[list[Any]]) -> list[list[Any]]:
    """The buffer without rows that the next emission would evict in any case."""
    if isinstance(evictor, KeepRows) and len(buffer[0]) > 2 * evictor.count:
        return evict(evictor, buffer)
    return buffer


def _only(buffer: list[list[Any]], keep: list[bool]) -> list[list[Any]]:
    if all(keep):
        return buffer
    return [
        [value for value, stays in zip(column, keep, strict=True) if stays] for column in buffer
    ]
