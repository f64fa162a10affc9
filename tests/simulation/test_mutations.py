"""The simulation finds each deliberate fault in the rules within a known number of schedules.

The numbers in docs/simulation.md count the seeds from 0 on: `python -m
tests.simulation.mutation_table` writes them.
"""

import pytest

from tests.simulation import schedule
from tests.simulation.mutation_table import found_where_known
from tests.simulation.mutations import MUTATIONS, Mutation

MOST_SCHEDULES = 8_000


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name)
def test_a_mutation_is_found(mutation: Mutation) -> None:
    found = found_where_known(mutation, MOST_SCHEDULES)
    assert found is not None, f"not found in {MOST_SCHEDULES} schedules"


def test_a_failing_schedule_is_shrunk_and_told() -> None:
    acks_counted = MUTATIONS[0]
    with acks_counted.applied():
        found = found_where_known(acks_counted, MOST_SCHEDULES)
        assert found is not None
        failure = schedule.run(found.seed).failure
        assert failure is not None
        simplest = schedule.shrunk(failure)
        assert simplest.failure is not None
        again = schedule.run(choices=simplest.failure.choices, is_told=True)
    assert simplest.failure.invariant == failure.invariant
    assert simplest.failure.deviations < failure.deviations / 4
    assert again.story == simplest.story
    assert any("acks of checkpoint" in line for line in simplest.story)
