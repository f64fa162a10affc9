"""A job that goes on with the output of others: what stays, and what is withdrawn."""

from contextlib import nullcontext
from pathlib import Path
from uuid import UUID

import pytest

from jobmanager.core.ids import AttemptNumber, JobId
from jobmanager.core.snapshots.manifest import Ancestor
from taskrunner.core.continuation import Branch, OutputLost, last_kept
from taskrunner.sinks.continuation import continue_output
from taskrunner.sinks.directory import SinkDirectory
from tests.unit.taskrunner.builders import SINK
from tests.unit.taskrunner.test_sink_directory import rows, write

A, B, C = (JobId(UUID(int=n)) for n in (1, 2, 3))


def a_sink(root: Path, job: JobId) -> SinkDirectory:
    return SinkDirectory(root / "sink", job, SINK, AttemptNumber(1), nullcontext)


def go_on(root: Path, job: JobId, *lineage: tuple[JobId, int | None]) -> None:
    ancestors = tuple(Ancestor(one, {SINK: batch}) for one, batch in lineage)
    continue_output(root / "sink", job, SINK, ancestors, lambda other: nullcontext)


def publish(root: Path, job: JobId, *batches: int, held: bool = False) -> None:
    for batch in batches:
        write(a_sink(root, job), batch, parts=1, held=held)


def test_output_of_the_ancestor_stays_up_to_the_savepoint(tmp_path: Path) -> None:
    publish(tmp_path, A, 0, 1, 2, 3)

    go_on(tmp_path, B, (A, 1))
    go_on(tmp_path, B, (A, 1))  # a crash between this and the clone

    assert rows(tmp_path) == ["0:0", "1:0"]


def test_output_of_an_ancestor_that_had_no_batch_goes(tmp_path: Path) -> None:
    publish(tmp_path, A, 0, 1)

    go_on(tmp_path, B, (A, None))

    assert rows(tmp_path) == []


def test_held_output_of_the_ancestor_up_to_the_savepoint_is_shown(tmp_path: Path) -> None:
    publish(tmp_path, A, 0, 1, 2, held=True)

    go_on(tmp_path, B, (A, 1))

    assert rows(tmp_path) == ["0:0", "1:0"]


def test_a_second_start_from_the_same_savepoint_withdraws_what_the_first_published(
    tmp_path: Path,
) -> None:
    publish(tmp_path, A, 0, 1, 2)
    go_on(tmp_path, B, (A, 1))
    publish(tmp_path, B, 2, 3)

    go_on(tmp_path, C, (A, 1))
    publish(tmp_path, C, 2)

    assert rows(tmp_path) == ["0:0", "1:0", "2:0"]


def test_a_grandchild_keeps_what_both_its_ancestors_published(tmp_path: Path) -> None:
    publish(tmp_path, A, 0, 1, 2)
    go_on(tmp_path, B, (A, 1))
    publish(tmp_path, B, 2, 3, 4)

    go_on(tmp_path, C, (A, 1), (B, 3))

    assert rows(tmp_path) == ["0:0", "1:0", "2:0", "3:0"]


def test_output_that_another_branch_has_withdrawn_cannot_be_gone_on_with(tmp_path: Path) -> None:
    publish(tmp_path, A, 0, 1, 2, 3)
    go_on(tmp_path, B, (A, 0))

    with pytest.raises(OutputLost, match="give the sink another path"):
        go_on(tmp_path, C, (A, 2))


def test_a_job_that_is_no_relation_is_left_alone() -> None:
    stranger = JobId(UUID(int=9))

    assert last_kept([Branch(A, 1)], {stranger: [Branch(B, 0)]}) == {A: 1}
