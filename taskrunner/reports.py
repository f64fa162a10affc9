"""The reports of an attempt: what its regions were restored from, and why it failed."""

from jobmanager.core.ids import RegionId
from jobmanager.core.progress import RestoredRegion
from jobmanager.protocol.messages import FailureReport
from taskrunner import logs
from taskrunner.core import failures, restore
from taskrunner.core.restore import (
    FromAttempt,
    FromCheckpoint,
    FromSavepoint,
    FromScratch,
    Restore,
)
from taskrunner.secret_lookup import HIDDEN
from taskrunner.snapshots.fence import Superseded
from taskrunner.spark.connectors.registry import EXPLANATIONS
from taskrunner.spark.run.causes import causes_of, stack_of
from taskrunner.spark.run.job import RegionRun, SparkJob
from taskrunner.spark.run.region_query import QueryPhase

log = logs.get("attempt")


class RegionFailed(Exception):
    """A region's query ended with an error, which is the `__cause__`."""

    def __init__(self, region: RegionId) -> None:
        self.region = region
        super().__init__(f"region {region} failed")


def region_failure(spark_job: SparkJob) -> Exception:
    """The failure to report for the first region that failed."""
    return failure_of_region(
        next(one for one in spark_job.regions if one.phase is QueryPhase.FAILED)
    )


def failure_of_region(region: RegionRun) -> Exception:
    """The failure to report for a region that failed."""
    if isinstance(region.error, Superseded):
        return region.error
    error = RegionFailed(region.id)
    error.__cause__ = region.error
    return error


def failure_of(error: Exception) -> FailureReport:
    """The failure that an attempt reports for `error`."""
    region = error.region if isinstance(error, RegionFailed) else None
    causes = causes_of(error.__cause__ if region and error.__cause__ else error)
    found = failures.classify(causes, stack_of(error), region, EXPLANATIONS)
    log.error("failed", kind=found.kind, message=found.message, region=region)
    return FailureReport.model_validate(
        {
            "kind": found.kind,
            "is_restartable": found.is_restartable,
            "message": HIDDEN.hidden(found.message),
            "stack": HIDDEN.hidden(found.stack),
            "region": found.region,
        }
    )


def restored_regions(spark_job: SparkJob) -> list[RestoredRegion]:
    """What each region was restored from, and why."""
    return [_restored_region(region, one) for region, one in spark_job.restored.items()]


def _restored_region(region: RegionId, choice: Restore) -> RestoredRegion:
    batch = restore.batch_of(choice)
    match choice:
        case FromScratch(why=why):
            return RestoredRegion(region=region, origin="scratch", batch=None, source=None, why=why)
        case FromAttempt(attempt=source, why=why):
            return RestoredRegion(
                region=region, origin="attempt", batch=batch, source=source, why=why
            )
        case FromCheckpoint(checkpoint=number, why=why):
            return RestoredRegion(
                region=region, origin="checkpoint", batch=batch, source=number, why=why
            )
        case FromSavepoint(why=why):
            return RestoredRegion(
                region=region, origin="savepoint", batch=batch, source=None, why=why
            )
