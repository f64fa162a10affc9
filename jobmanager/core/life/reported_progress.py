"""What the reports of a runner mean for the life of its job."""

from datetime import timedelta

from jobmanager.core.life.health import RegionVitals
from jobmanager.core.life.records import StoredAttempt
from jobmanager.core.progress import RegionProgress, RestoredRegion


def committed_batches(attempt: StoredAttempt) -> dict[str, int]:
    """Return the last committed batch by region, as last reported or as restored."""
    known: list[RestoredRegion | RegionProgress] = [*(attempt.restored or ())]
    known.extend(attempt.progress or ())
    return {one.region: one.batch for one in known if one.batch is not None}


def proved_regions(attempt: StoredAttempt) -> set[str]:
    """Return the regions that committed a batch in this attempt, or found no input."""
    return {one.region for one in attempt.progress or () if one.batches or one.is_idle}


def region_vitals(attempt: StoredAttempt) -> list[RegionVitals]:
    """Return what the health of a job depends on, for each region whose query is active."""
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
