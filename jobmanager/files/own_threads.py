"""Work on storage in threads of its own.

`asyncio.to_thread` has a few threads for everything. Storage that hangs (a mount whose server is
gone) would take them one by one, and launches and answers would wait for a free thread; and the
process would wait for such a thread before it ends.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import TypeVar

Answer = TypeVar("Answer")


async def in_own_thread(work: Callable[[], Answer]) -> Answer:
    """Does the work in a new thread, which ends with the process if it never comes back. Whoever
    is cancelled meanwhile waits no longer; the work goes on.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Answer] = loop.create_future()

    def do() -> None:
        try:
            tell = partial(answer.set_result, work())
        except BaseException as error:
            tell = partial(answer.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(lambda: None if answer.done() else tell())

    Thread(target=do, name="storage", daemon=True).start()
    return await answer
