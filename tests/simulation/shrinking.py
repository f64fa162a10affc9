"""Makes a failing schedule shorter and simpler, for as long as the same invariant is broken.

The choices of a schedule are a list of numbers, and fewer and smaller numbers are a simpler
schedule (`choices.py`). So shrinking deletes parts of the list, sets parts to zero, and halves
single numbers, and keeps every change after which the schedule still fails.
"""

from collections.abc import Callable, Sequence

MOST_TRIES = 2_000


def shrink(
    choices: Sequence[int],
    still_fails: Callable[[Sequence[int]], bool],
    most_tries: int = MOST_TRIES,
) -> list[int]:
    """The simplest list of choices found that still fails. `choices` must fail."""
    return _Shrinking(list(choices), still_fails, most_tries).run()


class _Shrinking:
    def __init__(
        self,
        choices: list[int],
        still_fails: Callable[[Sequence[int]], bool],
        most_tries: int,
    ) -> None:
        self._best = _without_trailing_zeros(choices)
        self._still_fails = still_fails
        self._tries_left = most_tries

    def run(self) -> list[int]:
        while self._tries_left > 0:
            before = self._best
            self._cut_off_the_end()
            # Zeros first: they leave the choices after them at their places.
            self._in_pieces(lambda piece: [0] * len(piece))
            self._in_pieces(lambda piece: [])
            self._halve()
            if self._best == before:
                break
        return self._best

    def _take(self, candidate: list[int]) -> bool:
        candidate = _without_trailing_zeros(candidate)
        is_simpler = (len(candidate), sum(candidate)) < (len(self._best), sum(self._best))
        if not is_simpler or self._tries_left <= 0:
            return False
        self._tries_left -= 1
        if not self._still_fails(candidate):
            return False
        self._best = candidate
        return True

    def _cut_off_the_end(self) -> None:
        """The shortest beginning that fails, found by halving."""
        low, high = 0, len(self._best)
        while low < high and self._tries_left > 0:
            middle = (low + high) // 2
            if self._take(self._best[:middle]):
                high = len(self._best)
            else:
                low = middle + 1

    def _in_pieces(self, instead: Callable[[list[int]], list[int]]) -> None:
        size = max(1, len(self._best) // 2)
        while size >= 1 and self._tries_left > 0:
            start = 0
            while start < len(self._best) and self._tries_left > 0:
                end = start + size
                piece = self._best[start:end]
                instead_of_it = instead(piece)
                is_same = instead_of_it == piece
                if is_same or not self._take(
                    [*self._best[:start], *instead_of_it, *self._best[end:]]
                ):
                    start = end
            size //= 2

    def _halve(self) -> None:
        for place in range(len(self._best)):
            while place < len(self._best) and self._best[place] > 0 and self._tries_left > 0:
                smaller = list(self._best)
                smaller[place] //= 2
                if not self._take(smaller):
                    break


def _without_trailing_zeros(choices: list[int]) -> list[int]:
    """What follows the last number is 0 in any case."""
    end = len(choices)
    while end and choices[end - 1] == 0:
        end -= 1
    return choices[:end]
