"""What the reports of a runner mean for the life of its job."""

from datetime import timedelta

from jobmanager.core.life.health import RegionVitals
from jobmanager.core.life.records import StoredAttempt
from jobmanager.core.progress import RegionProgress, RestoredRegion


def committed_batches(attempt: StoredAttempt) -> dict[str, int]:
    """Region to its last committed batch, as the runner last said or as it was restored."""
    known: list[RestoredRegion | RegionProgress] = [*(attempt.restored or ())]
    known.extend(attempt.progress or ())
    return {one.region: one.batch for one in known if one.batch is not None}


def proved_regions(attempt: StoredAttempt) -> set[str]:
    """The regions that committed a batch of their own, or found that there is no input."""
    return {one.region for one in attempt.progress or () if one.batches or one.is_idle}


def region_vitals(attempt: StoredAttempt) -> list[RegionVitals]:
    """What the health of a job is judged by, of each region whose query is active."""
    return [_vitals(one) for one in attempt.progress or () if one.is_active]


def _vitals(report: RegionProgress) -> RegionVitals:
    unmoved = report.unmoved_ms
    return RegionVitals(
        region=report.region,
        unmoved=None if unmoved is None else timedelta(milliseconds=unmoved),
        median_batch=timedelta(milliseconds=report.median_batch_ms),
        batch=report.batch,
        activity=report.activity,
    )
