"""A server with jobs that run and have checkpoints, and without anything that runs by itself.

    python -m bench.read_server --jobs 100 --checkpoints 100

Runners are played, then they are silent, so the server's CPU time is that of the reads that
`bench.reads` sends. Each job has 32 subtasks; the first has the most checkpoints. The first line of
the output is JSON with the URL, the ids of the jobs, and the process id of Postgres.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import text

from bench.simulator import a_document, subtasks_of
from jobmanager.core.redaction import Secrets
from jobmanager.cycle_collection import collect_rarely
from jobmanager.server_parts import configure_logs
from jobmanager.store.database import Database, open_database
from jobmanager.store.embedded import EmbeddedPostgres
from tests.support.cluster import Cluster, PlayedRunner, a_cluster
from tests.support.streams import served

_OF_OTHERS = 2
"""Checkpoints of each job but the first."""


async def _run_job(cluster: Cluster, number: int, checkpoints: int) -> str:
    job, runner = await cluster.running({**a_document(), "name": f"job {number}"})
    await runner.beat(_REGION)
    for _ in range(checkpoints):
        await _checkpoint(cluster, job, runner)
    return job


async def _checkpoint(cluster: Cluster, job: str, runner: PlayedRunner) -> None:
    answer = await cluster.http.post(f"/v1/jobs/{job}/checkpoints", json={})
    number = answer.raise_for_status().json()["number"]
    cluster.clock.pass_time(1)
    told = {**runner.acks(number), "acks": subtasks_of(a_document())}
    (await runner.post("acks", told)).raise_for_status()


async def _copy(database: Database, job: str, copies: int) -> None:
    """Give Postgres so many more jobs like this one: to play them all would take minutes."""
    async with database.engine.begin() as connection:
        await connection.execute(
            text(
                "CREATE TEMPORARY TABLE copies ON COMMIT DROP AS SELECT gen_random_uuid() AS id "
                "FROM generate_series(1, :copies)"
            ),
            {"copies": copies},
        )
        for table, of_job in _COPIED.items():
            changed = {of_job: "c.id"} | ({"id": "gen_random_uuid()"} if table == "runners" else {})
            found = await connection.execute(text(_COLUMNS), {"name": table})
            names = [name for (name,) in found]
            values = ", ".join(changed.get(name, f"t.{name}") for name in names)
            await connection.execute(
                text(
                    f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} "
                    f"FROM {table} t, copies c WHERE t.{of_job} = :job"
                ),
                {"job": UUID(job)},
            )
        await connection.execute(text("ANALYZE"))


_COPIED = {
    "jobs": "id",
    "attempts": "job_id",
    "runners": "job_id",
    "checkpoints": "job_id",
    "checkpoint_subtasks": "job_id",
}
"""Tables, and their column with the job's id."""
_COLUMNS = """
SELECT column_name FROM information_schema.columns
WHERE table_name = :name AND is_generated = 'NEVER' ORDER BY ordinal_position
"""
_REGION: dict[str, Any] = {
    "region": "out",
    "batch": 7,
    "is_active": True,
    "unmoved_ms": 0,
    "input_rows": 700,
    "output_rows": 70,
    "input_rows_per_second": 100.0,
    "processed_rows_per_second": 120.0,
    "batch_duration_ms": 900,
    "state_rows": 1000,
    "state_bytes": 100000,
}


async def main(directory: Path, jobs: int, checkpoints: int) -> None:
    configure_logs(Secrets())
    postgres = EmbeddedPostgres.start(directory / "postgres")
    database = open_database(postgres.url)
    try:
        async with AsyncExitStack() as stack:
            await database.migrate()
            cluster = await stack.enter_async_context(a_cluster(database, directory / "storage"))
            cluster.http.event_hooks = {}
            first = await _run_job(cluster, 0, checkpoints)
            copied = await _run_job(cluster, 1, _OF_OTHERS)
            await _copy(database, copied, jobs - 2)
            ids = [first, copied]
            url = await stack.enter_async_context(served(cluster.app))
            collect_rarely()
            pid = int((directory / "postgres" / "postmaster.pid").read_text().split()[0])
            sys.stdout.write(json.dumps({"url": url, "jobs": ids, "postgres": pid}) + "\n")
            sys.stdout.flush()
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    finally:
        await database.close()
        postgres.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--checkpoints", type=int, default=100)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hgbench", ignore_cleanup_errors=True) as name:
        asyncio.run(main(Path(name), given.jobs, given.checkpoints))
