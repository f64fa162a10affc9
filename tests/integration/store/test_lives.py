"""Lives in Postgres: what is saved is what was decided, and what SQL says is what the core says.

Jobs live by random events, some of them started from what others left. Each event goes the way
of production, and beside it through the pure function alone.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from jobmanager.api.flink.checkpoints import counted
from jobmanager.api.flink.jobs import line_of
from jobmanager.core.errors import DomainError
from jobmanager.core.ids import CheckpointNumber, JobId, RunnerId
from jobmanager.core.life import attempt as attempts
from jobmanager.core.life import checkpoint as checkpoints
from jobmanager.core.life import job as job_machine
from jobmanager.core.life import retention
from jobmanager.core.life.checkpoint_rules import is_time
from jobmanager.core.life.draft import is_under_way
from jobmanager.core.life.effects import LaunchAttempt
from jobmanager.core.life.events import LifeEvent, Submitted
from jobmanager.core.life.job import JobStatus
from jobmanager.core.life.life import Life, Step, begin, step
from jobmanager.core.life.records import RestorePoint, StoredJob
from jobmanager.services import lives
from jobmanager.services.lives import Happened
from jobmanager.services.ports.figures import SummaryFilter
from jobmanager.services.ports.lives import SpokenOf
from jobmanager.services.ports.runners import Runner
from jobmanager.store.database import Database
from tests.support.builders import NOW, a_document
from tests.support.chance import Chance
from tests.support.lives import a_submission

pytestmark = pytest.mark.anyio
PACED = {"interval": "10s", "min_pause": "3s", "retained": 2, "tolerable_failures": 1}


@dataclass
class Twin:
    """A job in Postgres, and the same life in memory alone, with all that has ended."""

    job_id: JobId
    life: Life
    chance: Chance

    async def live(self, database: Database, events: int) -> None:
        for _ in range(events):
            await self.meet(database, self.chance.event(self.life))

    async def meet(self, database: Database, event: LifeEvent) -> None:
        await self._learn(database, event)
        expected = outcome_of(lambda: step(self.life, event))
        if isinstance(expected, DomainError):
            with pytest.raises(type(expected), match=re.escape(str(expected))):
                await lives.happen(database.unit_of_work(), self.job_id, event)
            return
        happened = await lives.happen(database.unit_of_work(), self.job_id, event)
        assert happened.step.effects == expected.effects, event
        assert happened.step.history == expected.history, event
        assert happened.step.outcome == expected.outcome, event
        self.life = expected.life
        await self.compare(database)
        for effect in expected.effects:
            if isinstance(effect, LaunchAttempt):
                await launch(database, self.job_id, self.life)

    async def _learn(self, database: Database, event: LifeEvent) -> None:
        """What other jobs and runners did is not in the memory of one job."""
        async with database.unit_of_work() as uow:
            found = await uow.lives.load(self.job_id, lives.spoken_of(event))
        self.life = replace(
            self.life,
            has_live_runner=found.has_live_runner,
            pinned=found.pinned,
            shares_restore_point=found.shares_restore_point,
            savepoints={**self.life.savepoints, **found.savepoints},
        )

    async def compare(self, database: Database) -> None:
        """What is loaded is what is under way in memory; and what is restorable."""
        any_number = CheckpointNumber(10**6)  # so that what is restorable is loaded
        async with database.unit_of_work() as uow:
            found = await uow.lives.load(self.job_id, SpokenOf(checkpoint=any_number))
            owned = await uow.key_groups.of_job(self.job_id)
        expected = self.life
        assert found.job == expected.job
        assert found.attempt.attempt == expected.attempt.attempt
        assert list(found.attempts) == [expected.job.job.attempt]
        assert found.attempt.restored == list(expected.attempt.restored or ())
        assert found.attempt.progress == list(expected.attempt.progress or ())
        assert found.attempt.progress_at == expected.attempt.progress_at
        under_way = {k: one for k, one in expected.operations.items() if is_under_way(one)}
        assert found.operations == under_way
        for one in under_way.values():
            assert one.savepoint_id is not None
            assert found.savepoints[one.savepoint_id] == expected.savepoints[one.savepoint_id]
        assert list(found.checkpoints.values()) == expected.checkpoints_under_way[::-1]
        assert found.restorable == expected.restorable
        assert {subtask for _, subtask in owned} == set(range(expected.job.parallelism))


def outcome_of(decide: Callable[[], Step]) -> Step | DomainError:
    try:
        return decide()
    except DomainError as error:
        return error


async def launch(database: Database, job_id: JobId, life: Life) -> None:
    """As the dispatcher does it, without a process."""
    number = life.job.job.attempt
    async with database.unit_of_work() as uow:
        if await uow.runners.of_attempt(job_id, number) is None:
            runner = Runner(RunnerId(uuid4()), job_id, number, "hash", "here", "/log", NOW)
            await uow.runners.add(runner)
            await uow.commit()


async def accept(database: Database, said: Submitted) -> Life:
    """As a submission, with a restore point that need not be there."""
    begun = begin(said)
    async with database.unit_of_work() as uow:
        await uow.jobs.add(begun.life.job, None)
        await lives.save(uow, Happened(None, begun, said.at))
        await uow.commit()
    return begun.life


async def a_twin(database: Database, seed: int, restore_point: RestorePoint | None = None) -> Twin:
    job_id, document = JobId(UUID(int=(seed + 1) << 96)), a_document(checkpointing=PACED)
    said: Submitted = replace(
        a_submission(NOW, document, restore_point), job_id=job_id, document=document
    )
    life = await accept(database, said)
    await launch(database, job_id, life)
    return Twin(job_id, life, Chance(seed, ids_after=seed * 10_000))


def a_restore_point(of: Twin, chance: random.Random) -> RestorePoint:
    """A checkpoint or savepoint of another job, claimed or not."""
    claim = chance.random() < 0.5
    if of.life.savepoints and chance.random() < 0.5:
        savepoint = chance.choice(list(of.life.savepoints.values()))
        root, name = savepoint.directory, f"savepoint {savepoint.id.hex}"
        return RestorePoint(root, "m", name, of.job_id.hex, savepoint=name, claim=claim)
    number = chance.randint(1, 2)
    name = f"checkpoint {number}"
    return RestorePoint("file:///x", "m", name, of.job_id.hex, checkpoint=number, claim=claim)


async def random_jobs(database: Database, seed: int, count: int, events: int) -> list[Twin]:
    """Jobs that live at the same time, the later ones started from what others left."""
    chance, twins = random.Random(seed), list[Twin]()
    for n in range(count):
        point = a_restore_point(chance.choice(twins[:3]), chance) if n > 1 else None
        twins.append(await a_twin(database, seed * 100 + n, point))
        for one in twins[-4:]:
            await one.live(database, chance.randint(0, events))
    return twins


@pytest.mark.parametrize("seed", range(3))
async def test_what_is_saved_is_what_was_decided(database: Database, seed: int) -> None:
    for twin in await random_jobs(database, seed, count=7, events=16):
        await twin.compare(database)


async def test_what_sql_says_is_what_the_core_says(database: Database) -> None:
    twins = await random_jobs(database, seed=7, count=14, events=12)
    lives_by_id = {twin.job_id: twin.life for twin in twins}
    seen: Counter[str] = Counter()
    for moment in sorted(moments(lives_by_id.values())):
        for now in (moment - timedelta(milliseconds=1), moment):
            await compare_what_is_due(database, lives_by_id, now, seen)
    await compare_what_is_needed(database, lives_by_id, seen)
    await compare_what_is_shown(database, lives_by_id)
    await compare_quick_reads(database, lives_by_id)

    assert all(seen[what] for what in ("due", "expired", "restarts", "started from")), seen


def moments(lives: Iterable[Life]) -> set[datetime]:
    """When something is due, of any of these."""
    found = set[datetime | None]()
    for life in lives:
        found |= {life.job.next_checkpoint_at, life.job.job.restart_at}
        found |= {one.attempt.kill_at for one in life.attempts.values()}
        found |= {one.expires_at for one in life.checkpoints_under_way}
    return {at for at in found if at is not None}


@pytest.mark.parametrize("seed", range(3))
async def test_what_is_pinned_in_sql_is_what_the_core_says(database: Database, seed: int) -> None:
    chance, seen = random.Random(seed), Counter[str]()
    ids = list[JobId]()
    for _ in range(25):
        point = a_random_point(chance, f"file:///{seed}", ids[:2])
        ids.append(await a_random_row(database, chance, point))
    async with database.unit_of_work() as uow:
        rows = {job_id: await uow.lives.load(job_id, SpokenOf()) for job_id in ids}
        for job_id in ids:
            taken = {
                one.checkpoint.number: one.checkpoint
                for one in await uow.checkpoints.of_job(job_id, 100)
            }
            rows[job_id] = replace(rows[job_id], checkpoints=taken)
    await compare_what_is_needed(database, rows, seen)

    assert all(seen[what] for what in ("pinned", "started from", "shared")), seen


async def a_random_row(
    database: Database, chance: random.Random, point: RestorePoint | None
) -> JobId:
    """A job in any state, started from there, with any checkpoints."""
    job_id = JobId(uuid4())
    await accept(database, replace(a_submission(NOW, a_document(), point), job_id=job_id))
    status = chance.choice(("running", "running", "starting", "failed", "cancelled", "finished"))
    changes = f"""
        UPDATE jobs SET status = :status, attempt = 3, base_attempt = :base,
            ended_at = {"NULL" if status in ("running", "starting") else "now()"} WHERE id = :id;
        INSERT INTO attempts (job_id, number, status, launched_at, ended_at, failure)
        SELECT :id, n, 'failed', now(), now(), '{{"kind": "lost", "message": "x"}}'
        FROM unnest(array[2, 3]) AS n;
    """
    async with database.engine.begin() as connection:
        for change in changes.split(";")[:2]:
            told = {"id": job_id, "status": status, "base": chance.randint(1, 3)}
            await connection.execute(text(change), told)
        for number in range(1, chance.randint(1, 3)):
            await connection.execute(text(_CHECKPOINT), a_checkpoint_row(job_id, number, chance))
    return job_id


_CHECKPOINT = """
INSERT INTO checkpoints (job_id, number, attempt, kind, status, triggered_at, expires_at,
                         ended_at, aborted_because, manifest, batches)
