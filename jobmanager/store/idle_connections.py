"""Asks Postgres whether a connection is still there, if it was idle for a while.

A pool that asks before each use (`pool_pre_ping`) waits once more for Postgres in every request.
Here only connections that were idle are asked. If Postgres ends while a connection is used, or
less than a second later, the next transaction on it fails, as any transaction does that is under
way at that moment; the pool then opens all its connections anew.
"""

import time
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import DisconnectionError

_ASKED_AFTER = 1.0
_RETURNED = "headgate.returned"


def ping(engine: Engine) -> None:
    """To be called once for an engine."""

    @event.listens_for(engine, "checkin")
    def note(connection: Any, record: Any) -> None:
        record.info[_RETURNED] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def ask(connection: Any, record: Any, proxy: Any) -> None:
        returned = record.info.get(_RETURNED)
        if returned is None or time.monotonic() - returned < _ASKED_AFTER:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise DisconnectionError from error  # the pool tries another connection
