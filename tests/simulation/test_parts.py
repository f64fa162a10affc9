"""The simulated parts behave like the real ones: a database that rolls back, locks that end with
their holder, a shrinker that keeps failing schedules.
"""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import pytest

from jobmanager.core.ids import JobManagerId
from jobmanager.core.life.lease import Candidate, Term
from tests.simulation import stream
from tests.simulation.choices import Choices
from tests.simulation.database import Database, NotLeading, Outage
from tests.simulation.scheduler import Party, Scheduler, Signal, Steps
from tests.simulation.shrinking import shrink
from tests.simulation.storage import FileLock

LEASE = timedelta(seconds=6)


def a_leader(database: Database, number: int) -> Term:
    term = database.take_lease(
        Candidate(JobManagerId(UUID(int=number)), "http://here"), database.lease.term, LEASE
    )
    assert term is not None
    return term


def test_choices_that_were_made_can_be_repeated() -> None:
    drawn = Choices(seed=4711)
    first = [drawn.below(10) for _ in range(50)]
    assert [Choices(replayed=drawn.made).below(10)] == first[:1]
    again = Choices(replayed=drawn.made)
    assert [again.below(10) for _ in range(60)] == first + [0] * 10


def test_what_is_not_committed_never_happened() -> None:
    scheduler = Scheduler(Choices(seed=1))
    database = Database(scheduler, Choices(seed=1))
    seen: list[str] = []
    transaction = database.begin(a_leader(database, 1))
    transaction.write(lambda: seen.append("written"))
    transaction.close()
    assert seen == []


def test_a_transaction_of_an_older_term_is_refused() -> None:
    scheduler = Scheduler(Choices(seed=1))
    database = Database(scheduler, Choices(seed=1))
    transaction = database.begin(a_leader(database, 1))
    database.clock_offset_ms = 7_000
    a_leader(database, 2)
    with pytest.raises(NotLeading):
        transaction.commit()


def test_a_session_that_is_idle_for_too_long_is_broken_off() -> None:
    scheduler = Scheduler(Choices(seed=1))
    database = Database(scheduler, Choices(seed=1))
    transaction = database.begin(a_leader(database, 1))
    scheduler.now += 5_000
    with pytest.raises(Outage):
        transaction.commit()


def test_a_dead_process_holds_no_lock() -> None:
    scheduler = Scheduler(Choices(replayed=[]))
    lock, taken = FileLock(scheduler), []

    def hold(name: str) -> Steps[None]:
        token = yield from lock.acquire()
        try:
            taken.append(name)
            yield Signal()
        finally:
            lock.release(token)

    first, second = Party("first", scheduler), Party("second", scheduler)
    first.spawn("hold", hold("first"))
    second.spawn("hold", hold("second"))
    for _ in range(2):
        scheduler.step(0)
    assert taken == ["first"]
    first.crash()
    scheduler.step(0)
    assert taken == ["first", "second"]


def test_a_frozen_party_goes_on_when_it_wakes_up() -> None:
    scheduler = Scheduler(Choices(replayed=[]))
    party, done = Party("party", scheduler), []

    def work() -> Steps[None]:
        yield 1_000
        done.append(scheduler.now)

    party.spawn("work", work())
    scheduler.step(0)
    party.is_frozen = True
    scheduler.now = 5_000
    assert not scheduler.step(0)
    party.is_frozen = False
    scheduler.step(0)
    assert [at > 5_000 for at in done] == [True]


def test_shrinking_keeps_what_matters_and_nothing_else() -> None:
    def fails(choices: Sequence[int]) -> bool:
        return 7 in choices and any(one > 20 for one in choices)

    assert sorted(shrink([3, 9, 7, 1, 55, 2, 8] * 10, fails)) == [7, 27]


def test_state_that_was_repartitioned_is_the_same_state() -> None:
    state = stream.empty_state(2, "start")
    state, rows = stream.advance(state, 0, 17, "first")
    assert rows == [stream.expected(row) for row in range(17)]
    for parallelism in (4, 1, 2):
        state = stream.repartitioned(state, parallelism, "again")
        assert stream.fault_in(state, 17) is None
        assert len(state) == parallelism
    assert stream.fault_in(state, 18) is not None
