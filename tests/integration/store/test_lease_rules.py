"""The lease as Postgres takes and renews it, and as `core.life.lease` says it: on random data.

Production decides in SQL, by the database's clock and in one statement, so that nothing can
come between the look and the act. The pure functions say what these statements mean; here each
random lease is given to both.
"""

import random
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import text

from jobmanager.core.ids import JobManagerId
from jobmanager.core.life import lease as rules
from jobmanager.core.life.lease import Candidate, Lease, Term
from jobmanager.store.database import Database

pytestmark = pytest.mark.anyio
DURATION = timedelta(minutes=5)
SOON = timedelta(seconds=30)
"""Longer than a test takes: times that are compared are never as close as two clocks."""
IDS = [JobManagerId(UUID(int=n)) for n in range(1, 4)]
_SET = """
UPDATE lease SET term = :term, holder = :holder, url = :url,
       expires_at = clock_timestamp() + :expires_in
"""


async def a_random_lease(database: Database, chance: random.Random) -> Lease:
    holder = chance.choice([None, *IDS])
    async with database.engine.begin() as connection:
        await connection.execute(
            text(_SET),
            {
                "term": chance.randint(1, 5),
                "holder": holder,
                "url": "http://holder" if holder else None,
                "expires_in": chance.choice((-DURATION, -SOON, SOON, DURATION)),
            },
        )
    return (await database.leases.look()).lease


def a_candidate(chance: random.Random) -> Candidate:
    return Candidate(chance.choice(IDS), "http://candidate", chance.choice([None, *IDS]))


async def test_a_lease_is_taken_in_sql_as_the_core_says(database: Database) -> None:
    chance, taken = random.Random(1), 0
    for _ in range(60):
        before, candidate = await a_random_lease(database, chance), a_candidate(chance)
        seen = chance.choice((before.term, before.term, Term(before.term + 1)))
        now = (await database.leases.look()).at

        abandoned = chance.choice((None, None, before.expires_at, before.expires_at + SOON))
        term = await database.leases.take(candidate, seen, DURATION, abandoned)

        after = (await database.leases.look()).lease
        if seen == before.term and rules.may_take(before, candidate, now, abandoned):
            expected = rules.taken(before, candidate, now, DURATION)
            assert term == expected.term
            assert is_like(after, expected)
            taken += 1
        else:
            assert term is None
            assert after == before
    assert 10 < taken < 50


async def test_a_lease_is_renewed_in_sql_as_the_core_says(database: Database) -> None:
    chance, renewed = random.Random(2), 0
    for _ in range(60):
        before = await a_random_lease(database, chance)
        term = chance.choice((before.term, Term(before.term - 1)))
        now = (await database.leases.look()).at
        if before.holder is None:
            continue  # nobody has a term to renew

        said = await database.leases.renew(term, DURATION)

        after = (await database.leases.look()).lease
        assert said == rules.may_renew(before, term, now)
        expected = rules.renewed(before, now, DURATION) if said else before
        assert is_like(after, expected)
        renewed += said
    assert 5 < renewed < 40


def is_like(found: Lease, expected: Lease) -> bool:
    """The same, but for the moment between two looks at the clock."""
    same = (found.term, found.holder, found.url) == (expected.term, expected.holder, expected.url)
    return same and abs(found.expires_at - expected.expires_at) < SOON / 2
