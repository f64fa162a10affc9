"""What other transactions tell by NOTIFY, on one connection of this server's own."""

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
"""Told channel and payload."""


async def listen(
    url: URL,
    channels: Sequence[str],
    hear: Hear,
    on_reconnect: Callable[[], None],
    stop: asyncio.Event,
) -> None:
    """Passes on notifications until `stop` is set, through any number of connections.

    What was told while there was no connection is lost: `on_reconnect` says that there may
    have been something.
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
