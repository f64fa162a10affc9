"""Named numbers that code of users adds to, seen while the job runs.

What is added in a batch counts when the batch is committed, and once, however often the batch
is run. Names are the vertex's own: two vertices may use the same one.
"""

from dataclasses import dataclass
from enum import StrEnum

Number = int | float


class Merge(StrEnum):
    """How two values of an accumulator become one."""

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
    """Adds to the sum of that name."""
    # by far the most frequent, and called once a row
    _sums[name] = _sums.get(name, 0) + by


def lowest(name: str, value: Number) -> None:
    """Keeps the lowest value of that name."""
    _add(name, Tally(Merge.LOWEST, value))


def highest(name: str, value: Number) -> None:
    """Keeps the highest value of that name."""
    _add(name, Tally(Merge.HIGHEST, value))


def take() -> dict[str, Tally]:
    """What was added since the last time, which is forgotten."""
    found = merged(_current, {name: Tally(Merge.SUM, value) for name, value in _sums.items()})
    _current.clear()
    _sums.clear()
    return found


def merged(one: dict[str, Tally], other: dict[str, Tally]) -> dict[str, Tally]:
    """Both, where a name that is used in two ways is what it was first."""
    found = dict(one)
    for name, tally in other.items():
        if name not in found:
            found[name] = tally
        elif found[name].merge is tally.merge:
            found[name] = found[name].with_(tally)
    return found


def _add(name: str, tally: Tally) -> None:
    _current.update(merged({name: _current[name]} if name in _current else {}, {name: tally}))
