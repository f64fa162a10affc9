"""How many schedules it takes to find each mutation: the table of docs/simulation.md."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.simulation import schedule
from tests.simulation.mutations import MUTATIONS, Mutation

_DOCUMENT = Path(__file__).parents[2] / "docs" / "simulation.md"


@dataclass(frozen=True, slots=True)
class Found:
    seed: int
    schedules: int
    invariant: str


def schedules_until_found(mutation: Mutation, most: int) -> Found | None:
    """Seeds from 0 on, until one breaks an invariant."""
    return _first_found(mutation, range(most))


def found_where_known(mutation: Mutation, most: int) -> Found | None:
    """The seed of the table first. Where a change of the rules has made another schedule of that
    seed, seeds from 0 on.
    """
    known = re.search(rf"^\| {re.escape(mutation.name)} \|.*\| (\d+) \|", _told(), re.MULTILINE)
    seed = int(known[1]) - 1 if known else 0
    found = _first_found(mutation, range(seed, seed + 1))
    return found or schedules_until_found(mutation, most)


def _first_found(mutation: Mutation, seeds: range) -> Found | None:
    with mutation.applied():
        for seed in seeds:
            failure = schedule.run(seed).failure
            if failure is not None:
                return Found(seed, seed + 1, failure.invariant)
    return None


def _told() -> str:
    return _DOCUMENT.read_text()


def table(most: int) -> str:
    lines = ["| mutation | where | found after | by invariant |", "|---|---|--:|---|"]
    for mutation in MUTATIONS:
        found = schedules_until_found(mutation, most)
        after, invariant = (found.schedules, found.invariant) if found else ("—", "not found")
        lines.append(f"| {mutation.name} | {mutation.where} | {after} | {invariant} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(table(8_000) + "\n")
