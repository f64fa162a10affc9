"""Runners' polls for directives: many polls are answered by one query."""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from jobmanager.core.errors import RunnerNotFound, WrongRunnerToken
from jobmanager.core.ids import AttemptNumber, JobId, RunnerId
from jobmanager.protocol.messages import Directive
from jobmanager.services import directives
from jobmanager.services.directives import RunSettings
from jobmanager.services.ports.outbox import Mailbox
from jobmanager.services.ports.unit_of_work import UnitOfWork, UnitsOfWork
from jobmanager.services.request_batching import PendingRequest, RequestBatcher
from jobmanager.services.runners import token_hash
from jobmanager.services.wakeups import Wakeups

_GATHER_SECONDS = 0.02
_MOST_KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class _Question:
    runner: RunnerId
    token_hash: str
    after: int


@dataclass(frozen=True, slots=True)
class _Found:
    job_id: JobId
    directives: Sequence[Directive]


class DirectivePolls:
    def __init__(self, units: UnitsOfWork, wakeups: Wakeups, settings: RunSettings) -> None:
        self._units = units
        self._wakeups = wakeups
        self._settings = settings
        self._looking: RequestBatcher[_Question, _Found] = RequestBatcher(
            self._look, _GATHER_SECONDS
        )
        self._jobs: dict[RunnerId, JobId] = {}
        """The job of each runner: a runner has one job all its life, though several attempts of
        it.
        """

    async def fetch(
        self, runner_id: RunnerId, token: str, after: int, wait_seconds: float
    ) -> Sequence[Directive]:
        """Return the directives after number `after`, and forget those up to `after`, which the
        runner has taken. Waits for news without holding a transaction or a connection. Raises
        `RunnerNotFound`, `WrongRunnerToken`.
        """
        question = _Question(runner_id, token_hash(token), after)
        job_id = self._jobs.get(runner_id)
        if job_id is None:
            job_id = (await self._looking.ask(question)).job_id
            if len(self._jobs) >= _MOST_KNOWN:
                self._jobs.clear()
            self._jobs[runner_id] = job_id
        with self._wakeups.listen(job_id) as listening:
            found = await self._looking.ask(question)
            if not found.directives and wait_seconds and await listening.wait(wait_seconds):
                found = await self._looking.ask(question)
        return found.directives

    async def _look(self, batch: Sequence[PendingRequest[_Question, _Found]]) -> None:
        async with self._units() as uow:
            boxes = await uow.outbox.mailboxes([one.asked.runner for one in batch])
            answers: list[tuple[PendingRequest[_Question, _Found], _Found]] = []
            taken: dict[tuple[JobId, AttemptNumber], int] = {}
            for one in batch:
                try:
                    box = _opened(boxes.get(one.asked.runner), one.asked)
                    answers.append((one, await self._found(uow, box, one.asked.after)))
                except Exception as error:  # one poll's error must not fail the others
                    one.refuse(error)
                    continue
                if any(entry.id <= one.asked.after for entry in box.entries):
                    taken[box.job_id, box.attempt] = one.asked.after
            if taken:
                await uow.outbox.taken(taken)
                await uow.commit()
        for one, found in answers:
            one.resolve(found)

    async def _found(self, uow: UnitOfWork, box: Mailbox, after: int) -> _Found:
        new = [entry for entry in box.entries if entry.id > after]
        told = [
            await directives.directive(uow, entry, box.attempt, self._settings) for entry in new
        ]
        return _Found(box.job_id, told)


def _opened(box: Mailbox | None, question: _Question) -> Mailbox:
    if box is None:
        raise RunnerNotFound(f"runner {question.runner} not found")
    if not hmac.compare_digest(box.token_hash, question.token_hash):
        raise WrongRunnerToken(f"the token is not that of runner {question.runner}")
    return box
