"""When a runner surely writes nothing any more."""

from dataclasses import replace
from datetime import timedelta

import pytest

from jobmanager.core.life.replacement import MARGIN, STOP_WITHIN, EarlierRunner, at_rest_at
from tests.support.builders import NOW

LOST = EarlierRunner(NOW, timedelta(seconds=60), is_gone=False, has_reported_end=False)


def test_a_lost_runner_rests_after_its_fence_time_and_the_time_to_stop() -> None:
    assert at_rest_at(LOST) == NOW + timedelta(seconds=60) + STOP_WITHIN + MARGIN


@pytest.mark.parametrize(
    "runner",
    [
        replace(LOST, is_gone=True),
        replace(LOST, has_reported_end=True),
        replace(LOST, heard_at=None),
        replace(LOST, fence_after=None),
    ],
    ids=["seen to end", "has said so", "was never told to run", "has no fence time"],
)
def test_nobody_waits_where_nothing_is_gained(runner: EarlierRunner) -> None:
    assert at_rest_at(runner) is None
