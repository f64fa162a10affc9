"""Applications as Flink 2.3 shows them: each of them has one job."""

from pydantic import Field

from jobmanager.api.shapes.flink.flink_shape import FlinkShape, HyphenatedShape
from jobmanager.api.shapes.flink.jobs import JobLine


class ApplicationLine(HyphenatedShape):
    id: str
    """That of its job."""
    name: str
    start_time: int
    end_time: int
    """-1: it has not ended."""
    duration: int
    status: str
    jobs: dict[str, int]
    """Jobs in each state."""


class Applications(FlinkShape):
    applications: list[ApplicationLine]


class ApplicationPage(HyphenatedShape):
    id: str
    name: str
    status: str
    start_time: int
    end_time: int
    duration: int
    timestamps: dict[str, int]
    jobs: list[JobLine]


class ApplicationException(FlinkShape):
    exception_name: str = Field(alias="exceptionName")
    stacktrace: str
    timestamp: int
    job_id: str = Field(alias="jobId")


class ApplicationExceptionEntries(FlinkShape):
    entries: list[ApplicationException]


class ApplicationExceptions(FlinkShape):
    exception_history: ApplicationExceptionEntries = Field(alias="exceptionHistory")
