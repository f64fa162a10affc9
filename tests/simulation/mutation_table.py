"""How many schedules it takes to find each mutation: the table of docs/simulation.md."""

import sys
from dataclasses import dataclass

from tests.simulation import schedule
from tests.simulation.mutations import MUTATIONS, Mutation


@dataclass(frozen=True, slots=True)
class Found:
    seed: int
    schedules: int
    invariant: str


def schedules_until_found(mutation: Mutation, most: int) -> Found | None:
    """Seeds from 0 on, until one breaks an invariant."""
    with mutation.applied():
        for seed in range(most):
            failure = schedule.run(seed).failure
            if failure is not None:
                return Found(seed, seed + 1, failure.invariant)
    return None


def table(most: int) -> str:
    lines = ["| mutation | where | found after | by invariant |", "|---|---|--:|---|"]
    for mutation in MUTATIONS:
        found = schedules_until_found(mutation, most)
        after, invariant = (found.schedules, found.invariant) if found else ("—", "not found")
        lines.append(f"| {mutation.name} | {mutation.where} | {after} | {invariant} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(table(5_000) + "\n")
