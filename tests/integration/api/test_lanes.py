"""Storage that is slow, held or hanging, and launches that go on beside it."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import text

from jobmanager.core.ids import CheckpointNumber, JobId
from jobmanager.core.life.effects import DiscardCheckpoint
from jobmanager.core.snapshots.layout import (
    DISCARDED,
    POOL_LOCK,
    checkpoint_manifest,
    job_directory,
)
from jobmanager.loops.ticker import tick
from tests.support.builders import NOW, a_document
from tests.support.cluster import Cluster

pytestmark = pytest.mark.anyio
FIRST = CheckpointNumber(1)
_HOLD = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(descriptor, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def lock_held_by_a_process(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    try:
        yield
    finally:
        holder.communicate()


def directory_of(cluster: Cluster, job: str) -> Path:
    return cluster.storage / job_directory(JobId(UUID(job)))


async def discard_later(cluster: Cluster, job: str) -> None:
    async with cluster.database.unit_of_work() as uow:
        await uow.outbox.add(JobId(UUID(job)), [DiscardCheckpoint(FIRST)], NOW)
        await uow.commit()


async def waiting(cluster: Cluster) -> list[tuple[str, int]]:
    async with cluster.database.engine.connect() as connection:
        rows = await connection.execute(
            text("SELECT kind, tries FROM outbox WHERE target = 'jobmanager' ORDER BY id")
        )
        return [(row.kind, row.tries) for row in rows]


async def until_waiting(cluster: Cluster, expected: list[tuple[str, int]]) -> None:
    while True:
        if await waiting(cluster) == expected:
            return
        await asyncio.sleep(0.02)


@asynccontextmanager
async def running_lanes(cluster: Cluster) -> AsyncIterator[None]:
    """As a leader runs them."""
    stop = asyncio.Event()
    ticks = [asyncio.create_task(tick("lane", lane, 0.02, stop)) for lane in cluster.dispatch.lanes]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*ticks)


async def test_a_discard_whose_lock_is_held_is_put_back_and_launches_go_on(
    cluster: Cluster,
) -> None:
    job = await cluster.submit(a_document())
    await cluster.runner(job)
    await discard_later(cluster, job)
    with lock_held_by_a_process(directory_of(cluster, job) / POOL_LOCK):
        await cluster.dispatch.run_once()
        other = await cluster.submit(a_document(name="other"))
        await cluster.runner(other)
        assert await waiting(cluster) == [("DiscardCheckpoint", 1)]
    cluster.clock.pass_time(5)
    await cluster.dispatch.run_once()
    assert await waiting(cluster) == []
    assert (directory_of(cluster, job) / DISCARDED).read_text() == "[1]"


async def test_storage_that_hangs_stops_neither_launches_nor_the_discards_of_other_jobs(
    cluster: Cluster,
) -> None:
    """A manifest that is a pipe: to open it hangs until somebody writes."""
    stuck, free = await cluster.submit(a_document()), await cluster.submit(a_document(name="b"))
    pipe = directory_of(cluster, stuck) / checkpoint_manifest(FIRST)
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    async with running_lanes(cluster):
        await discard_later(cluster, stuck)
        await discard_later(cluster, free)
        third = await cluster.submit(a_document(name="c"))
        await until_waiting(cluster, [("DiscardCheckpoint", 0)])
        await cluster.noted_runner(third)
        assert (directory_of(cluster, free) / DISCARDED).exists()
        os.close(os.open(pipe, os.O_WRONLY))  # nothing comes, and that is no manifest
        await until_waiting(cluster, [("DiscardCheckpoint", 1)])
