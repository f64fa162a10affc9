"""What a server can be told: by flags, or by HEADGATE_* environment variables."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from jobmanager.core.storage_uri import local_path


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="HEADGATE_", extra="ignore")

    host: str = "127.0.0.1"
    port: int = Field(8081, ge=0, le=65535, description="0: any free port.")
    data_dir: Path = Path(".headgate")
    database_url: str | None = Field(None, description="None: the embedded Postgres.")
    storage: str | None = Field(None, description="A file: URI. None: inside the data directory.")
    data_root: Path | None = Field(
        None, description="What relative paths in job graphs are relative to."
    )
    spark_master: str = Field(default_factory=lambda: f"local[{max(2, os.cpu_count() or 2)}]")
    stop_jobs: bool = Field(False, description="Cancel the jobs when the server ends.")
    heartbeat_interval: timedelta = timedelta(seconds=1)
    heartbeat_timeout: timedelta = timedelta(seconds=30)
    start_timeout: timedelta = timedelta(minutes=3)
    inspector_idle: timedelta = Field(
        timedelta(minutes=5), description="After which the process that reads state ends."
    )
    lease: timedelta = Field(timedelta(seconds=6), description="How long a leader leads unheard.")
    lease_renewal: timedelta = Field(timedelta(seconds=2), description="How often it is renewed.")
    most_connections: int = Field(2000, ge=1, description="More are answered 503 at once.")
    advertise: str | None = Field(
        None, description="URL under which runners reach this server. None: host and port."
    )

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
        return (self.data_root or shared / "data").expanduser().resolve()

    @property
    def address_file(self) -> Path:
        return self.directory / "address.json"
