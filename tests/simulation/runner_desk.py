"""How a simulated JobManager answers runners: the calls of `jobmanager/api`, without HTTP."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jobmanager.api.runner_calls import _ref as ref_of
from jobmanager.api.runner_calls import _snapshot as snapshot_of
from jobmanager.api.runners import _DECLINES as DECLINES
from jobmanager.core.errors import WrongAttemptToken, WrongRunnerToken
from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId
from jobmanager.core.life.checkpoint import BarrierAcked, BarrierDeclined, Stored
from jobmanager.core.life.heartbeat import Heard, hear
from jobmanager.core.life.records import StoredCheckpoint, StoredJob
from jobmanager.protocol import messages
from jobmanager.services import checkpoints, directives, runner_tokens, runners
from jobmanager.services.directives import RunSettings
from jobmanager.services.ports.outbox import OutboxEntry
from jobmanager.services.ports.runners import Runner
from tests.simulation.database import Database
from tests.simulation.network import Refused
from tests.simulation.runner import DirectivesWanted, RunnerCall
from tests.simulation.scheduler import Steps
from tests.simulation.unit_of_work import driven, running

if TYPE_CHECKING:
    from tests.simulation.jobmanager import JobManagerParty

POLL_WAIT_MS = 5_000
_SETTINGS = RunSettings("local[2]", "file:///simulated", "file:///simulated/data")


def answer_runner(jobmanager: "JobManagerParty", call: RunnerCall) -> Steps[Any]:
    row = _authenticated(jobmanager, call)
    match call.body:
        case messages.RunnerHello() as hello:
            return (yield from _register(jobmanager, row, hello))
        case messages.Heartbeat() as beat:
            return (yield from _heartbeat(jobmanager, row, beat))
        case DirectivesWanted(after=after):
            return (yield from _directives(jobmanager, call, after))
        case messages.BarrierAcks() as acks:
            return (yield from _acks(jobmanager, row, acks))
        case messages.BarrierDecline() as declined:
            return (yield from _declines(jobmanager, row, declined))
        case messages.AttemptReport() as said:
            return (yield from _report(jobmanager, row, said))
        case _:
            raise AssertionError(call.body)


def _authenticated(jobmanager: "JobManagerParty", call: RunnerCall) -> Runner:
    if jobmanager.term is None:
        raise Refused(503, "this JobManager does not lead")
    row = jobmanager.database.runners.get(call.runner)
    if row is None:
        raise Refused(404, "no such runner")
    try:
        runner_tokens.check_secret(call.shown, row.token_hash)
        if (attempt := getattr(call.body, "attempt", None)) is not None:
            runner_tokens.check_attempt(row, call.body.job, attempt)
            known = jobmanager.database.attempt_tokens.get((row.job_id, AttemptNumber(attempt)))
            runner_tokens.check_attempt_token(call.shown, attempt, known)
    except WrongAttemptToken as error:
        raise Refused(403, "that is not the token of this attempt") from error
    except WrongRunnerToken as error:
        raise Refused(401, "that is not the secret of this runner") from error
    return row


def _register(
    jobmanager: "JobManagerParty", row: Runner, hello: messages.RunnerHello
) -> Steps[messages.RunnerWelcome]:
    uow = jobmanager.unit_of_work()
    yield from running(runners.register(uow, row, hello, jobmanager.now()))
    return messages.RunnerWelcome(heartbeat_interval_ms=1, poll_wait_ms=1)


def _heartbeat(
    jobmanager: "JobManagerParty", row: Runner, beat: messages.Heartbeat
) -> Steps[messages.HeartbeatReply]:
    """As `services/heartbeats.py`: without a lock, as long as nothing is to be decided."""
    database, now = jobmanager.database, jobmanager.now()
    received_ms = jobmanager.scheduler.now
    attempt = database.lives[row.job_id].attempts[row.attempt].attempt
    spoken_of = AttemptNumber(beat.attempt) if beat.attempt is not None else None
    heard = hear(attempt, spoken_of, has_progress=bool(beat.regions))
    if heard is Heard.SUPERSEDED:
        return messages.HeartbeatReply(superseded=True)
    regions = list(beat.regions)
    transaction = database.begin(jobmanager.term)
    transaction.write(
        lambda: database.note_heartbeat(
            row.id, row.attempt, now, regions if heard is Heard.PROGRESS else None, received_ms
        )
    )
    yield None
    transaction.commit()
    if heard is Heard.STARTED:
        yield from running(runners.heartbeat(jobmanager.unit_of_work(), row, beat, now))
    return messages.HeartbeatReply(superseded=False)


def _directives(
    jobmanager: "JobManagerParty", call: RunnerCall, after: int
) -> Steps[messages.Directives]:
    """As `services/directive_polls.py`: a look, and another when there is news."""
    found = _look(jobmanager, call, after)
    if not found:
        job = jobmanager.database.runners[call.runner].job_id
        yield jobmanager.database.listen(job), jobmanager.scheduler.now + POLL_WAIT_MS
        found = _look(jobmanager, call, after)
    yield from _note_tokens(jobmanager, call, found)
    yield from _forget_taken(jobmanager, call, after)
    return messages.Directives(directives=found)


def _look(jobmanager: "JobManagerParty", call: RunnerCall, after: int) -> list[messages.Directive]:
    row = _authenticated(jobmanager, call)
    database = jobmanager.database
    return [
        driven(
            directives.directive(
                _Reading(database),  # type: ignore[arg-type]
                OutboxEntry(entry.id, entry.job_id, entry.effect, 0),
                row.attempt,
                _SETTINGS,
                runner_tokens.attempt_token(call.shown.secret, row.job_id, row.attempt),
                jobmanager.now(),
            )
        )
        for entry in database.mailbox(row.job_id, row.attempt)
        if entry.id > after
    ]


def _note_tokens(
    jobmanager: "JobManagerParty", call: RunnerCall, found: Sequence[messages.Directive]
) -> Steps[None]:
    database = jobmanager.database
    row = database.runners[call.runner]
    for one in found:
        if isinstance(one.body, messages.Run) and one.attempt is not None:
            assert one.body.token is not None
            key = row.job_id, AttemptNumber(one.attempt)
            hashed = runner_tokens.token_hash(one.body.token)
            transaction = database.begin(jobmanager.term)
            transaction.write(lambda: database.attempt_tokens.update({key: hashed}))  # noqa: B023
            yield None
            transaction.commit()


def _forget_taken(jobmanager: "JobManagerParty", call: RunnerCall, after: int) -> Steps[None]:
    database = jobmanager.database
    row = database.runners[call.runner]
    taken = [one.id for one in database.mailbox(row.job_id, row.attempt) if one.id <= after]

    def delete() -> None:
        for one in taken:
            database.outbox.pop(one, None)

    if taken:
        transaction = database.begin(jobmanager.term)
        transaction.write(delete)
        yield None
        transaction.commit()


def _acks(
    jobmanager: "JobManagerParty", row: Runner, said: messages.BarrierAcks
) -> Steps[messages.BarrierReply]:
    event = BarrierAcked(
        at=jobmanager.now(),
        attempt=AttemptNumber(said.attempt),
        snapshots={ref_of(one): snapshot_of(one) for one in said.acks},
        stored=Stored(said.manifest, said.batches, said.bytes, said.new_bytes),
        has_new_batches=said.has_new_batches,
    )
    number, uow = CheckpointNumber(said.checkpoint), jobmanager.unit_of_work()
    acked = yield from running(checkpoints.acknowledge(uow, row.job_id, number, event))
    return messages.BarrierReply(outcome=acked.outcome.value)


def _declines(
    jobmanager: "JobManagerParty", row: Runner, said: messages.BarrierDecline
) -> Steps[messages.BarrierReply]:
    event = BarrierDeclined(
        jobmanager.now(), AttemptNumber(said.attempt), DECLINES[said.reason], said.detail
    )
    number, uow = CheckpointNumber(said.checkpoint), jobmanager.unit_of_work()
    outcome = yield from running(checkpoints.decline(uow, row.job_id, number, event))
    return messages.BarrierReply(outcome=outcome.value)


def _report(
    jobmanager: "JobManagerParty", row: Runner, said: messages.AttemptReport
) -> Steps[messages.AttemptReply]:
    reported = runners.report(jobmanager.unit_of_work(), row, said, jobmanager.now())
    return messages.AttemptReply(superseded=(yield from running(reported)))


class _Reading:
    """As much of a unit of work as the real directives read."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.jobs = self
        self.runners = self
        self.checkpoints = _ReadingCheckpoints(database)

    async def get(self, job: JobId) -> StoredJob:
        return self._database.lives[job].job

    async def of_attempt(self, job: JobId, attempt: AttemptNumber) -> Runner | None:
        return self._database.runner_of(job, attempt)


class _ReadingCheckpoints:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def restorable(self, job: JobId) -> Sequence[CheckpointNumber]:
        return self._database.lives[job].restorable

    async def get(self, job: JobId, number: CheckpointNumber) -> StoredCheckpoint:
        return StoredCheckpoint(job, self._database.lives[job].checkpoints[number], {}, None)
