"""The lanes of the outbox: nobody waits for storage, and of a job one thing at a time."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.ids import JobId
from jobmanager.core.life.lanes import (
    HOLDS_BACK_FOR_TRIES,
    OutboxLane,
    chains,
    ready,
    try_again_after,
)

JOBS = [JobId(UUID(int=number)) for number in range(1, 5)]


@dataclass(frozen=True, slots=True)
class Entry:
    id: int
    job_id: JobId
    tries: int = 0
    is_due: bool = True


ENTRIES = st.lists(
    st.builds(
        Entry,
        id=st.integers(1, 50),
        job_id=st.sampled_from(JOBS),
        tries=st.integers(0, 4),
        is_due=st.booleans(),
    ),
    max_size=20,
    unique_by=lambda one: one.id,
)


def test_an_effect_that_is_tried_again_later_holds_back_what_follows_for_the_same_runner() -> None:
    launch, kill = Entry(1, JOBS[0], tries=1, is_due=False), Entry(2, JOBS[0])
    other = Entry(3, JOBS[1])
    assert ready(OutboxLane.RUNNERS, [launch, kill, other], busy=set()) == [other]
    assert ready(OutboxLane.STORAGE, [launch, kill, other], busy=set()) == [kill, other]


def test_an_effect_that_fails_for_ever_holds_nothing_back_for_ever() -> None:
    kill = Entry(1, JOBS[0], tries=HOLDS_BACK_FOR_TRIES, is_due=False)
    launch = Entry(2, JOBS[0])
    assert ready(OutboxLane.RUNNERS, [kill, launch], busy=set()) == [launch]


def test_the_jobs_that_have_waited_longest_are_served_first() -> None:
    found = [Entry(7, JOBS[0]), Entry(2, JOBS[1]), Entry(5, JOBS[2]), Entry(9, JOBS[1])]
    assert chains(found, free=2) == [[found[1], found[3]], [found[2]]]
    assert not chains(found, free=0)


def test_what_fails_is_tried_again_later_and_later_but_within_a_minute() -> None:
    delays = [try_again_after(tries) for tries in (0, 1, 2, 5, 6, 10_000)]
    assert delays == sorted(delays)
    assert delays[0] == timedelta(seconds=1)
    assert delays[-1] == timedelta(minutes=1)


@given(st.sampled_from(OutboxLane), ENTRIES, st.sets(st.sampled_from(JOBS)), st.integers(0, 4))
def test_what_begins_is_due_in_order_and_of_no_busy_job(
    lane: OutboxLane, waiting: list[Entry], busy: set[JobId], free: int
) -> None:
    begun = chains(ready(lane, waiting, busy), free)
    assert len(begun) <= free
    for chain in begun:
        assert len({one.job_id for one in chain}) == 1
        assert chain[0].job_id not in busy
        assert [one.id for one in chain] == sorted(one.id for one in chain)
        assert all(one.is_due for one in chain)
        if lane.is_ordered:
            older = [
                one
                for one in waiting
                if one.job_id == chain[0].job_id and one.id < chain[-1].id and one not in chain
            ]
            assert all(one.tries >= HOLDS_BACK_FOR_TRIES for one in older)
    oldest = [chain[0].id for chain in begun]
    assert oldest == sorted(oldest)


@dataclass
class PlayedLane:
    """A lane with workers, of which some never come back."""

    lane: OutboxLane
    workers: int
    waiting: dict[int, Entry] = field(default_factory=dict)
    at_work: dict[JobId, list[Entry]] = field(default_factory=dict)
    done: dict[JobId, list[int]] = field(default_factory=lambda: defaultdict(list))

    def run_once(self) -> None:
        found = ready(self.lane, self.waiting.values(), self.at_work.keys())
        for chain in chains(found, self.workers - len(self.at_work)):
            assert chain[0].job_id not in self.at_work
            self.at_work[chain[0].job_id] = list(chain)
        assert len(self.at_work) <= self.workers

    def finish_one(self, job: JobId) -> None:
        chain = self.at_work.get(job, [])
        if chain:
            entry = chain.pop(0)
            del self.waiting[entry.id]
            self.done[job].append(entry.id)
        if not chain:
            self.at_work.pop(job, None)


@given(
    st.sampled_from(OutboxLane),
    st.lists(st.sampled_from(JOBS), min_size=1, max_size=30),
    st.lists(st.sampled_from(JOBS), max_size=60),
    st.sampled_from(JOBS),
)
def test_a_job_whose_storage_hangs_delays_no_other_and_each_job_keeps_its_order(
    lane: OutboxLane, arrivals: list[JobId], turns: list[JobId], hanging: JobId
) -> None:
    played = PlayedLane(lane, workers=2)
    for number, job in enumerate(arrivals, start=1):
        played.waiting[number] = Entry(number, job)
        played.run_once()
        if number <= len(turns) and turns[number - 1] != hanging:
            played.finish_one(turns[number - 1])
    for _ in range(2 * len(arrivals)):
        played.run_once()
        for job in list(played.at_work):
            if job != hanging:
                played.finish_one(job)
    left = {one.job_id for one in played.waiting.values()}
    assert left <= {hanging}
    assert all(ids == sorted(ids) for ids in played.done.values())
