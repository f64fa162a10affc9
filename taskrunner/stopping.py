"""Bringing all regions of a job to a boundary, where they stay."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

from jobmanager.core.ids import RegionId
from taskrunner.core.orders import CancelAsked, Dismissed, Replaced
from taskrunner.spark.region_query import Phase, RegionQuery

_TICK = timedelta(milliseconds=100)


class StopFailed(Exception):
    """The job was to stop with a savepoint, and there is none."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the stop failed, and the job goes on where it was: {why}")


class NotInTime(Exception):
    """The regions are not at a boundary yet, and the time is over."""


class Interrupted(Exception):
    """Something came that goes before the stop."""

    def __init__(self, order: CancelAsked | Replaced | Dismissed) -> None:
        self.order = order
        super().__init__(f"interrupted by {order}")


class CannotStop(Exception):
    """A region cannot end at a boundary."""

    def __init__(self, region: RegionId, why: str) -> None:
        self.region = region
        super().__init__(why)


def reach_boundary(
    regions: Sequence[RegionQuery],
    drain: Callable[[RegionId, int], None] | None,
    check: Callable[[], None],
) -> None:
    """Ends every region after the batch it is in; then emits what is open, if asked to.

    `drain` is told, durably, after which batch a region is drained; None: none is. `check`
    is called all the while, and raises to give up. Raises `CannotStop`.
    """
    for region in regions:
        if not region.ask_to_stop():
            raise CannotStop(region.id, "this Spark cannot end a query after its batch")
    for region in regions:
        _await_end(region, check)
    if drain is not None:
        for region in regions:
            while region.drain_one_batch(partial(drain, region.id)):
                _await_end(region, check)
    for region in regions:
        region.stop()


def _await_end(region: RegionQuery, check: Callable[[], None]) -> None:
    while not region.has_ended(_TICK):
        check()
    if region.phase is Phase.FAILED:
        raise CannotStop(region.id, f"the query has failed: {region.error}")