VALUES (:id, :number, :attempt, :kind, :status, now(), now(),
        CASE WHEN :status <> 'in_progress' THEN now() END,
        CASE WHEN :status = 'aborted' THEN 'expired' END, 'm', '{}')
"""


def a_checkpoint_row(job_id: JobId, number: int, chance: random.Random) -> dict[str, object]:
    return {
        "id": job_id,
        "number": number,
        "attempt": chance.randint(1, 3),
        "kind": chance.choice(("periodic", "requested", "savepoint")),
        "status": chance.choice(("completed", "completed", "aborted", "in_progress")),
    }


def a_random_point(chance: random.Random, base: str, writers: list[JobId]) -> RestorePoint | None:
    if not writers or chance.random() < 0.2:
        return None
    checkpoint, claim = chance.choice((None, 1, 2, 3)), chance.random() < 0.5
    writer, root = chance.choice(writers), f"{base}/{chance.randint(1, 9)}"
    return RestorePoint(root, "m", "n", writer.hex, checkpoint=checkpoint, claim=claim)


async def compare_what_is_due(
    database: Database, known: dict[JobId, Life], now: datetime, seen: Counter[str]
) -> None:
    async with database.unit_of_work() as uow:
        due = {life.job.id for life in await uow.lives.load_due(now, 1_000)}
        restarts = set(await uow.jobs.restart_due(now))
        graces = set(await uow.attempts.grace_ended(now))
        expired = set(await uow.checkpoints.expired(now))
    ours = known.keys()
    assert due & ours == {
        job_id
        for job_id, life in known.items()
        if is_time(life.job, now) and not life.checkpoints_under_way
    }
    assert restarts & ours == {
        job_id for job_id, life in known.items() if has_moved(life, job_machine.RestartDue(now))
    }
    assert {one for one in graces if one[0] in ours} == {
        (job_id, number)
        for job_id, life in known.items()
        for number, one in life.attempts.items()
        if attempts.transition(one.attempt, attempts.GraceEnded(now)).attempt != one.attempt
    }
    late = checkpoints.CheckpointExpired(now)
    assert {one for one in expired if one[0] in ours} == {
        (job_id, number)
        for job_id, life in known.items()
        for number, one in life.checkpoints.items()
        if checkpoints.transition(one, late).checkpoint != one
    }
    seen.update({"due": len(due & ours), "expired": len(expired), "restarts": len(restarts)})


def has_moved(life: Life, event: job_machine.JobEvent) -> bool:
    return job_machine.transition(life.job.job, event).job != life.job.job


async def compare_what_is_needed(
    database: Database, known: dict[JobId, Life], seen: Counter[str]
) -> None:
    in_need = [
        life.job
        for life in known.values()
        if retention.needs_restore_point(life.job, life.checkpoints.values())
    ]
    roots = {life.job.restore_point.root for life in known.values() if life.job.restore_point}
    async with database.unit_of_work() as uow:
        for job_id, life in known.items():
            found = await uow.lives.load(job_id, SpokenOf(checkpoint=CheckpointNumber(10**6)))
            assert await uow.jobs.pinned(job_id) == found.pinned
            assert found.pinned == retention.pinned(job_id, in_need)
            assert found.shares_restore_point == shares(life.job, in_need)
            assert await uow.operations.under_way(job_id) == life.operation
            seen.update({"pinned": len(found.pinned), "shared": found.shares_restore_point})
        for root in roots:
            users = set(await uow.jobs.started_from(root)) & known.keys()
            assert users == {job.id for job in in_need if starts_from(job, root)}
            seen.update({"started from": len(users)})
        changes = {one.id for one in await uow.operations.changes_under_way()}
    assert changes >= {
        life.operation.id
        for life in known.values()
        if life.operation and life.operation.operation.kind.is_change
    }


def starts_from(job: StoredJob, root: str) -> bool:
    return job.restore_point is not None and job.restore_point.root == root


def shares(job: StoredJob, in_need: Iterable[StoredJob]) -> bool:
    """Whether another job still needs what this job has claimed."""
    mine = job.restore_point
    if mine is None or not mine.claim:
        return False
    points = [one.restore_point for one in in_need if one.id != job.id and one.restore_point]
    if mine.checkpoint is None:
        return any(point.root == mine.root for point in points)
    return any((p.job, p.checkpoint) == (mine.job, mine.checkpoint) for p in points)


async def compare_quick_reads(database: Database, known: dict[JobId, Life]) -> None:
    """One statement of the most frequent reads finds what the other reads find one by one."""
    async with database.unit_of_work(only_reads=True) as uow:
        reads, running = uow.job_reads, await uow.job_reads.running()
        listed, states = await uow.jobs.listed(1_000), await reads.states(1_000)
        assert [one.id for one in listed] == [one.id for one in await reads.lines(1_000)]
        assert [(one.id, one.job.status) for one in listed] == [(s.id, s.status) for s in states]
        lines = {one.id: one for one in await reads.lines(1_000)}
        for job_id in known:
            stored = await uow.jobs.get(job_id)
            attempt = await uow.attempts.get(job_id, stored.job.attempt)
            both, now = await reads.with_attempt(job_id), await reads.now(job_id)
            assert (both.stored, both.attempt) == (now.stored, now.attempt) == (stored, attempt)
            runner = await uow.runners.of_attempt(job_id, stored.job.attempt)
            assert (runner and str(runner.id)) == (now.runner and now.runner.id)
            restorable = await uow.checkpoints.restorable(job_id)
            assert (now.checkpoint and now.checkpoint.number) == max(restorable, default=None)
            assert lines[job_id] == line_of(stored, attempt)
            assert (job_id in running) == (stored.job.status is JobStatus.RUNNING)
            found = await reads.checkpoints(job_id, 100)
            whole = await uow.checkpoints.of_job(job_id, 100)
            assert found.newest == [counted(one) for one in whole]
            assert found.counts == await uow.checkpoints.counts(job_id)


async def compare_what_is_shown(database: Database, known: dict[JobId, Life]) -> None:
    async with database.unit_of_work() as uow:
        page = await uow.summaries.page(SummaryFilter(1_000, only=list(known)))
        counts = await uow.summaries.counts()
        states = (await uow.statistics.read()).states
        live = set(await uow.jobs.live()) & known.keys()
        every = await uow.jobs.all()
        for job_id, life in known.items():
            entries = await uow.history.after(0, 5, job_id)
            assert {one.job_state for one in entries} == {life.job.state}
    assert {one.id: one.state for one in page} == {k: life.job.state for k, life in known.items()}
    assert counts == states == Counter(job.state for job in every)
    assert live == {k for k, life in known.items() if not life.job.job.status.is_terminal}
