"""Runners' polls for directives: many polls are answered by one query."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from jobmanager.core.errors import RunnerNotFound
from jobmanager.core.ids import AttemptNumber, JobId, RunnerId
from jobmanager.protocol.messages import Directive, Run
from jobmanager.protocol.versions import ATTEMPT_TOKENS_SINCE
from jobmanager.services import directives
from jobmanager.services.clock import Clock
from jobmanager.services.directives import RunSettings
from jobmanager.services.ports.outbox import Mailbox
from jobmanager.services.ports.unit_of_work import UnitOfWork, UnitsOfWork
from jobmanager.services.request_batching import PendingRequest, RequestBatcher
from jobmanager.services.runner_tokens import (
    Credentials,
    attempt_token,
    check_secret,
    token_hash,
)
from jobmanager.services.wakeups import Wakeups

_GATHER_SECONDS = 0.02
_MOST_KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class _Question:
    shown: Credentials
    after: int


@dataclass(frozen=True, slots=True)
class _Found:
    job_id: JobId
    directives: Sequence[Directive]
    token: tuple[AttemptNumber, str] | None = field(default=None, repr=False)
    """Of the attempt that is to be run."""


class DirectivePolls:
    def __init__(
        self, units: UnitsOfWork, wakeups: Wakeups, settings: RunSettings, clock: Clock
    ) -> None:
        self._units = units
        self._clock = clock
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
        self, shown: Credentials, after: int, wait_seconds: float
    ) -> Sequence[Directive]:
        """Return the directives after number `after`, and forget those up to `after`, which the
        runner has taken. Waits for news without holding a transaction or a connection. Raises
        `RunnerNotFound`, `WrongRunnerToken`.
        """
        question, runner_id = _Question(shown, after), shown.runner
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
            boxes = await uow.outbox.mailboxes([one.asked.shown.runner for one in batch])
            answers: list[tuple[PendingRequest[_Question, _Found], _Found]] = []
            taken: dict[tuple[JobId, AttemptNumber], int] = {}
            tokens: dict[tuple[JobId, AttemptNumber], str] = {}
            for one in batch:
                try:
                    box = _opened(boxes.get(one.asked.shown.runner), one.asked)
                    found = await self._found(uow, box, one.asked)
                except Exception as error:  # one poll's error must not fail the others
                    one.refuse(error)
                    continue
                answers.append((one, found))
                if found.token is not None:
                    attempt, token = found.token
                    tokens[box.job_id, attempt] = token_hash(token)
                if any(entry.id <= one.asked.after for entry in box.entries):
                    taken[box.job_id, box.attempt] = one.asked.after
            if tokens:  # attempts before the outbox, in the order of every other transaction
                await uow.attempts.note_tokens(tokens)
            if taken:
                await uow.outbox.taken(taken)
            if taken or tokens:
                await uow.commit()
        for one, found in answers:
            one.resolve(found)

    async def _found(self, uow: UnitOfWork, box: Mailbox, asked: _Question) -> _Found:
        new = [entry for entry in box.entries if entry.id > asked.after]
        token = None
        if box.protocol >= ATTEMPT_TOKENS_SINCE:  # an older runner would not send it
            token = attempt_token(asked.shown.secret, box.job_id, box.attempt)
        now = self._clock()
        told = [
            await directives.directive(uow, entry, box.attempt, self._settings, token, now)
            for entry in new
        ]
        has_run = any(isinstance(one.body, Run) for one in told)
        return _Found(box.job_id, told, (box.attempt, token) if has_run and token else None)


def _opened(box: Mailbox | None, question: _Question) -> Mailbox:
    if box is None:
        raise RunnerNotFound(f"runner {question.shown.runner} not found")
    check_secret(question.shown, box.token_hash)
    return box
