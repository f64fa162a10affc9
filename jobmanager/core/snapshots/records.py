"""What is known of files in storage once somebody has looked."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found when every file of a checkpoint or savepoint was read."""

    files: int
    bytes: int
    faults: Sequence[str]


@dataclass(frozen=True, slots=True)
class Remains:
    """What is left of a savepoint that is none, or none any more."""

    path: str
    """A URI."""
    bytes: int
