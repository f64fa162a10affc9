"""Logs: one line of JSON for each event, to standard error; in a shared process, to the log of the
runner whose thread says it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from io import TextIOBase
from pathlib import Path
from typing import Any, TextIO, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger

from jobmanager.files.log_stream import LogStream
from taskrunner.secret_lookup import HIDDEN

_own_log: ContextVar[TextIO | None] = ContextVar("own_log", default=None)
"""Where the lines of this context go; None: to standard error."""


class _Lines(TextIOBase):
    def write(self, text: str, /) -> int:
        return self._stream().write(text)

    def flush(self) -> None:
        self._stream().flush()

    def _stream(self) -> TextIO:
        return cast(TextIO, LogStream(_own_log.get() or sys.stderr))


@contextmanager
def into(path: Path, **fields: str) -> Iterator[None]:
    """What this context logs goes to this file, with these fields in each line. Threads that are
    made meanwhile do the same (`ContextThread`).
    """
    with path.open("a", encoding="utf-8", buffering=1) as file:
        token = _own_log.set(file)
        try:
            with structlog.contextvars.bound_contextvars(**fields):
                yield
        finally:
            _own_log.reset(token)


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
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, _Lines())),
        cache_logger_on_first_use=False,
    )


def _without_secrets(logger: Any, name: str, event: EventDict) -> EventDict:
    return {
        key: HIDDEN.hidden(value) if isinstance(value, str) else value
        for key, value in event.items()
    }


def get(name: str) -> FilteringBoundLogger:
    return cast(FilteringBoundLogger, structlog.get_logger(component=name))
