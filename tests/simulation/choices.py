"""The choices of a schedule: drawn from a seed, recorded, and repeatable.

A choice is a number below a bound, and 0 is always the simplest answer: no fault, the task that has
waited longest, the smallest batch. So a list of fewer or smaller choices is a simpler schedule, and
shrinking needs no other knowledge.
"""

from collections.abc import Sequence
from random import Random


class Choices:
    """Draws from a seed, or repeats a list of choices, after which every answer is 0."""

    def __init__(self, seed: int | None = None, replayed: Sequence[int] | None = None) -> None:
        self.made: list[int] = []
        self.is_dull = False
        """From now on every answer is 0, and nothing is written down: faults are over."""
        self._random = Random(seed) if replayed is None else None
        self._replayed = replayed or ()

    def below(self, bound: int) -> int:
        """A number from 0 to `bound` - 1."""
        if self.is_dull or bound < 2:
            return 0
        if self._random is not None:
            chosen = int(self._random.random() * bound)
        else:
            place = len(self.made)
            chosen = self._replayed[place] % bound if place < len(self._replayed) else 0
        self.made.append(chosen)
        return chosen

    def one_in(self, bound: int) -> bool:
        """True once in `bound` times; never where `bound` is 0."""
        return bound > 0 and self.below(bound) == bound - 1
