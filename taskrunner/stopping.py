"""Ends the regions of a job: after the batch they are in, or at once."""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial

from jobmanager.core.ids import RegionId
from taskrunner import logs
from taskrunner.spark.run.job import RegionRun
from taskrunner.spark.run.region_query import QueryPhase, RegionQuery

_LOOK_AGAIN_SECONDS = 0.02
log = logs.get("attempt")


def await_ends(
    regions: Sequence[RegionRun], is_interrupted: Callable[[], bool] = lambda: False
) -> Iterator[RegionRun]:
    """Yields the regions in the order in which their queries end, requested or not."""
    waiting = list(regions)
    while waiting and not is_interrupted():
        for region in list(waiting):
            if region.has_ended(timedelta(0)):
                waiting.remove(region)
                yield region
        if waiting:
            time.sleep(_LOOK_AGAIN_SECONDS)


def drain(
    regions: Sequence[RegionQuery],
    mark: Callable[[RegionId, int], None],
    is_interrupted: Callable[[], bool] = lambda: False,
) -> bool:
    """Lets regions whose queries have ended emit every open window, one region after the other.

    `mark` records durably after which batch a region is drained. False: a region has failed, or
    the drain was interrupted.
    """
    for region in regions:
        while region.drain_one_batch(partial(mark, region.id)):
            if not list(await_ends([region], is_interrupted)) or region.phase is QueryPhase.FAILED:
                return False
    return True


def stop_at_once(regions: Sequence[RegionRun]) -> None:
    """Stops all queries that still run, in the middle of a batch if necessary."""
    for region in regions:
        try:
            region.stop()
        except Exception as error:
            log.warning("region_not_stopped", region=region.id, reason=str(error))
