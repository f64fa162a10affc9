"""The invariants of the design, as questions to Postgres: each asks for what must not be there."""

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg.rows import dict_row

BROKEN_BY: Mapping[str, str] = {
    "a checkpoint is complete if and only if nobody is awaited": """
        SELECT c.number, c.status FROM checkpoints c
        WHERE (c.status = 'completed') <> NOT EXISTS (
            SELECT FROM checkpoint_subtasks s
            WHERE s.job_id = c.job_id AND s.checkpoint = c.number AND s.acked_at IS NULL)""",
    "an ack is between the trigger and the end": """
        SELECT c.number, s.vertex, s.subtask FROM checkpoints c
        JOIN checkpoint_subtasks s ON s.job_id = c.job_id AND s.checkpoint = c.number
        WHERE s.acked_at < c.triggered_at OR s.acked_at > c.ended_at""",
    "checkpoints are numbered without gaps, in the order of time and of attempts": """
        SELECT number FROM (
            SELECT job_id, number, triggered_at, attempt,
                   lag(number) OVER w AS before, lag(triggered_at) OVER w AS earlier,
                   lag(attempt) OVER w AS former
            FROM checkpoints WINDOW w AS (PARTITION BY job_id ORDER BY number)) AS each
        WHERE number <> coalesce(before, 0) + 1 OR triggered_at < earlier OR attempt < former""",
    "a checkpoint was triggered while its attempt ran": """
        SELECT c.number, c.attempt FROM checkpoints c
        JOIN attempts a ON a.job_id = c.job_id AND a.number = c.attempt
        WHERE a.running_at IS NULL OR c.triggered_at < a.running_at
           OR c.triggered_at > a.ended_at""",
    "at most one attempt of a job lives, and each begins after the end of the one before": """
        SELECT a.number FROM attempts a
        JOIN attempts b ON b.job_id = a.job_id AND b.number = a.number + 1
        WHERE a.ended_at IS NULL OR b.launched_at < a.ended_at""",
    "an attempt ends once": """
        SELECT job_id, attempt, count(*) FROM history
        WHERE kind IN ('attempt_failed', 'attempt_finished', 'attempt_cancelled')
        GROUP BY job_id, attempt HAVING count(*) > 1""",
    "nothing is said of an attempt after its end but by who puts things away": """
        SELECT h.id, h.kind, h.attempt FROM history h
        JOIN attempts a ON a.job_id = h.job_id AND a.number = h.attempt
        WHERE h.actor = 'runner' AND h.at > a.ended_at AND h.kind LIKE 'attempt%'""",
    "terms ascend": """
        SELECT id, cause FROM (
            SELECT id, cause, substring(cause FROM 'term (\\d+)')::int AS term,
                   lag(substring(cause FROM 'term (\\d+)')::int) OVER (
                       PARTITION BY job_id ORDER BY id) AS before
            FROM history WHERE kind = 'leader_changed') AS each
        WHERE term <= before OR term > (SELECT term FROM lease)""",
    "every operation has ended, and so have the phases of one that was completed": """
        SELECT id, kind, status, phases FROM operations
        WHERE status = 'in_progress'
           OR (status = 'completed'
               AND jsonb_path_exists(phases, '$[*] ? (@.ended_at == null)'))""",
    "a savepoint is complete if its operation is": """
        SELECT o.id FROM operations o JOIN savepoints s ON s.id = o.savepoint_id
        WHERE o.status = 'completed' AND s.status NOT IN ('completed', 'disposed')""",
    "a completed savepoint is a completed checkpoint": """
        SELECT s.id FROM savepoints s
        JOIN checkpoints c ON c.job_id = s.job_id AND c.number = s.checkpoint
        WHERE (s.status IN ('completed', 'disposed')) <> (c.status = 'completed')""",
    "every key group belongs to the subtask that the rule says, and to no other": """
        SELECT k.vertex, k.subtask FROM key_group_assignments k JOIN jobs j ON j.id = k.job_id
        WHERE k.subtask >= j.parallelism OR k.key_groups <> ARRAY(
            SELECT g::int FROM generate_series(0, j.max_parallelism - 1) AS g
            WHERE mod(g, j.parallelism) = k.subtask ORDER BY g)""",
    "every subtask of a keyed vertex has key groups": """
        SELECT k.vertex, count(*) FROM key_group_assignments k JOIN jobs j ON j.id = k.job_id
        GROUP BY k.job_id, k.vertex, j.parallelism HAVING count(*) <> j.parallelism""",
    "no attempt is restored to what is older than a checkpoint completed before it": """
        SELECT a.number, a.restored, c.number AS checkpoint, c.batches
        FROM attempts a, jsonb_array_elements(a.restored) AS r, checkpoints c
        WHERE c.job_id = a.job_id AND c.attempt < a.number AND c.status = 'completed'
          AND (c.batches ->> (r ->> 'region'))::int > coalesce((r ->> 'batch')::int, -1)
          -- a change that is rolled back goes back to its savepoint, whatever it did since
          AND NOT EXISTS (
              SELECT FROM operations o WHERE o.job_id = c.job_id AND o.status = 'rolled_back'
                AND c.triggered_at BETWEEN o.created_at AND o.ended_at)""",
    "no more checkpoints can be restored than are to be retained": """
        SELECT c.job_id, count(*) FROM checkpoints c JOIN jobs j ON j.id = c.job_id
        WHERE c.status = 'completed' AND c.kind <> 'savepoint' AND c.discarded_at IS NULL
        GROUP BY c.job_id, j.graph -> 'checkpointing' ->> 'retained'
        HAVING count(*) > coalesce((j.graph -> 'checkpointing' ->> 'retained')::int, 3)""",
}

AT_THE_END: Mapping[str, str] = {
    "every job, attempt and checkpoint has ended": """
        SELECT 'job' AS what, id::text FROM jobs WHERE ended_at IS NULL
        UNION ALL SELECT 'attempt', number::text FROM attempts WHERE ended_at IS NULL
        UNION ALL SELECT 'checkpoint', number::text FROM checkpoints WHERE ended_at IS NULL""",
    "what was decided is done": "SELECT * FROM outbox",
}


def broken(database_url: str, *, has_ended: bool) -> dict[str, list[dict[str, Any]]]:
    """The invariants that do not hold, each with what breaks it."""
    asked = {**BROKEN_BY, **AT_THE_END} if has_ended else dict(BROKEN_BY)
    if not has_ended:
        del asked["every operation has ended, and so have the phases of one that was completed"]
    with psycopg.connect(database_url, row_factory=dict_row) as connection:
        found = {name: connection.execute(query).fetchall() for name, query in asked.items()}
    return {name: rows for name, rows in found.items() if rows}


def read_everything(database_url: str) -> None:
    """Reads every row of every table: Postgres raises an error for a page that was torn."""
    tables = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables"
    with psycopg.connect(database_url) as connection:
        for (table,) in connection.execute(tables).fetchall():
            connection.execute(f"SELECT * FROM {table}".encode()).fetchall()
