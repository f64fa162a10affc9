"""What a server can be told: by flags, or by HEADGATE_* environment variables."""

import os
from datetime import timedelta
from pathlib import Path

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from jobmanager.core.storage_uri import local_path, normal
from jobmanager.files.places import require_shared


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
    spark_master: str = Field(default_factory=lambda: f"local[{max(2, os.cpu_count() or 2)}]")
    stop_jobs: bool = Field(False, description="Cancel the jobs when the server ends.")
    heartbeat_interval: timedelta = timedelta(seconds=1)
    heartbeat_timeout: timedelta = timedelta(seconds=30)
    start_timeout: timedelta = timedelta(minutes=3)
    advertise: str | None = Field(
        None, description="URL under which runners reach this server. None: host and port."
    )

    @field_validator("storage")
    @classmethod
    def _storage_is_a_file_uri(cls, value: str | None) -> str | None:
        if value is not None:
            local_path(value)
        return value

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
        return (self.data_root or self.directory / "data").expanduser().resolve()

    @property
    def address_file(self) -> Path:
        return self.directory / "address.json"
