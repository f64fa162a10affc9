"""The settings of a server: by options, or by HEADGATE_* environment variables."""

import os
import re
import socket
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from jobmanager.core.snapshots.layout import DATA
from jobmanager.core.snapshots.storage_uri import local_path, normal
from jobmanager.files.log_rotation import LogLimits
from jobmanager.files.open_storage import require_shared
from jobmanager.loops.pruner import PruningLimits

_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="HEADGATE_", extra="ignore")

    host: str = "127.0.0.1"
    port: int = Field(8081, ge=0, le=65535, description="0: any free port.")
    data_dir: Path = Path(".headgate")
    database_url: str | None = Field(None, description="None: the embedded Postgres.")
    storage: str | None = Field(None, description="A file: URI. None: inside the data directory.")
    checkpoints: str | None = Field(
        None, description="A URI, such as s3://bucket/headgate. None: in the storage."
    )
    data_root: Path | None = Field(
        None, description="Directory that relative paths in job graphs start from."
    )
    node: str = Field(
        default_factory=socket.gethostname,
        min_length=1,
        description="The machine's name. A server cannot reach processes on another machine.",
    )
    spark_master: str = Field(default_factory=lambda: f"local[{max(2, os.cpu_count() or 2)}]")
    warm_runners: int = Field(1, ge=0, le=64, description="Processes kept ready for jobs to come.")
    class_archives: Path | None = Field(
        None, description="Where Spark's loaded classes are kept. None: in the data directory."
    )
    stop_jobs: bool = Field(False, description="Cancel the jobs when the server ends.")
    heartbeat_interval: timedelta = timedelta(seconds=1)
    heartbeat_timeout: timedelta = timedelta(seconds=30)
    start_timeout: timedelta = timedelta(minutes=3)
    inspector_idle: timedelta = Field(
        timedelta(minutes=5), description="Idle time after which the process that reads state ends."
    )
    lease: timedelta = Field(
        timedelta(seconds=6), description="Validity of a lease without renewal."
    )
    lease_renewal: timedelta = Field(
        timedelta(seconds=2), description="How often a lease is renewed."
    )
    most_connections: int = Field(
        2000, ge=1, description="Connections beyond this number are answered 503."
    )
    stall_after: timedelta = Field(
        timedelta(seconds=60),
        description="A region with input that commits nothing for this long is stalled.",
    )
    keep_checkpoint_rows: int = Field(
        1000, ge=1, description="How many rows about checkpoints are kept for each job."
    )
    keep_history: timedelta = Field(
        timedelta(days=30),
        description="How long the history of a job and the logs of its runners are kept.",
    )
    keep_attempts: int = Field(
        100, ge=1, description="How many attempts are kept for each job, with their logs."
    )
    keep_ended_jobs: timedelta = Field(
        timedelta(days=90),
        description="How long a job is kept after its end, if nothing of it can be restored.",
    )
    most_ended_jobs: int = Field(
        10_000, ge=1, description="Beyond this number, jobs that ended first go earlier."
    )
    keep_ended_checkpoints: timedelta | None = Field(
        None,
        description="How long the retained checkpoints of ended jobs are kept. None: for ever.",
    )
    runner_log_bytes: int = Field(
        64 * 1024 * 1024, ge=1024, description="Size at which a runner's log is rotated."
    )
    runner_log_files: int = Field(
        3, ge=0, le=100, description="How many rotated logs of a runner are kept."
    )
    advertise: str | None = Field(
        None, description="URL under which runners reach this server. None: host and port."
    )

    allow_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Further names by which clients may call this server."
    )

    @field_validator("allow_hosts", mode="before")
    @classmethod
    def _hosts_are_names(cls, value: object) -> tuple[str, ...]:
        """Check host names; in the environment variable they are separated by commas."""
        given = value.split(",") if isinstance(value, str) else value
        if not isinstance(given, list | tuple):
            raise ValueError("a list of host names is needed")
        names = tuple(str(name).strip() for name in given if str(name).strip())
        for name in names:
            if not _HOST_NAME.fullmatch(name):
                raise ValueError(
                    f"{name!r} is not a host name: give it without http://, port and path, "
                    "such as headgate.example.com"
                )
        return names

    @field_validator("storage")
    @classmethod
    def _storage_is_a_file_uri(cls, value: str | None) -> str | None:
        if value is not None:
            local_path(value)
        return value

    @model_validator(mode="after")
    def _lease_can_be_renewed(self) -> Self:
        if not timedelta() < 2 * self.lease_renewal <= self.lease:
            raise ValueError("lease has to be at least twice as long as lease_renewal")
        return self

    @field_validator("checkpoints")
    @classmethod
    def _checkpoints_can_be_reached(cls, value: str | None) -> str | None:
        if value is None:
            return None
        require_shared(value)
        return normal(value)

    @property
    def log_limits(self) -> LogLimits:
        return LogLimits(self.runner_log_bytes, self.runner_log_files)

    @property
    def pruning(self) -> PruningLimits:
        return PruningLimits(
            checkpoint_rows=self.keep_checkpoint_rows,
            history=self.keep_history,
            attempts=self.keep_attempts,
            ended_jobs=self.keep_ended_jobs,
            most_ended_jobs=self.most_ended_jobs,
            ended_checkpoints=self.keep_ended_checkpoints,
        )

    @property
    def directory(self) -> Path:
        return self.data_dir.expanduser().resolve()

    @property
    def storage_uri(self) -> str:
        return self.storage or (self.directory / "storage").as_uri()

    @property
    def files_root(self) -> Path:
        """Return the data root: beside the storage if that is set, so that all servers which share
        the storage share it, too.
        """
        shared = local_path(self.storage) if self.storage else self.directory
        return (self.data_root or shared / DATA).expanduser().resolve()

    @property
    def archives(self) -> Path:
        return (self.class_archives or self.directory / "classes").expanduser().resolve()

    @property
    def address_file(self) -> Path:
        return self.directory / "address.json"
