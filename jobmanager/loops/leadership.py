"""Leadership of one JobManager: takes the lease, renews it, and notices that it is lost.

`core.life.lease` decides; this loop asks Postgres and notifies the listener. While Postgres does
not answer, a leader continues until its lease has expired by its own clock, and then stops.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

import structlog

from jobmanager.core.ids import JobManagerId
from jobmanager.core.life import lease as leases
from jobmanager.core.life.lease import (
    Candidate,
    Following,
    Leading,
    LeaseRenewed,
    LeaseTaken,
    LeaseTimePassed,
    RenewalRefused,
    SeenLease,
    Standing,
    Term,
)
from jobmanager.services.clock import boot_seconds
from jobmanager.services.ports.leadership import Election, JobManager, Leases

_log = structlog.get_logger(__name__)
_LOOK_EVERY = 1.0
_TRY_AGAIN_AFTER = 0.5
_LEAST_PAUSE = 0.02


@dataclass(frozen=True, slots=True)
class Timing:
    lease: timedelta = timedelta(seconds=6)
    renew_every: timedelta = timedelta(seconds=2)

    @property
    def counts_as_live(self) -> timedelta:
        """How long after its last report a JobManager counts as alive."""
        return 5 * self.renew_every


class Listener(Protocol):
    """Is notified of changes. Calls must return soon: the lease is not renewed meanwhile."""

    async def lead(self, term: Term) -> None: ...
    async def follow(self) -> None: ...
    async def peers_changed(self, urls: Sequence[str]) -> None: ...


class Leadership:
    def __init__(
        self,
        store: Leases,
        myself: JobManager,
        timing: Timing,
        listener: Listener | None = None,
        predecessor: JobManagerId | None = None,
        clock: Callable[[], float] = boot_seconds,
        warm: Callable[[], Mapping[str, int] | None] = lambda: None,
        hear_time: Callable[[datetime, float], None] = lambda read, seconds: None,
        catch_up: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._hear_time = hear_time
        """Told what the database's clock shows, at which moment of `clock`."""
        self._catch_up = catch_up
        """Called before the lease is taken, when nobody leads: brings the time of this server up
        to what the last leader wrote."""
        self._unchanged: SeenLease | None = None
        self._warm = warm
        """The state of the warm runners, which every JobManager can report."""
        self._store = store
        self._myself = myself
        self._candidate = Candidate(myself.id, myself.url, predecessor)
        self._timing = timing
        self._listener = listener
        self._clock = clock
        self._standing: Standing = Following()
        self._seen: Election | None = None
        self._told_term: Term | None = None
        self._told_urls: Sequence[str] = ()
        self._is_cut_off = False

    @property
    def term(self) -> Term | None:
        """The term in which this JobManager leads at this moment; None: it does not lead."""
        standing = leases.transition(self._standing, LeaseTimePassed(self._clock()))
        return standing.term if isinstance(standing, Leading) else None

    @property
    def leader_url(self) -> str | None:
        """The leader's URL, as far as known; None: no JobManager leads."""
        if self.term is not None:
            return self._myself.url
        seen = self._seen
        if seen is None or seen.lease.holder == self._myself.id:
            return None
        return seen.lease.url if seen.lease.is_in_force(seen.at) else None

    @property
    def urls(self) -> Sequence[str]:
        """The URLs of the JobManagers: the leader first, then those that reported lately."""
        live = [one.url for one in self._live()]
        found = [self.leader_url, *live, self._myself.url]
        return list(dict.fromkeys(url for url in found if url is not None))

    @property
    def is_alone(self) -> bool:
        return all(one.id == self._myself.id for one in self._live())

    async def look(self) -> Election:
        return await self._store.look()

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            pause = await self.run_once()
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), pause)

    async def run_once(self) -> float:
        """Run once; return the seconds until the next run is due."""
        self._standing = leases.transition(self._standing, LeaseTimePassed(self._clock()))
        try:
            # A leader does not wait for an answer beyond the end of its lease.
            async with asyncio.timeout(self._time_left()):
                if isinstance(self._standing, Leading):
                    await self._renew(self._standing.term)
                else:
                    await self._stand()
                await self._look_around()
            self._is_cut_off = False
        except Exception as error:
            if not self._is_cut_off:
                _log.warning("lease not reached", error=f"{type(error).__name__}: {error}")
            self._is_cut_off = True
        self._standing = leases.transition(self._standing, LeaseTimePassed(self._clock()))
        await self._tell()
        return self._pause()

    async def resign(self) -> None:
        """Give up leadership, so that another JobManager can lead at once."""
        term, self._standing = self.term, Following()
        if term is not None:
            _log.info("resigning", term=term, url=self._myself.url)
        await self._tell(is_meant=True)
        with suppress(Exception):  # the lease expires by itself
            async with asyncio.timeout(self._timing.renew_every.total_seconds()):
                if term is not None:
                    await self._store.release(term)
                await self._store.leave(self._myself.id)

    async def _renew(self, term: Term) -> None:
        asked_at = self._clock()
        if await self._store.renew(term, self._timing.lease):
            event: leases.LeaseEvent = LeaseRenewed(asked_at, self._timing.lease)
        else:
            event = RenewalRefused()
        self._standing = leases.transition(self._standing, event)

    async def _stand(self) -> None:
        """Take the lease if no JobManager leads."""
        seen = await self._see()
        asked_at, duration = self._clock(), self._timing.lease
        self._unchanged = leases.see(self._unchanged, seen.lease, asked_at)
        abandoned = leases.abandoned(self._unchanged, duration, asked_at)
        if not leases.may_take(seen.lease, self._candidate, seen.at, abandoned):
            return
        if self._told_term is not None:
            return  # first the tasks of the earlier leadership end: they measure by the old time
        if self._catch_up is not None:
            await self._catch_up()
        term = await self._store.take(self._candidate, seen.lease.term, duration, abandoned)
        if term is not None:
            taken = LeaseTaken(term, asked_at, self._timing.lease)
            self._standing = leases.transition(self._standing, taken)

    async def _look_around(self) -> None:
        await self._store.attend(replace(self._myself, warm=self._warm()))
        await self._see()

    async def _see(self) -> Election:
        """Look who leads, and what time it is."""
        asked_at = self._clock()
        seen = self._seen = await self._store.look()
        self._hear_time(seen.at, (asked_at + self._clock()) / 2)
        return seen

    async def _tell(self, *, is_meant: bool = False) -> None:
        """Notify the listener of what has changed since the last notification."""
        term, url = self.term, self._myself.url
        if self._told_term is not None and self._told_term != term:
            if not is_meant:
                _log.warning("no longer leading", term=self._told_term, url=url)
            self._told_term = None
            if self._listener is not None:
                await self._listener.follow()
        if term is not None and self._told_term is None:
            _log.info("leading", term=term, url=url)
            self._told_term = term
            if self._listener is not None:
                await self._listener.lead(term)
        if self._listener is not None and self.urls != self._told_urls:
            self._told_urls = self.urls
            await self._listener.peers_changed(self._told_urls)

    def _time_left(self) -> float:
        if isinstance(self._standing, Leading):
            return self._standing.until - self._clock()
        return self._timing.lease.total_seconds()

    def _pause(self) -> float:
        usual = self._timing.renew_every.total_seconds()
        if self._is_cut_off:
            usual = min(usual, _TRY_AGAIN_AFTER)
        if isinstance(self._standing, Leading):
            return max(_LEAST_PAUSE, min(usual, self._time_left()))
        usual, seen = min(usual, _LOOK_EVERY), self._seen
        if self._is_cut_off or seen is None:
            return usual
        expires_in = (seen.lease.expires_at - seen.at).total_seconds()
        return max(_LEAST_PAUSE, min(usual, expires_in))

    def _live(self) -> Sequence[JobManager]:
        if self._seen is None:
            return []
        since, gone = self._seen.at - self._timing.counts_as_live, self._candidate.predecessor
        return [one for one in self._seen.jobmanagers if one.seen_at >= since and one.id != gone]
