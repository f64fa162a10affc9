"""How a job ended, as Flink tells it."""

from typing import Literal

from pydantic import Field

from jobmanager.api.shapes.flink.flink_shape import FlinkShape, HyphenatedShape
from jobmanager.api.shapes.flink.operations import FailureCause, QueueStatus


class ExecutionResult(HyphenatedShape):
    id: str
    name: str
    application_status: Literal["SUCCEEDED", "FAILED", "CANCELED", "UNKNOWN"]
    accumulator_results: dict[str, str]
    """Always empty: values of ours are no Java objects. `…/accumulators` has them."""
    net_runtime: int
    application_id: str
    start_time: int
    end_time: int
    failure_cause: FailureCause | None = None
    """Absent: the job did not fail."""


class ExecutionResultResponse(FlinkShape):
    status: QueueStatus
    job_execution_result: ExecutionResult | None = Field(None, alias="job-execution-result")
    """Absent: the job has not ended."""
