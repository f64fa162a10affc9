"""Receives NOTIFY of other transactions, on a connection that is used for nothing else."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

import psycopg
import structlog
from psycopg import sql
from sqlalchemy.engine import URL

_log = structlog.get_logger(__name__)
_AGAIN_AFTER_SECONDS = 1.0
_LOOK_UP_SECONDS = 1.0

Hear = Callable[[str, str], None]
"""Called with channel and payload."""


async def listen(
    url: URL,
    channels: Sequence[str],
    hear: Hear,
    on_reconnect: Callable[[], None],
    stop: asyncio.Event,
) -> None:
    """Pass on notifications until `stop` is set; reconnect as often as necessary.

    Notifications that were sent while there was no connection are lost: `on_reconnect` is called,
    since there may have been some.
    """
    address = url.set(drivername="postgresql").render_as_string(hide_password=False)
    while not stop.is_set():
        try:
            connecting = psycopg.AsyncConnection.connect(
                address, autocommit=True, connect_timeout=5, application_name="headgate events"
            )
            async with await connecting as connection:
                for channel in channels:
                    await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
                on_reconnect()
                await _pass_on(connection, hear, stop)
        except psycopg.Error as error:
            _log.warning("not listening for events", error=str(error).partition("\n")[0])
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _AGAIN_AFTER_SECONDS)


async def _pass_on(
    connection: psycopg.AsyncConnection[object], hear: Hear, stop: asyncio.Event
) -> None:
    while not stop.is_set():
        async for one in connection.notifies(timeout=_LOOK_UP_SECONDS):
            hear(one.channel, one.payload)
