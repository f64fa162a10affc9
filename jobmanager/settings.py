"""What a server can be told: by flags, or by HEADGATE_* environment variables."""

import os
import re
import socket
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from jobmanager.core import durations
from jobmanager.core.snapshots.layout import DATA
from jobmanager.core.snapshots.storage_uri import local_path, normal
from jobmanager.files.open_storage import require_shared

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
        None, description="What relative paths in job graphs are relative to."
    )
    node: str = Field(
        default_factory=socket.gethostname,
        min_length=1,
        description="The machine's name: runners of another one are out of this server's reach.",
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
    fence_after: timedelta = Field(
        timedelta(seconds=60),
        description="How long a runner goes on without a JobManager that has a sink which cannot "
        "be fenced (python, scripts).",
    )
    inspector_idle: timedelta = Field(
        timedelta(minutes=5), description="After which the process that reads state ends."
    )
    lease: timedelta = Field(timedelta(seconds=6), description="How long a leader leads unheard.")
    lease_renewal: timedelta = Field(timedelta(seconds=2), description="How often it is renewed.")
    most_connections: int = Field(2000, ge=1, description="More are answered 503 at once.")
    stall_after: timedelta = Field(
        timedelta(seconds=60),
        description="The least time without a committed batch, with input, that is a stall.",
    )
    keep_checkpoint_rows: int = Field(
        1000, ge=1, description="Rows of checkpoints that are kept of each job."
    )
    keep_history: timedelta = Field(
        timedelta(days=30), description="How long the history of a job is kept after its end."
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
        """As a variable the names are separated by commas."""
        given = value.split(",") if isinstance(value, str) else value
        if not isinstance(given, list | tuple):
            raise ValueError("a list of host names is needed")
        names = tuple(str(name).strip() for name in given if str(name).strip())
        for name in names:
            if not _HOST_NAME.fullmatch(name):
                raise ValueError(
                    f"{name!r} is not a host name: name it without http://, port and path, "
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

    @field_validator("fence_after", mode="before")
    @classmethod
    def _fence_after_is_a_duration(cls, value: object) -> object:
        """As jobs write durations (`60s`), or ISO 8601."""
        if isinstance(value, str) and not value.startswith("P"):
            return durations.parse(value)
        return value

    @model_validator(mode="after")
    def _runners_outlive_a_few_heartbeats(self) -> Self:
        least = max(5 * self.heartbeat_interval, self.heartbeat_timeout / 2)
        if self.fence_after < least:
            raise ValueError(
                f"fence_after is {self.fence_after.total_seconds():g} s, and has to be at least "
                f"{least.total_seconds():g} s: half of heartbeat_timeout, since heartbeats of many "
                "runners are up to a sixth of it apart, and five times heartbeat_interval"
            )
        return self

    @field_validator("checkpoints")
    @classmethod
    def _checkpoints_can_be_reached(cls, value: str | None) -> str | None:
        if value is None:
            return None
        require_shared(value)
        return normal(value)

    @property
    def directory(self) -> Path:
        return self.data_dir.expanduser().resolve()

    @property
    def storage_uri(self) -> str:
        return self.storage or (self.directory / "storage").as_uri()

    @property
    def files_root(self) -> Path:
        """Beside the storage, where one is named: then it is the same for all who share it."""
        shared = local_path(self.storage) if self.storage else self.directory
        return (self.data_root or shared / DATA).expanduser().resolve()

    @property
    def archives(self) -> Path:
        return (self.class_archives or self.directory / "classes").expanduser().resolve()

    @property
    def address_file(self) -> Path:
        return self.directory / "address.json"
