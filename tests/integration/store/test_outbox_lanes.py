"""The outbox as Postgres reads it, and as `core.life.lanes` says it: on random data."""

import random
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import text

from jobmanager.core.ids import JobId
from jobmanager.core.life.lanes import LANES, OutboxLane, ready
from jobmanager.store.database import Database
from tests.support.builders import NOW, a_document
from tests.support.cluster import Cluster

pytestmark = pytest.mark.anyio
_PAYLOADS = {
    "LaunchAttempt": '{"attempt": 1}',
    "KillRunner": '{"attempt": 1, "reason": "x"}',
    "DiscardCheckpoint": '{"checkpoint": 1}',
    "DiscardAttempts": '{"before": 1}',
    "DisposeSavepoint": '{"directory": "file:///nowhere"}',
}
_ADD = """
INSERT INTO outbox (job_id, target, kind, payload, created_at, due_at, tries)
VALUES (:job, 'jobmanager', :kind, CAST(:payload AS jsonb), :now, :due_at, :tries) RETURNING id
"""


@dataclass(frozen=True, slots=True)
class Row:
    id: int
    job_id: JobId
    kind: str
    tries: int
    is_due: bool


async def random_rows(database: Database, jobs: list[JobId], chance: random.Random) -> list[Row]:
    rows = []
    async with database.engine.begin() as connection:
        await connection.execute(text("DELETE FROM outbox"))
        for _ in range(chance.randint(0, 12)):
            job, kind = chance.choice(jobs), chance.choice(sorted(_PAYLOADS))
            tries, delay = chance.randint(0, 4), timedelta(seconds=chance.choice((-5, 0, 5)))
            values = {"job": job, "kind": kind, "payload": _PAYLOADS[kind], "tries": tries}
            values |= {"now": NOW, "due_at": NOW + delay}
            number = (await connection.execute(text(_ADD), values)).scalar_one()
            rows.append(Row(number, job, kind, tries, delay <= timedelta()))
    return rows


async def test_a_lane_is_read_in_sql_as_the_core_says(cluster: Cluster) -> None:
    jobs = [JobId(UUID(await cluster.submit(a_document(name=name)))) for name in "abc"]
    chance, found_any = random.Random(13), 0
    for _ in range(60):
        rows = await random_rows(cluster.database, jobs, chance)
        busy = set(chance.sample(jobs, chance.randint(0, 2)))
        for lane in OutboxLane:
            kinds = {kind.__name__ for kind, one in LANES.items() if one is lane}
            expected = ready(lane, [one for one in rows if one.kind in kinds], busy)
            async with cluster.database.unit_of_work() as uow:
                found = await uow.outbox.due(lane, NOW, busy, limit=100)
            assert [one.id for one in found] == [one.id for one in expected]
            found_any += len(found)
    assert found_any > 60
