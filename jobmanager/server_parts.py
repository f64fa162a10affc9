"""Parts that a server's own process and its reader processes make in the same way."""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TextIO, cast

import structlog
import uvicorn
from fastapi import FastAPI
from structlog.typing import EventDict

from jobmanager.api.http_connections import HttpServer
from jobmanager.core.open_connections import ConnectionLimits
from jobmanager.core.redaction import Secrets
from jobmanager.files.connector_shelf import ConnectorShelf
from jobmanager.files.log_stream import LogStream
from jobmanager.files.open_files import room_for_connections
from jobmanager.protocol.tls_trust import CIPHERS
from jobmanager.services.directives import RunSettings
from jobmanager.settings import Settings

BACKLOG = 2048
MakeHttpServer = Callable[[uvicorn.Config, ConnectionLimits], HttpServer]


def http_server(app: FastAPI, settings: Settings, make: MakeHttpServer = HttpServer) -> HttpServer:
    return make(
        uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=3,
            # Uvicorn would believe what anybody on this machine says of where a request came from.
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=list(settings.trusted_proxies),
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
            ssl_ciphers=CIPHERS,
            backlog=BACKLOG,
        ),
        replace(settings.connection_limits, most=room_for_connections(settings.most_connections)),
    )


def run_settings_of(settings: Settings, connectors: ConnectorShelf) -> RunSettings:
    secrets_dir = settings.secrets_directory
    return RunSettings(
        spark_master=settings.spark_master,
        storage=settings.storage_uri,
        data_root=str(settings.files_root),
        checkpoints=settings.checkpoints,
        uploads=settings.upload_limits,
        paths=settings.path_rules,
        connectors=connectors,
        secrets_dir=secrets_dir.as_uri() if secrets_dir else None,
        secrets_command=settings.secrets_command,
        shared_jobs=settings.shared_jobs,
    )


def configure_logs(secrets: Secrets) -> None:
    def without_secrets(logger: Any, name: str, event: EventDict) -> EventDict:
        return {
            key: secrets.hidden(value) if isinstance(value, str) else value
            for key, value in event.items()
        }

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            without_secrets,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, LogStream(sys.stderr))),
        cache_logger_on_first_use=True,
    )
