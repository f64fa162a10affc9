"""How much input a batch may take, so that a backlog is read in batches of about a target time.

Without a limit Spark reads whatever is there in one batch: after a night without the job that
batch takes an hour, and no checkpoint, savepoint or stop can come before its end. A fixed limit is
too small for one job and too large for another, so each batch decides the limit of the next:

    longer than the target  ──▶  less than was taken, in proportion
    shorter, and the limit was reached  ──▶  more, in proportion
    shorter, and all input was taken  ──▶  as before: nothing is known about larger batches
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Self

_LARGEST_STEP = 4.0
"""One batch says little about a batch of ten times its size."""
_NEAR = 1.25
"""A batch that takes up to so much more or less than the target is left alone."""
_FULL = 0.5
"""The share of the limit from which on a batch counts as full: files are not divided, and Kafka's
records are divided among the partitions."""


class LimitUnit(StrEnum):
    BYTES = "bytes"
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class _Range:
    first: int
    least: int
    most: int


_RANGES = {
    LimitUnit.BYTES: _Range(first=2**30, least=2**20, most=16 * 2**30),
    LimitUnit.ROWS: _Range(first=1_000_000, least=1_000, most=1_000_000_000),
}


@dataclass(frozen=True, slots=True)
class BatchLimit:
    """The limit of one source's share of a batch."""

    unit: LimitUnit
    most: int

    @classmethod
    def first(cls, unit: LimitUnit) -> Self:
        """The limit that a query starts with."""
        return cls(unit, _RANGES[unit].first)

    def is_reached_by(self, taken: int | None) -> bool:
        return taken is not None and taken >= _FULL * self.most

    def after(self, taken: int | None, took: timedelta, target: timedelta) -> Self:
        """The limit of the next batch, after a batch that took so much input and time. `taken` is
        None where the source cannot tell.
        """
        if taken == 0 or took <= timedelta(0):
            return self
        ratio = target / took
        if ratio * _NEAR < 1:
            base = self.most if taken is None else min(taken, self.most)
            return self._with(base * max(ratio, 1 / _LARGEST_STEP))
        if ratio > _NEAR and self.is_reached_by(taken):
            return self._with(self.most * min(ratio, _LARGEST_STEP))
        return self

    def _with(self, most: float) -> Self:
        allowed = _RANGES[self.unit]
        return replace(self, most=max(allowed.least, min(allowed.most, int(most))))
