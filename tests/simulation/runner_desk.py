"""How a simulated JobManager answers runners: the wire of `jobmanager/api`, without HTTP."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jobmanager.api.runner_calls import _ref as ref_of
from jobmanager.api.runner_calls import _snapshot as snapshot_of
from jobmanager.api.runners import _DECLINES as DECLINES
from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId
from jobmanager.core.life.attempt import RunnerRegistered
from jobmanager.core.life.checkpoint import BarrierAcked, BarrierDeclined, Stored
from jobmanager.core.life.draft import Life, Step
from jobmanager.core.life.events import AttemptNews, CheckpointNews, HeartbeatReceived
from jobmanager.core.life.heartbeat import Heard, hear
from jobmanager.core.life.records import StoredCheckpoint, StoredJob
from jobmanager.protocol import messages
from jobmanager.services import directives
from jobmanager.services.directives import RunSettings
from jobmanager.services.ports.outbox import OutboxEntry
from jobmanager.services.runners import event_of
from tests.simulation.database import Database, RunnerRow
from tests.simulation.network import Refused
from tests.simulation.runner import DirectivesWanted, RunnerCall
from tests.simulation.saving import driven
from tests.simulation.scheduler import Steps

if TYPE_CHECKING:
    from tests.simulation.jobmanager import JobManagerParty

POLL_WAIT_MS = 5_000
_SETTINGS = RunSettings("local[2]", "file:///simulated", "file:///simulated/data")


def answer_runner(jobmanager: "JobManagerParty", call: RunnerCall) -> Steps[Any]:
    row = _authenticated(jobmanager, call)
    match call.body:
        case messages.RunnerHello():
            return (yield from _register(jobmanager, row))
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


def _authenticated(jobmanager: "JobManagerParty", call: RunnerCall) -> RunnerRow:
    if jobmanager.term is None:
        raise Refused(503, "this JobManager does not lead")
    row = jobmanager.database.runners.get(call.runner)
    if row is None:
        raise Refused(404, "no such runner")
    if row.token != call.token:
        raise Refused(401, "that is not the token of this runner")
    return row


def _register(jobmanager: "JobManagerParty", row: RunnerRow) -> Steps[messages.RunnerWelcome]:
    database = jobmanager.database

    def event(life: Life) -> AttemptNews:
        if database.runners[row.id].token != row.token:
            raise Refused(401, "another process is this runner by now")
        return AttemptNews(database.runners[row.id].attempt, RunnerRegistered(jobmanager.now()))

    def note(life: Life) -> Callable[[], None]:
        now = jobmanager.now()

        def change() -> None:
            before = database.runners[row.id]
            database.runners[row.id] = replace(
                before,
                is_process_known=True,
                registered_at=before.registered_at or now,
                heartbeat_at=now,
            )

        return change

    yield from jobmanager.use(row.job_id, event, note)
    return messages.RunnerWelcome(heartbeat_interval_ms=1, poll_wait_ms=1)


def _heartbeat(
    jobmanager: "JobManagerParty", row: RunnerRow, beat: messages.Heartbeat
) -> Steps[messages.HeartbeatReply]:
    """As `services/heartbeats.py`: without a lock, as long as nothing is to be decided."""
    database, now = jobmanager.database, jobmanager.now()
    attempt = database.lives[row.job_id].attempts[row.attempt].attempt
    spoken_of = AttemptNumber(beat.attempt) if beat.attempt is not None else None
    heard = hear(attempt, spoken_of, has_progress=bool(beat.regions))
    if heard is Heard.SUPERSEDED:
        return messages.HeartbeatReply(superseded=True)
    regions = list(beat.regions)
    transaction = database.begin(jobmanager.term)
    transaction.write(
        lambda: database.note_heartbeat(
            row.id, row.attempt, now, regions if heard is Heard.PROGRESS else None
        )
    )
    yield None
    transaction.commit()
    if heard is Heard.STARTED:
        received = HeartbeatReceived(now, row.attempt, spoken_of, regions)
        yield from jobmanager.use(row.job_id, lambda life: received)
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
            )
        )
        for entry in database.mailbox(row.job_id, row.attempt)
        if entry.id > after
    ]


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
    jobmanager: "JobManagerParty", row: RunnerRow, said: messages.BarrierAcks
) -> Steps[messages.BarrierReply]:
    _check_attempt(row, said.attempt)
    event = BarrierAcked(
        at=jobmanager.now(),
        attempt=AttemptNumber(said.attempt),
        snapshots={ref_of(one): snapshot_of(one) for one in said.acks},
        stored=Stored(said.manifest, said.batches, said.bytes, said.new_bytes),
    )
    news = CheckpointNews(CheckpointNumber(said.checkpoint), event)
    step = yield from jobmanager.use(row.job_id, lambda life: news)
    return _reply(step)


def _declines(
    jobmanager: "JobManagerParty", row: RunnerRow, said: messages.BarrierDecline
) -> Steps[messages.BarrierReply]:
    _check_attempt(row, said.attempt)
    event = BarrierDeclined(
        jobmanager.now(), AttemptNumber(said.attempt), DECLINES[said.reason], said.detail
    )
    news = CheckpointNews(CheckpointNumber(said.checkpoint), event)
    step = yield from jobmanager.use(row.job_id, lambda life: news)
    return _reply(step)


def _report(
    jobmanager: "JobManagerParty", row: RunnerRow, said: messages.AttemptReport
) -> Steps[messages.AttemptReply]:
    _check_attempt(row, said.attempt)
    number = AttemptNumber(said.attempt)
    before = jobmanager.database.lives[row.job_id].attempts[number].attempt
    yield from jobmanager.use(
        row.job_id, lambda life: AttemptNews(number, event_of(said, jobmanager.now()))
    )
    return messages.AttemptReply(superseded=before.is_superseded)


def _check_attempt(row: RunnerRow, attempt: int) -> None:
    if attempt > row.attempt:
        raise Refused(400, f"runner has attempt {row.attempt}, not {attempt}")


def _reply(step: Step | None) -> messages.BarrierReply:
    assert step is not None
    assert step.outcome is not None
    return messages.BarrierReply(outcome=step.outcome.value)


class _Reading:
    """As much of a unit of work as the real directives read."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.jobs = self
        self.checkpoints = _ReadingCheckpoints(database)

    async def get(self, job: JobId) -> StoredJob:
        return self._database.lives[job].job


class _ReadingCheckpoints:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def restorable(self, job: JobId) -> Sequence[CheckpointNumber]:
        return self._database.lives[job].restorable

    async def get(self, job: JobId, number: CheckpointNumber) -> StoredCheckpoint:
        return StoredCheckpoint(job, self._database.lives[job].checkpoints[number], {}, None)
