"""Several compete for one lease in a real Postgres, and only one of them can commit."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import text

from jobmanager.core.errors import NotLeading, StoreUnavailable
from jobmanager.core.ids import JobId, JobManagerId
from jobmanager.core.life.lease import Candidate, Term
from jobmanager.loops.leadership import Leadership, Timing
from jobmanager.services import jobs
from jobmanager.services.ports.leadership import JobManager
from jobmanager.store.database import Database, Waits, open_database
from jobmanager.store.leases import check_term
from tests.support.builders import NOW, a_document
from tests.support.databases import fresh_database

pytestmark = pytest.mark.anyio
LONG = timedelta(hours=1)
SHORT = timedelta(seconds=2)


@pytest.fixture
def own_url(postgres_url: str) -> Iterator[str]:
    with fresh_database(postgres_url) as url:
        yield url


@pytest.fixture
async def databases(own_url: str) -> AsyncIterator[list[Database]]:
    opened = [open_database(own_url, Waits(connection=60, lease_connection=60)) for _ in range(3)]
    await opened[0].migrate()
    yield opened
    for one in opened:
        await one.close()


def a_candidate(predecessor: JobManagerId | None = None) -> Candidate:
    return Candidate(JobManagerId(uuid4()), "http://one", predecessor)


def a_jobmanager(name: str) -> JobManager:
    return JobManager(JobManagerId(uuid4()), f"http://{name}", "here", os.getpid(), "1", NOW, NOW)


async def submit(database: Database) -> JobId:
    job_id = JobId(uuid4())
    return await jobs.submit(database.unit_of_work(), job_id, a_document(), None, None, NOW)


async def expire(database: Database) -> None:
    """The time of the lease is over."""
    async with database.engine.begin() as connection:
        await connection.execute(text("UPDATE lease SET expires_at = now() - interval '1 second'"))


async def count_jobs(database: Database) -> int:
    async with database.unit_of_work() as uow:
        return len(await uow.jobs.all())


async def test_of_many_who_take_it_at_once_one_has_it(databases: list[Database]) -> None:
    taken = await asyncio.gather(
        *(one.leases.take(a_candidate(), Term(0), LONG) for one in databases for _ in range(4))
    )

    assert sorted(term for term in taken if term is not None) == [1]


async def test_a_lease_is_taken_when_it_has_expired_and_the_term_ascends(
    databases: list[Database],
) -> None:
    first, second, _ = (one.leases for one in databases)
    assert await first.take(a_candidate(), Term(0), LONG) == 1

    assert await second.take(a_candidate(), Term(1), LONG) is None
    await expire(databases[0])
    assert not await first.renew(Term(1), LONG)
    assert await second.take(a_candidate(), Term(1), LONG) == 2
    assert not await first.renew(Term(1), LONG)
    assert (await first.look()).lease.term == 2


async def test_a_lease_that_is_renewed_does_not_expire(databases: list[Database]) -> None:
    first, second, _ = (one.leases for one in databases)
    await first.take(a_candidate(), Term(0), SHORT)

    for _ in range(5):
        await asyncio.sleep(0.5)  # all together longer than the lease
        assert await first.renew(Term(1), SHORT)
        assert await second.take(a_candidate(), Term(1), LONG) is None
    seen = await second.look()
    assert seen.lease.is_in_force(seen.at)


async def test_a_lease_that_was_let_go_is_taken_at_once(databases: list[Database]) -> None:
    first, second, _ = (one.leases for one in databases)
    await first.take(a_candidate(), Term(0), LONG)
    await first.release(Term(1))

    assert await second.take(a_candidate(), Term(1), LONG) == 2
    await first.release(Term(1))  # late: it is not ours any more
    seen = await first.look()
    assert seen.lease.is_in_force(seen.at)


async def test_the_lease_of_a_predecessor_is_taken_at_once(databases: list[Database]) -> None:
    first, second, _ = (one.leases for one in databases)
    gone = a_candidate()
    await first.take(gone, Term(0), LONG)

    assert await second.take(a_candidate(predecessor=gone.id), Term(1), LONG) == 2


async def test_a_superseded_leader_commits_nothing(databases: list[Database]) -> None:
    old, new, _ = databases
    old.leader = lambda: Term(1)
    await old.leases.take(a_candidate(), Term(0), LONG)
    await submit(old)

    async with old.unit_of_work() as under_way:
        await under_way.jobs.all()
        await new.leases.release(Term(1))
        await new.leases.take(a_candidate(), Term(1), LONG)
        with pytest.raises(NotLeading):
            await under_way.commit()
    with pytest.raises(NotLeading):
        await submit(old)

    new.leader = lambda: Term(2)
    assert await count_jobs(new) == 1
    await submit(new)
    assert await count_jobs(new) == 2


async def test_one_that_does_not_lead_reads_and_commits_nothing(databases: list[Database]) -> None:
    databases[0].leader = lambda: None

    with pytest.raises(NotLeading):
        await submit(databases[0])
    assert await count_jobs(databases[0]) == 0


async def test_an_expired_lease_commits_nothing_even_if_nobody_took_it(
    databases: list[Database],
) -> None:
    databases[0].leader = lambda: Term(1)
    await databases[0].leases.take(a_candidate(), Term(0), LONG)
    await expire(databases[0])

    with pytest.raises(NotLeading):
        await submit(databases[0])


async def test_a_new_leader_waits_for_a_commit_that_was_let_through_and_a_renewal_does_not(
    databases: list[Database],
) -> None:
    """The race: the fence lets a commit through, and the lease is taken before it is done."""
    old, new, _ = databases
    await old.leases.take(a_candidate(), Term(0), LONG)
    async with old.engine.connect() as slow:
        await slow.execute(text("SELECT 1 FROM lease WHERE term = 1 FOR KEY SHARE"))

        async with asyncio.timeout(20):
            assert await new.leases.renew(Term(1), LONG)
        await new.leases.release(Term(1))
        taking = asyncio.create_task(new.leases.take(a_candidate(), Term(1), LONG))
        await asyncio.sleep(0.3)
        assert not taking.done()

        await slow.commit()
        assert await taking == 2


async def test_a_leader_that_froze_in_a_transaction_does_not_keep_the_others_waiting(
    databases: list[Database],
) -> None:
    old, new, _ = databases
    old.leader = lambda: Term(1)
    await old.leases.take(a_candidate(), Term(0), LONG)

    async def freeze() -> None:
        async with old.unit_of_work() as frozen:
            await check_term(frozen._session, Term(1))
            await new.leases.release(Term(1))
            async with asyncio.timeout(20):
                assert await new.leases.take(a_candidate(), Term(1), LONG) == 2
            await frozen.commit()

    with pytest.raises(StoreUnavailable):
        await freeze()


# ── the loop ──────────────────────────────────────────────────────────────────


class Told:
    def __init__(self) -> None:
        self.what: list[str] = []
        self.urls: list[str] = []

    async def lead(self, term: Term) -> None:
        self.what.append(f"lead {term}")

    async def follow(self) -> None:
        self.what.append("follow")

    async def peers_changed(self, urls: Sequence[str]) -> None:
        self.urls = list(urls)


class OwnClock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_two_jobmanagers_one_leads_and_the_other_knows_where(
    databases: list[Database],
) -> None:
    told = Told()
    one = Leadership(databases[0].leases, a_jobmanager("one"), Timing(), told)
    two = Leadership(databases[1].leases, a_jobmanager("two"), Timing())

    await one.run_once()
    pause = await two.run_once()
    await one.run_once()

    assert (one.term, two.term) == (1, None)
    assert one.leader_url == two.leader_url == "http://one"
    assert list(one.urls) == list(two.urls) == ["http://one", "http://two"]
    assert 0 < pause <= 1
    assert (one.is_alone, told.what, told.urls) == (False, ["lead 1"], ["http://one", "http://two"])

    await one.resign()
    await two.run_once()
    assert (two.term, two.is_alone, two.leader_url) == (2, True, "http://two")
    assert told.what == ["lead 1", "follow"]


async def test_a_leader_that_cannot_renew_stops_by_its_own_clock(
    databases: list[Database],
) -> None:
    told, clock = Told(), OwnClock()
    leadership = Leadership(databases[0].leases, a_jobmanager("one"), Timing(), told, clock=clock)
    await leadership.run_once()
    assert leadership.term == 1

    terms = []
    for clock.now in (5.9, 6.0):
        terms.append(leadership.term)
    assert terms == [1, None]  # at once, and not when the loop next looks

    # For Postgres its lease still is in force: it was frozen, and may not go on with it.
    assert (await databases[1].leases.look()).lease.term == 1
    await leadership.run_once()
    assert told.what == ["lead 1", "follow"]


async def test_a_jobmanager_takes_over_from_the_one_before_it_in_its_data_directory(
    databases: list[Database],
) -> None:
    before = a_jobmanager("before")
    await Leadership(databases[0].leases, before, Timing(LONG)).run_once()

    after = Leadership(
        databases[1].leases, a_jobmanager("after"), Timing(LONG), predecessor=before.id
    )
    await after.run_once()

    assert (after.term, after.is_alone, list(after.urls)) == (2, True, ["http://after"])


async def test_a_lease_lost_to_another_is_noticed_at_the_next_renewal(
    databases: list[Database],
) -> None:
    told = Told()
    one = Leadership(databases[0].leases, a_jobmanager("one"), Timing(LONG), told)
    await one.run_once()
    await databases[1].leases.release(Term(1))
    await databases[1].leases.take(a_candidate(), Term(1), LONG)

    await one.run_once()

    assert (one.term, told.what) == (None, ["lead 1", "follow"])
