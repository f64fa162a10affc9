"""Postgres goes away and comes back: the API says so meanwhile, and nothing is lost."""

import tempfile
from pathlib import Path

import pytest

from jobmanager.store.database import open_database
from jobmanager.store.embedded import EmbeddedPostgres
from tests.support.builders import a_document
from tests.support.cluster import a_cluster

pytestmark = pytest.mark.anyio


async def test_the_api_says_503_while_postgres_is_away_and_goes_on_afterwards(
    tmp_path: Path,
) -> None:
    with tempfile.TemporaryDirectory(prefix="hg", ignore_cleanup_errors=True) as directory:
        postgres = EmbeddedPostgres.start(Path(directory) / "pg")
        database = open_database(postgres.url)
        try:
            await database.migrate()
            async with a_cluster(database, tmp_path) as cluster:
                job, runner = await cluster.running(a_document())

                postgres.stop()
                reads = await cluster.http.get(f"/v1/jobs/{job}/status")
                writes = await cluster.http.post("/v1/jobs", json=a_document())
                ready = await cluster.http.get("/readyz")
                listed = await cluster.http.get("/v1/jobs")
                alive = await cluster.http.get("/healthz")
                figures = await cluster.http.get("/metrics")
                with pytest.raises(Exception, match="Postgres does not answer"):
                    await cluster.reaper.run_once()

                for answer in (reads, writes, ready, listed):
                    assert answer.status_code == 503, answer.text
                    assert answer.headers["retry-after"] == "2"
                assert "errors" in listed.json()
                assert (alive.status_code, figures.status_code) == (200, 200)
                assert "headgate_postgres_up 0.0" in figures.text
                assert "headgate_jobs" not in figures.text

                postgres = EmbeddedPostgres.start(Path(directory) / "pg")
                assert (await runner.beat())["superseded"] is False
                assert await cluster.state(job) == "RUNNING"
        finally:
            await database.close()
            postgres.stop()
