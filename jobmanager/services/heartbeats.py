"""Records the heartbeats of many runners together.

A heartbeat changes a time and some progress; hardly any heartbeat leads to a decision.
`core.life.heartbeat` says which do, and each of those gets a transaction of its own. A transaction
for each heartbeat would be most of the work of a server with hundreds of jobs, so heartbeats that
come within a moment share a transaction. A heartbeat whose row is locked is not recorded: the next
heartbeat will be. The answers tell runners their heartbeat interval, which grows with the number
of runners.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from jobmanager.core.errors import DomainError, RunnerNotFound
from jobmanager.core.ids import AttemptNumber, JobId, RunnerId
from jobmanager.core.life.heartbeat import Heard, hear
from jobmanager.protocol import messages
from jobmanager.services import runners
from jobmanager.services.clock import Clock
from jobmanager.services.ports.history import Actor
from jobmanager.services.ports.jobs import NotedProgress
from jobmanager.services.ports.runners import RunnerAtWork
from jobmanager.services.ports.unit_of_work import UnitsOfWork
from jobmanager.services.request_batching import PendingRequest, RequestBatcher
from jobmanager.services.runner_tokens import (
    Credentials,
    check_attempt,
    check_attempt_token,
    check_secret,
)

_GATHER_SECONDS = 0.2
_A_SECOND = 100
"""Heartbeats a second that are a negligible load for a server."""
_FORGOTTEN_AFTER = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class _Beat:
    shown: Credentials
    said: messages.Heartbeat

    @property
    def runner(self) -> RunnerId:
        return self.shown.runner


_Waiting = PendingRequest[_Beat, bool]


class Heartbeats:
    def __init__(
        self, units: UnitsOfWork, clock: Clock, interval: timedelta, longest: timedelta
    ) -> None:
        self._units = units
        self._clock = clock
        self._interval = interval
        self._longest = max(interval, longest)
        self._batcher = RequestBatcher(self._write_down, _GATHER_SECONDS)
        self._heard: dict[RunnerId, datetime] = {}

    @property
    def interval(self) -> timedelta:
        """Return the heartbeat interval for the present number of runners."""
        fair = timedelta(seconds=len(self._heard) / _A_SECOND)
        return min(max(self._interval, fair), self._longest)

    async def note(self, shown: Credentials, beat: messages.Heartbeat) -> bool:
        """Record a heartbeat. True: the runner's attempt was superseded, and nothing was written.
        Raises `RunnerNotFound`, `WrongRunnerToken`, `WrongAttemptToken`.
        """
        return await self._batcher.ask(_Beat(shown, beat))

    async def _write_down(self, batch: Sequence[_Waiting]) -> None:
        now = self._clock()
        late = []
        async with self._units(Actor.RUNNER) as uow:
            known = await uow.runners.at_work([one.asked.runner for one in batch])
            earlier = await uow.attempts.token_hashes(_earlier(batch, known))
            good = [one for one in batch if _is_taken(one, known, earlier)]
            progress = []
            for beat in (one.asked for one in good):
                runner, heard = known[beat.runner].runner, _hear(beat, known[beat.runner])
                if heard is Heard.STARTED:
                    late.append(beat)
                elif heard.has_news:
                    noted = NotedProgress(runner.job_id, runner.attempt, beat.said.regions)
                    progress.append(noted)
            if good:
                await uow.runners.note_heartbeats(
                    {one.asked.runner: _memory(one.asked.said) for one in good}, now
                )
                await uow.attempts.note_progress_of(progress, now)
                await uow.commit()
        self._remember([one.asked.runner for one in good], now)
        for beat in late:
            runner = known[beat.runner].runner
            await runners.heartbeat(self._units(Actor.RUNNER), runner, beat.said, now)
        for one in good:
            one.resolve(False)

    def _remember(self, heard: Iterable[RunnerId], now: datetime) -> None:
        self._heard.update((one, now) for one in heard)
        gone = [one for one, at in self._heard.items() if now - at > _FORGOTTEN_AFTER]
        for runner in gone:
            with suppress(KeyError):
                del self._heard[runner]


def _memory(beat: messages.Heartbeat) -> dict[str, Any] | None:
    return beat.memory.model_dump(mode="json") if beat.memory else None


_Tokens = Mapping[tuple[JobId, AttemptNumber], str]


def _earlier(
    batch: Sequence[_Waiting], known: Mapping[RunnerId, RunnerAtWork]
) -> list[tuple[JobId, AttemptNumber]]:
    """The attempts named in heartbeats whose runners have a later attempt by now: hardly any."""
    return [
        (found.runner.job_id, AttemptNumber(one.asked.said.attempt))
        for one in batch
        if (found := known.get(one.asked.runner)) is not None
        and one.asked.said.attempt is not None
        and one.asked.said.attempt != found.runner.attempt
    ]


def _is_taken(one: _Waiting, known: Mapping[RunnerId, RunnerAtWork], earlier: _Tokens) -> bool:
    """Whether the heartbeat has to be recorded; otherwise it is answered here."""
    found = known.get(one.asked.runner)
    if found is None:
        one.refuse(RunnerNotFound(f"runner {one.asked.runner} not found"))
        return False
    try:
        _authenticate(one.asked, found, earlier)
    except DomainError as error:
        one.refuse(error)
        return False
    if _hear(one.asked, found) is Heard.SUPERSEDED:
        one.resolve(True)  # a superseded attempt changes nothing
        return False
    return True


def _authenticate(beat: _Beat, found: RunnerAtWork, earlier: _Tokens) -> None:
    check_secret(beat.shown, found.runner.token_hash)
    job, attempt = beat.said.job, beat.said.attempt
    if job is None or attempt is None:
        return  # a heartbeat without an attempt needs the secret only
    check_attempt(found.runner, job, attempt)
    known = found.attempt_token_hash
    if attempt != found.runner.attempt:
        known = earlier.get((found.runner.job_id, AttemptNumber(attempt)))
    check_attempt_token(beat.shown, attempt, known)


def _hear(beat: _Beat, found: RunnerAtWork) -> Heard:
    spoken_of = None if beat.said.attempt is None else AttemptNumber(beat.said.attempt)
    return hear(found.attempt, spoken_of, has_progress=bool(beat.said.regions))
