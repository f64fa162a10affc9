"""What `headgate apply` decides to do."""

from typing import Any

import pytest

from jobmanager.client.desired_jobs import (
    ApplyChoices,
    CreateJob,
    DescribedJob,
    LeaveJob,
    PastJob,
    PresentJob,
    RescaleJob,
    UpgradeJob,
    are_comparable,
    decide,
)
from jobmanager.client.errors import HeadgateError
from tests.support.builders import a_document, a_document_with

FILE = "jobs/revenue.yaml"


def wanted(graph: dict[str, Any]) -> DescribedJob:
    return DescribedJob(FILE, graph)


def present(parallelism: int = 2, **changes: Any) -> PresentJob:
    return PresentJob("3f", a_document(**changes), parallelism)


def past(state: str = "failed", **more: Any) -> PastJob:
    return PastJob("3f", state, a_document(), more.pop("ran_to_its_end", False), **more)


def test_a_job_that_was_never_there_is_created() -> None:
    assert decide(wanted(a_document()), [], None, ApplyChoices()) == CreateJob()


def test_a_job_that_is_as_described_is_left_alone() -> None:
    assert decide(wanted(a_document()), [present()], None, ApplyChoices()) == LeaveJob("3f")


def test_another_parallelism_alone_is_a_rescale() -> None:
    step = decide(wanted(a_document(parallelism=4)), [present()], None, ApplyChoices())

    assert step == RescaleJob("3f", 2, 4)


@pytest.mark.parametrize("described", [4, None])
def test_the_parallelism_in_force_counts_not_that_of_the_first_graph(
    described: int | None,
) -> None:
    """The job was rescaled by hand to 4; a file that names none has no opinion."""
    graph = a_document(parallelism=described)
    if described is None:
        del graph["parallelism"]

    assert decide(wanted(graph), [present(parallelism=4)], None, ApplyChoices()) == LeaveJob("3f")


def test_a_parallelism_that_somebody_else_decides_is_kept() -> None:
    choices = ApplyChoices(keep_parallelism=True)

    assert decide(wanted(a_document()), [present(parallelism=4)], None, choices) == LeaveJob("3f")


def test_another_graph_is_an_upgrade_with_its_changes() -> None:
    graph = a_document_with("big", where="price > 200")

    step = decide(wanted(graph), [present(parallelism=4)], None, ApplyChoices())

    assert isinstance(step, UpgradeJob)
    [change] = step.changes
    assert (change.vertex, change.field, change.after) == ("big", "where", "price > 200")
    assert step.parallelism == 2


def test_two_live_jobs_of_one_name_are_not_guessed_between() -> None:
    with pytest.raises(HeadgateError, match="2 live jobs are called 'revenue'"):
        decide(wanted(a_document()), [present(), present()], None, ApplyChoices())


def test_state_of_an_ended_job_is_neither_used_nor_forgotten_silently() -> None:
    ended = past(savepoint="9c")

    with pytest.raises(HeadgateError, match=r"failed and has savepoint 9c: --restore .* --fresh"):
        decide(wanted(a_document()), [], ended, ApplyChoices())
    restored = decide(wanted(a_document()), [], ended, ApplyChoices(restore=True))
    fresh = decide(wanted(a_document()), [], ended, ApplyChoices(fresh=True))

    assert restored == CreateJob(savepoint="9c")
    assert fresh == CreateJob()


def test_an_ended_job_without_state_is_created_again() -> None:
    assert decide(wanted(a_document()), [], past(), ApplyChoices()) == CreateJob()


def test_a_batch_job_that_ran_to_its_end_runs_again_only_if_it_changed_or_was_asked_to() -> None:
    ended = past("finished", ran_to_its_end=True, checkpoint="3f:1")
    changed = a_document_with("big", where="price > 200")

    assert isinstance(decide(wanted(a_document()), [], ended, ApplyChoices()), LeaveJob)
    assert decide(wanted(changed), [], ended, ApplyChoices()) == CreateJob()
    assert decide(wanted(a_document()), [], ended, ApplyChoices(fresh=True)) == CreateJob()


def test_graphs_that_only_the_server_can_judge() -> None:
    assert are_comparable(a_document())
    assert not are_comparable({"name": "x"})
    assert not are_comparable({"name": "x", "vertices": ["a"]})
