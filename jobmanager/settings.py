"""What a server can be told: by flags, or by HEADGATE_* environment variables."""

import os
from datetime import timedelta
from pathlib import Path

from pydantic import Field, field_validator
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

    @field_validator("storage")
    @classmethod
    def _storage_is_a_file_uri(cls, value: str | None) -> str | None:
        if value is not None:
            local_path(value)
        return value

    @property
    def directory(self) -> Path:
        return self.data_dir.expanduser().resolve()

    @property
    def storage_uri(self) -> str:
        return self.storage or (self.directory / "storage").as_uri()

    @property
    def files_root(self) -> Path:
        return (self.data_root or self.directory / "data").expanduser().resolve()

    @property
    def address_file(self) -> Path:
        return self.directory / "address.json"
