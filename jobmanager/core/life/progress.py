"""What the reports of a runner tell of the regions of its attempt."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from jobmanager.core.life.health import RegionVitals
from jobmanager.core.life.records import StoredAttempt


def committed_batches(attempt: StoredAttempt) -> dict[str, int]:
    """Region to its last committed batch, as the runner last said or as it was restored."""
    known = [*(attempt.restored or ()), *(attempt.progress or ())]
    return {one["region"]: one["batch"] for one in known if one["batch"] is not None}


def proved_regions(attempt: StoredAttempt) -> set[str]:
    """The regions that committed a batch of their own, or found that there is no input."""
    reports = attempt.progress or ()
    return {one["region"] for one in reports if one.get("batches") or one.get("is_idle")}


def region_vitals(attempt: StoredAttempt) -> list[RegionVitals]:
    """What the health of a job is judged by, of each region whose query is active."""
    return [_vitals(one) for one in attempt.progress or () if one["is_active"]]


def _vitals(report: Mapping[str, Any]) -> RegionVitals:
    unmoved = report.get("unmoved_ms")
    return RegionVitals(
        region=report["region"],
        unmoved=None if unmoved is None else timedelta(milliseconds=unmoved),
        median_batch=timedelta(milliseconds=report.get("median_batch_ms") or 0),
        batch=report["batch"],
        activity=report.get("activity"),
    )
