from datetime import timedelta
from typing import Any

from jobmanager.core.crash_cost import CrashCost, crash_cost
from jobmanager.core.progress import RegionProgress, RestoredRegion
from tests.support.builders import NOW

STARTED = NOW + timedelta(seconds=4)


def a_region(region: str = "out", **more: Any) -> RegionProgress:
    return RegionProgress(region=region, batch=7, is_active=True, **more)


def restored(origin: Any) -> RestoredRegion:
    return RestoredRegion("out", origin, 3, 1, "it is the newest")


def test_rows_add_up_and_regions_catch_up_side_by_side() -> None:
    regions = [
        a_region("a", uncheckpointed_rows=10, uncheckpointed_busy_ms=300),
        a_region("b", uncheckpointed_rows=5, uncheckpointed_busy_ms=900),
    ]

    found = crash_cost(regions, [], NOW, STARTED)

    assert found == CrashCost(rows=15, replay_ms=900, start_ms=4000, is_at_least=False)


def test_a_runner_that_does_not_count_makes_no_cost_known() -> None:
    assert crash_cost([a_region()], [], NOW, STARTED) is None
    assert crash_cost([], [], NOW, STARTED) is None


def test_an_attempt_that_continued_another_may_cost_more_until_its_first_checkpoint() -> None:
    def is_at_least(origin: str, **more: Any) -> bool:
        region = a_region(uncheckpointed_rows=1, uncheckpointed_busy_ms=1, **more)
        found = crash_cost([region], [restored(origin)], NOW, None)
        assert found is not None
        return found.is_at_least

    assert is_at_least("attempt")
    assert not is_at_least("attempt", has_checkpoint_of_attempt=True)
    assert not is_at_least("checkpoint")
