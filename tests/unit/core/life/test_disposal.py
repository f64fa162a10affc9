from dataclasses import replace

import pytest

from jobmanager.core.errors import SavepointInUse
from jobmanager.core.life.disposal import disposed
from jobmanager.core.life.operation import OperationKind
from jobmanager.core.life.records import Savepoint
from jobmanager.core.life.savepoint import SavepointStatus
from tests.support.builders import after
from tests.support.lives import JOB, Story, a_running_story


def a_savepoint(story: Story) -> Savepoint:
    (found,) = story.life.savepoints.values()
    return found


def test_a_completed_savepoint_that_nobody_needs_can_go() -> None:
    story = a_running_story().asks(OperationKind.SAVEPOINT, at=2).acks(at=3)

    gone = disposed(a_savepoint(story), story.life.operation, [], after(4))

    assert (gone.status, gone.disposed_at) == (SavepointStatus.DISPOSED, after(4))


def test_a_savepoint_under_way_cannot_go() -> None:
    story = a_running_story().asks(OperationKind.SAVEPOINT, at=2)

    with pytest.raises(SavepointInUse, match="is in_progress"):
        disposed(a_savepoint(story), None, [], after(4))


def test_the_savepoint_of_a_rescale_under_way_cannot_go() -> None:
    story = a_running_story().asks(OperationKind.RESCALE, at=2).acks(at=3)

    with pytest.raises(SavepointInUse, match="until its end"):
        disposed(a_savepoint(story), story.life.operation, [], after(4))


def test_a_savepoint_that_a_job_started_from_cannot_go_while_the_job_needs_it() -> None:
    story = a_running_story().asks(OperationKind.SAVEPOINT, at=2).acks(at=3)
    savepoint = replace(a_savepoint(story), job_id=None)

    with pytest.raises(SavepointInUse, match="still runs"):
        disposed(savepoint, None, [JOB], after(4))
