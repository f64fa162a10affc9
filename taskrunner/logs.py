"""Logs: one line of JSON for each event, to standard error."""

import sys
from typing import TextIO, cast

import structlog
from structlog.typing import FilteringBoundLogger

from jobmanager.files.log_stream import LogStream


def configure() -> None:
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(default=str),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, LogStream(sys.stderr))),
        cache_logger_on_first_use=False,
    )


def get(name: str) -> FilteringBoundLogger:
    return cast(FilteringBoundLogger, structlog.get_logger(component=name))
