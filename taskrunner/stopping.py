"""Bringing all regions of a job to an end: at a boundary for a stop, with a grace for a cancel."""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

from jobmanager.core.ids import RegionId
from taskrunner import logs
from taskrunner.core.orders import CancelAsked, Dismissed, Replaced
from taskrunner.spark.run.job import RegionRun
from taskrunner.spark.run.region_query import Phase, RegionQuery

_TICK = timedelta(milliseconds=100)
log = logs.get("attempt")


class StopFailed(Exception):
    """The job was to stop with a savepoint, and there is none."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the stop failed, and the job goes on where it was: {why}")


class NotInTime(Exception):
    """The regions are not at a boundary yet, and the time is over."""


class Interrupted(Exception):
    """Something came that goes before a start or a stop."""

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


def cancel(regions: Sequence[RegionRun], asked: CancelAsked) -> str:
    """Ends the regions after the batch they are in, or when the grace is over. Returns how."""
    log.info("cancelling", why=asked.why, grace_s=asked.grace.total_seconds())
    deadline = time.monotonic() + asked.grace.total_seconds()
    details = []
    can_wait = {region.id: region.ask_to_stop() for region in regions}
    for region in regions:
        left = timedelta(seconds=max(0.001, deadline - time.monotonic()))
        if can_wait[region.id] and region.await_stop(left):
            details.append(f"{region.id} ended after its batch")
        else:
            region.stop()
            details.append(f"{region.id} was stopped in the middle of a batch")
    return "; ".join(details) or "no query had started"


def stop_at_once(regions: Sequence[RegionRun]) -> None:
    """Stops what still runs, whatever it is doing."""
    for region in regions:
        try:
            region.stop()
        except Exception as error:
            log.warning("region_not_stopped", region=region.id, reason=str(error))


def _await_end(region: RegionQuery, check: Callable[[], None]) -> None:
    while not region.has_ended(_TICK):
        check()
    if region.phase is Phase.FAILED:
        raise CannotStop(region.id, f"the query has failed: {region.error}")
