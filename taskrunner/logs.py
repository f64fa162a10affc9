"""Logs: one line of JSON for each event, to standard error."""

import sys
from typing import Any, TextIO, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger

from jobmanager.files.log_stream import LogStream
from taskrunner.secret_lookup import HIDDEN


def configure() -> None:
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _without_secrets,
            structlog.processors.JSONRenderer(default=str),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, LogStream(sys.stderr))),
        cache_logger_on_first_use=False,
    )


def _without_secrets(logger: Any, name: str, event: EventDict) -> EventDict:
    return {
        key: HIDDEN.hidden(value) if isinstance(value, str) else value
        for key, value in event.items()
    }


def get(name: str) -> FilteringBoundLogger:
    return cast(FilteringBoundLogger, structlog.get_logger(component=name))
