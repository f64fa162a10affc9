import pytest

from jobmanager.core.ids import AttemptNumber
from jobmanager.core.life.attempt import AttemptStatus
from jobmanager.core.life.heartbeat import Heard, hear
from tests.support.builders import a_failure, an_attempt

ONE = AttemptNumber(1)


@pytest.mark.parametrize(
    ("status", "spoken_of", "has_progress", "expected"),
    [
        (AttemptStatus.LAUNCHING, 1, False, Heard.PROGRESS),
        (AttemptStatus.STARTING, 1, False, Heard.PROGRESS),
        (AttemptStatus.STARTING, 1, True, Heard.STARTED),
        (AttemptStatus.RUNNING, 1, True, Heard.PROGRESS),
        (AttemptStatus.CANCELLING, 1, True, Heard.PROGRESS),
        (AttemptStatus.RUNNING, 2, True, Heard.ALIVE),
        (AttemptStatus.STARTING, None, True, Heard.ALIVE),
        (AttemptStatus.FINISHED, 1, True, Heard.ALIVE),
        (AttemptStatus.CANCELLED, 1, True, Heard.ALIVE),
        (AttemptStatus.FAILED, 1, True, Heard.SUPERSEDED),
        (AttemptStatus.FAILED, None, False, Heard.SUPERSEDED),
    ],
)
def test_what_a_heartbeat_comes_to(
    status: AttemptStatus, spoken_of: int | None, has_progress: bool, expected: Heard
) -> None:
    number = None if spoken_of is None else AttemptNumber(spoken_of)

    assert hear(an_attempt(status), number, has_progress=has_progress) is expected


def test_an_attempt_that_failed_while_it_was_cancelled_is_superseded() -> None:
    killed = an_attempt(AttemptStatus.CANCELLED, failure=a_failure())

    assert hear(killed, ONE, has_progress=True) is Heard.SUPERSEDED


def test_only_progress_is_written_down() -> None:
    assert {one for one in Heard if one.has_news} == {Heard.PROGRESS, Heard.STARTED}
