"""Results of looking at files in storage."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of reading every file of a checkpoint or savepoint."""

    files: int
    bytes: int
    faults: Sequence[str]


@dataclass(frozen=True, slots=True)
class Remains:
    """What is left of a savepoint that was not completed, or was disposed of."""

    path: str
    """A URI."""
    bytes: int
