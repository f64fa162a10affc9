"""The settings of a server: by options, or by HEADGATE_* environment variables."""

import ipaddress
import json
import os
import re
import socket
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from jobmanager.core import durations
from jobmanager.core.access.exposure import Exposure, exposure_of, reached_from_elsewhere
from jobmanager.core.artifact import UploadLimits
from jobmanager.core.connector_packages import parse_name
from jobmanager.core.open_connections import ConnectionLimits
from jobmanager.core.paths.allowed_paths import PathRules, root_fault, roots_of
from jobmanager.core.pruning_limits import PruningLimits
from jobmanager.core.signals.target_address import AddressRules, address_rules
from jobmanager.core.snapshots.layout import DATA
from jobmanager.core.snapshots.storage_uri import local_path, normal
from jobmanager.files.class_archives import installed_archives
from jobmanager.files.connector_shelf import ConnectorShelf, open_shelf
from jobmanager.files.log_rotation import LogLimits
from jobmanager.files.open_storage import require_shared
from jobmanager.files.resolved_places import path_rules
from jobmanager.store.database_url import parse_url

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

_LEAST_HEAP = 512
"""Megabytes."""
_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="HEADGATE_", extra="ignore")

    host: str = "127.0.0.1"
    port: int = Field(8081, ge=0, le=65535, description="0: any free port.")
    data_dir: Path = Path(".headgate")
    database_url: SecretStr | None = Field(None, description="None: the embedded Postgres.")
    database_url_file: Path | None = Field(None, description="A file that holds the URL.")
    database_password_file: Path | None = Field(
        None, description="A file that holds the password, where the URL has none."
    )
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
    readers: int = Field(
        0, ge=0, le=16, description="Processes that answer reads beside the server's own."
    )
    runner_reuse: int = Field(
        20, ge=0, le=10_000, description="Jobs that a runner's process serves before it ends."
    )
    shared_jobs: int = Field(
        40,
        ge=0,
        le=500,
        description="Jobs that a shared process runs at the same time; 0: no job shares one.",
    )
    shared_memory: str = Field(
        "2g", description="The heap of the JVM of a shared process, as Spark writes it."
    )
    class_archives: Path | None = Field(
        None,
        description="Where Spark's loaded classes are kept. None: where the installation has them, "
        "else in the data directory.",
    )
    connectors: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Connector packages whose jars warm runners have."
    )
    connector_jars: Path | None = Field(
        None, description="Where installed connector jars are. None: in the data directory."
    )
    secrets_dir: Path | None = Field(
        None, description="A directory with a file for each secret that jobs may refer to."
    )
    secrets_command: str | None = Field(
        None, description="Prints the secret whose name it is given; run by runners."
    )
    stop_jobs: bool = Field(False, description="Cancel the jobs when the server ends.")
    heartbeat_interval: timedelta = timedelta(seconds=1)
    heartbeat_timeout: timedelta = timedelta(seconds=30)
    start_timeout: timedelta = timedelta(minutes=3)
    idle_start_timeout: timedelta = Field(
        timedelta(minutes=10),
        description="How long a starting attempt may neither read nor write data.",
    )
    fence_after: timedelta = Field(
        timedelta(seconds=60),
        description="How long a runner goes on without a JobManager that has a sink which cannot "
        "be fenced (python, scripts).",
    )
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
        ConnectionLimits.most,
        ge=1,
        description="Beyond this number a connection that waits for its client makes room for a "
        "new one; if there is none, the new one is answered 503.",
    )
    head_timeout: timedelta = Field(
        timedelta(seconds=ConnectionLimits.head_within),
        ge=timedelta(milliseconds=100),
        description="For the head of a request, and for a TLS handshake.",
    )
    most_head_bytes: int = Field(
        ConnectionLimits.head_bytes, ge=1024, description="Of the head of a request."
    )
    body_timeout: timedelta = Field(
        timedelta(seconds=ConnectionLimits.body_within),
        ge=timedelta(seconds=1),
        description="For the body of a request.",
    )
    body_idle: timedelta = Field(
        timedelta(seconds=ConnectionLimits.body_idle),
        ge=timedelta(milliseconds=100),
        description="How long nothing of a body may arrive.",
    )
    keep_alive: timedelta = Field(
        timedelta(seconds=ConnectionLimits.kept_for),
        ge=timedelta(seconds=1),
        description="How long a connection is kept for the next request. Longer than runners are "
        "silent, so that they keep their connections.",
    )
    unread_timeout: timedelta = Field(
        timedelta(seconds=ConnectionLimits.read_within),
        ge=timedelta(seconds=1),
        description="How long a client may not read what it is sent.",
    )
    storage_workers: int = Field(
        4, ge=1, le=64, description="How many jobs' discarded files are deleted at the same time."
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
    require_tokens: bool = Field(False, description="Require tokens on loopback, too.")
    insecure: bool = Field(False, description="Require no tokens, whatever the address.")
    tls_cert: Path | None = Field(None, description="The server's certificate, PEM.")
    tls_key: Path | None = Field(None, description="The key of the certificate, PEM.")
    ca: Path | None = Field(
        None, description="PEM file of certificates that runners and other servers trust."
    )
    trusted_proxies: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Addresses or networks whose X-Forwarded-For is believed."
    )
    keep_audit: timedelta = Field(
        timedelta(days=90), description="How long the audit, and tokens that ended, are kept."
    )
    most_artifact_bytes: int = Field(UploadLimits.file_bytes, ge=1, description="Of one artifact.")
    most_graph_artifact_bytes: int = Field(
        UploadLimits.graph_bytes, ge=1, description="Of all artifacts of one job graph."
    )
    most_artifacts: int = Field(
        UploadLimits.total_count, ge=1, description="Artifacts that the server keeps."
    )
    most_artifact_total_bytes: int = Field(
        UploadLimits.total_bytes, ge=1, description="Of all artifacts that the server keeps."
    )
    advertise: str | None = Field(
        None, description="URL under which runners reach this server. None: host and port."
    )

    allow_paths: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Paths and URIs below which graphs and savepoints may name places."
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

    _database: "URL | None" = PrivateAttr(None)

    @model_validator(mode="after")
    def _database_is_named(self) -> Self:
        url = self.database_url.get_secret_value() if self.database_url else None
        if self.database_url_file is not None:
            if url is not None:
                raise ValueError("database_url and database_url_file: give one of them")
            url = _secret_in(self.database_url_file, "database_url_file")
        if url is not None:
            try:
                self._database = parse_url(url)
            except ValueError as error:
                raise ValueError(f"the database URL: {error}") from None
        if self.database_password_file is not None:
            if self._database is None:
                raise ValueError("database_password_file needs a database_url")
            password = _secret_in(self.database_password_file, "database_password_file")
            self._database = self._database.set(password=password)
        return self

    @field_validator("allow_paths", mode="before")
    @classmethod
    def _paths_are_places(cls, value: object) -> tuple[str, ...]:
        """As a variable they are separated by commas."""
        given = value.split(",") if isinstance(value, str) else value
        if not isinstance(given, list | tuple):
            raise ValueError("a list of paths or URIs is needed")
        roots = tuple(str(one).strip() for one in given if str(one).strip())
        for one in roots:
            if fault := root_fault(one):
                raise ValueError(fault)
        return roots

    @field_validator("shared_memory")
    @classmethod
    def _shared_memory_is_a_heap(cls, value: str) -> str:
        size = re.fullmatch(r"([1-9][0-9]*)([mg])", value)
        if size is None:
            raise ValueError(f"{value!r} is not the size of a heap: write 1500m or 4g, say")
        if int(size[1]) * (1024 if size[2] == "g" else 1) < _LEAST_HEAP:
            raise ValueError(f"{value} is too small: Spark needs {_LEAST_HEAP}m at least")
        return value

    @field_validator("connectors", mode="before")
    @classmethod
    def _connectors_are_packages(cls, value: object) -> tuple[str, ...]:
        """As one text they are separated by commas."""
        given = [value] if isinstance(value, str) else value
        if not isinstance(given, list | tuple):
            raise ValueError("a list of connector packages is needed")
        names = [name.strip() for one in given for name in str(one).split(",")]
        return tuple(dict.fromkeys(parse_name(name) for name in names if name))

    @field_validator("trusted_proxies", mode="before")
    @classmethod
    def _proxies_are_networks(cls, value: object) -> tuple[str, ...]:
        """As a variable they are separated by commas."""
        given = value.split(",") if isinstance(value, str) else value
        if not isinstance(given, list | tuple):
            raise ValueError("a list of addresses is needed")
        networks = tuple(str(one).strip() for one in given if str(one).strip())
        for one in networks:
            try:
                ipaddress.ip_network(one)
            except ValueError:
                raise ValueError(
                    f"{one!r} is neither an IP address nor a network such as 10.0.0.0/8"
                ) from None
        return networks

    @model_validator(mode="after")
    def _access_is_told_once(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("--tls-cert and --tls-key belong together: give both or none")
        if self.advertise and self.tls_cert and not self.advertise.startswith("https://"):
            raise ValueError(f"a server with TLS is not at {self.advertise}: advertise https://")
        _ = self.exposure  # raises where --require-tokens and --insecure are both given
        return self

    @field_validator("storage")
    @classmethod
    def _storage_is_a_file_uri(cls, value: str | None) -> str | None:
        if value is not None:
            local_path(value)
        return value

    @model_validator(mode="after")
    def _secrets_are_no_data(self) -> Self:
        """Jobs may read what is below the data root and the storage."""
        secrets = self.secrets_directory
        if secrets is None:
            return self
        if not secrets.is_dir():
            raise ValueError(f"secrets_dir: {secrets} is not a directory")
        for root in (self.files_root, local_path(self.storage_uri)):
            if secrets.is_relative_to(root.resolve()):
                raise ValueError(
                    f"secrets_dir: {secrets} is inside of {root}, which jobs can read: choose "
                    "another directory"
                )
        return self

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
    def log_limits(self) -> LogLimits:
        return LogLimits(self.runner_log_bytes, self.runner_log_files)

    @property
    def connection_limits(self) -> ConnectionLimits:
        return ConnectionLimits(
            most=self.most_connections,
            head_within=self.head_timeout.total_seconds(),
            kept_for=self.keep_alive.total_seconds(),
            read_within=self.unread_timeout.total_seconds(),
            head_bytes=self.most_head_bytes,
        )

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
    def database(self) -> "URL | None":
        """With its password. None: the embedded Postgres."""
        return self._database

    def shown(self) -> dict[str, str]:
        """The settings as texts, without those that are not set, and without secrets."""
        plain = self.model_dump(mode="json", exclude_none=True, exclude={"database_url"})
        return {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in plain.items()
        }

    @property
    def exposure(self) -> Exposure:
        """Whether tokens are needed, and the reason."""
        return exposure_of(
            self.host,
            require_tokens=self.require_tokens,
            insecure=self.insecure,
            advertised_host=self._advertised_host,
            trusts_proxies=bool(self.trusted_proxies),
        )

    @property
    def _advertised_host(self) -> str | None:
        return urlsplit(self.advertise).hostname if self.advertise else None

    @property
    def trusted_ca(self) -> Path | None:
        """The certificates that runners and other servers trust; by default the server's own."""
        file = self.ca or self.tls_cert
        return file.expanduser().resolve() if file else None

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
    def upload_limits(self) -> UploadLimits:
        return UploadLimits(
            file_bytes=self.most_artifact_bytes,
            graph_bytes=self.most_graph_artifact_bytes,
            total_bytes=self.most_artifact_total_bytes,
            total_count=self.most_artifacts,
        )

    @property
    def path_rules(self) -> PathRules | None:
        """What clients may name; None: anything, as long as only this machine reaches us."""
        storage = [self.storage_uri, *([self.checkpoints] if self.checkpoints else [])]
        data_root = str(self.files_root)
        elsewhere = reached_from_elsewhere(
            self.host, self._advertised_host, bool(self.trusted_proxies)
        )
        roots = roots_of(self.allow_paths, data_root, storage, takes_any=elsewhere is None)
        return None if roots is None else path_rules(*roots, data_root)

    @property
    def address_rules(self) -> AddressRules:
        """Which addresses webhooks may have."""
        elsewhere = reached_from_elsewhere(
            self.host, self._advertised_host, bool(self.trusted_proxies)
        )
        return address_rules(self.allow_paths, takes_any=elsewhere is None)

    @property
    def secrets_directory(self) -> Path | None:
        return self.secrets_dir.expanduser().resolve() if self.secrets_dir else None

    @property
    def connector_shelf(self) -> ConnectorShelf:
        """The installed connector packages. Raises `UnusableCatalogue`."""
        jars = self.connector_jars
        return open_shelf(self.directory, jars.expanduser().resolve() if jars else None)

    @property
    def archives(self) -> Path:
        chosen = self.class_archives or installed_archives() or self.directory / "classes"
        return chosen.expanduser().resolve()

    @property
    def address_file(self) -> Path:
        return self.directory / "address.json"


def _secret_in(path: Path, setting: str) -> str:
    """The only line of the file."""
    try:
        secret = path.expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{setting}: {path} cannot be read: {type(error).__name__}") from None
    if not secret or "\n" in secret:
        raise ValueError(f"{setting}: {path} has to hold one line")
    return secret
