"""A cluster without processes that a synchronous test reaches over HTTP: it lives in a thread."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from jobmanager.settings import Settings
from jobmanager.store.database import open_database
from tests.support.cluster import Cluster, a_cluster
from tests.support.databases import PATIENT
from tests.support.streams import HttpServed, awake, context_of, http_served

Found = TypeVar("Found")
_WITHIN = 120.0


@dataclass(frozen=True)
class ServedCluster:
    url: str
    cluster: Cluster
    served: HttpServed
    _loop: asyncio.AbstractEventLoop

    def run(self, work: Callable[[Cluster], Awaitable[Found]]) -> Found:
        """Does something in the thread of the cluster; returns its result."""

        async def do() -> Found:
            return await work(self.cluster)

        return asyncio.run_coroutine_threadsafe(do(), self._loop).result(_WITHIN)


@contextmanager
def a_served_cluster(
    database_url: str,
    directory: Path,
    settings: Settings | None = None,
    prepare: Callable[[Cluster], None] = lambda cluster: None,
) -> Iterator[ServedCluster]:
    """`prepare` is called before the first request."""
    made: list[ServedCluster] = []
    is_there = threading.Event()
    stop: list[Callable[[], object]] = []

    async def live() -> None:
        database = open_database(database_url, PATIENT)
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(ended.set))
        try:
            async with (
                a_cluster(database, directory) as cluster,
                awake(context_of(cluster.app).events, database),
            ):
                prepare(cluster)
                async with http_served(cluster.app, settings, database_url) as served:
                    made.append(ServedCluster(served.url, cluster, served, loop))
                    is_there.set()
                    await ended.wait()
        finally:
            is_there.set()
            await database.close()

    thread = threading.Thread(target=lambda: asyncio.run(live()), name="cluster")
    thread.start()
    assert is_there.wait(_WITHIN)
    try:
        assert made, "the cluster did not start"
        yield made[0]
    finally:
        stop[0]()
        thread.join(_WITHIN)
