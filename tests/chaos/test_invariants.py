"""What a chaos run asks Postgres finds each fault, and none in a sound database."""

import psycopg
import pytest

from tests.chaos.invariants import AT_THE_END, BROKEN_BY, broken
from tests.support.builders import a_document
from tests.support.cluster import EVERYONE, Cluster

pytestmark = pytest.mark.anyio
CORRUPTIONS = {
    "a checkpoint is complete": "UPDATE checkpoint_subtasks SET acked_at = NULL, pointer = NULL",
    "an ack is between": "UPDATE checkpoint_subtasks SET acked_at = acked_at - interval '1 day'",
    "checkpoints are numbered": "UPDATE checkpoints SET triggered_at = triggered_at - number * "
    "interval '1 second'",
    "a checkpoint was triggered": "UPDATE attempts SET running_at = NULL",
    "at most one attempt": "UPDATE attempts SET launched_at = launched_at - interval '1 day' "
    "WHERE number = 2",
    "an attempt ends once": "INSERT INTO history (job_id, at, kind, cause, attempt, detail) SELECT "
    "job_id, at, kind, cause, attempt, detail FROM history WHERE kind = 'attempt_failed'",
    "nothing is said": "INSERT INTO history (job_id, at, kind, cause, attempt, detail, actor) "
    "SELECT job_id, ended_at + interval '1 second', 'attempt_running', '', number, '{}', 'runner' "
    "FROM attempts",
    "terms ascend": "INSERT INTO history (job_id, at, kind, cause, detail) SELECT id, now(), "
    "'leader_changed', 'x leads, in term ' || t, '{}' FROM jobs, unnest(ARRAY[2, 1]) AS t",
    "every operation has ended": "UPDATE operations SET status = 'in_progress', ended_at = NULL",
    "a savepoint is complete": "UPDATE savepoints SET status = 'failed', completed_at = NULL",
    "a completed savepoint": "UPDATE savepoints SET status = 'failed', completed_at = NULL",
    "every key group": "UPDATE key_group_assignments SET key_groups = key_groups[2:]",
    "every subtask": "DELETE FROM key_group_assignments WHERE subtask = 1",
    "no attempt is restored": "UPDATE attempts SET restored = "
    '\'[{"region": "out", "batch": 0}]\' WHERE number = 2',
    "no more checkpoints": "UPDATE checkpoints SET discarded_at = NULL",
    "every job": "UPDATE jobs SET status = 'running', ended_at = NULL",
    "what was decided": "INSERT INTO outbox (job_id, target, kind, payload, created_at, due_at, "
    "tries) SELECT id, 'jobmanager', 'x', '{}', now(), now(), 0 FROM jobs",
}


async def a_whole_life(cluster: Cluster) -> str:
    """A job with checkpoints, a failure, a savepoint, a stop."""
    job, runner = await cluster.running({**a_document(), "checkpointing": {"retained": 1}})
    for number in (1, 2):
        await cluster.http.post(f"/v1/jobs/{job}/checkpoints")
        assert await runner.ack(number, *EVERYONE) == "completed"
    await runner.fail()
    await cluster.exit(runner)
    cluster.clock.pass_time(1)
    await cluster.reaper.run_once()
    second = await cluster.runner(job, attempt=2)
    await second.register()
    restored = {"region": "out", "origin": "attempt", "batch": 2, "source": 1, "why": "newest"}
    await second.say("running", restored=[restored])
    await cluster.http.post(f"/v1/jobs/{job}/stop", json={})
    assert await second.ack(3, *EVERYONE) == "completed"
    directives = await second.directives()
    stop = next(one for one in directives if one["body"]["kind"] == "stop")
    await second.say("stopped", savepoint=stop["body"]["savepoint"]["id"])
    await cluster.exit(second, "exit code 0")
    await cluster.dispatch.run_once()
    await cluster.http.get(f"/v1/jobs/{job}/status")
    return job


async def test_each_invariant_is_seen_to_be_broken(cluster: Cluster, database_url: str) -> None:
    job = await a_whole_life(cluster)
    assert broken(database_url, has_ended=True) == {}
    assert await cluster.state(job) == "FINISHED"

    with psycopg.connect(database_url) as connection:
        for name, query in {**BROKEN_BY, **AT_THE_END}.items():
            [corruption] = [sql for start, sql in CORRUPTIONS.items() if name.startswith(start)]
            with connection.transaction(force_rollback=True):
                assert connection.execute(corruption.encode()).rowcount > 0, name
                assert connection.execute(query.encode()).fetchall(), f"not noticed: {name}"
