"""Accumulators: named numbers that user code adds to, visible while the job runs.

What a batch adds counts when the batch is committed, exactly once, however often the batch is
run. Each vertex has its own names: two vertices may use the same name.
"""

from dataclasses import dataclass
from enum import StrEnum

Number = int | float


class Merge(StrEnum):
    """How two values of an accumulator are merged."""

    SUM = "sum"
    LOWEST = "lowest"
    HIGHEST = "highest"


@dataclass(frozen=True, slots=True)
class Tally:
    """One accumulator's value."""

    merge: Merge
    value: Number

    def with_(self, other: "Tally") -> "Tally":
        if self.merge is Merge.SUM:
            return Tally(self.merge, self.value + other.value)
        choose = min if self.merge is Merge.LOWEST else max
        return Tally(self.merge, choose(self.value, other.value))


_current: dict[str, Tally] = {}
_sums: dict[str, Number] = {}


def count(name: str, by: Number = 1) -> None:
    """Adds to the sum with that name."""
    # by far the most frequent call, possibly for each row
    _sums[name] = _sums.get(name, 0) + by


def lowest(name: str, value: Number) -> None:
    """Keeps the lowest value with that name."""
    _add(name, Tally(Merge.LOWEST, value))


def highest(name: str, value: Number) -> None:
    """Keeps the highest value with that name."""
    _add(name, Tally(Merge.HIGHEST, value))


def take() -> dict[str, Tally]:
    """Returns what was added since the last call, and resets it."""
    found = merged(_current, {name: Tally(Merge.SUM, value) for name, value in _sums.items()})
    _current.clear()
    _sums.clear()
    return found


def merged(one: dict[str, Tally], other: dict[str, Tally]) -> dict[str, Tally]:
    """Merges both; a name that is used in two ways keeps its first use."""
    found = dict(one)
    for name, tally in other.items():
        if name not in found:
            found[name] = tally
        elif found[name].merge is tally.merge:
            found[name] = found[name].with_(tally)
    return found


def _add(name: str, tally: Tally) -> None:
    _current.update(merged({name: _current[name]} if name in _current else {}, {name: tally}))
