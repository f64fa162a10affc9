"""A JobManager without processes: real routes, use cases, loops and Postgres.

The test plays the runners by sending protocol messages, so that every message can
arrive late, twice or from the wrong attempt. The end-to-end tests run real runners.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
from fastapi import FastAPI

from jobmanager.api.app import make_app
from jobmanager.api.context import ApiContext
from jobmanager.api.metrics import Meters
from jobmanager.core.errors import InspectorUnavailable
from jobmanager.core.ids import AttemptNumber, JobId, JobManagerId, RunnerId
from jobmanager.core.life.overdue import RunnerLimits
from jobmanager.core.signals.target_address import address_rules
from jobmanager.files.snapshot_storage import FileSnapshotStorage
from jobmanager.loops.checkpoint_timer import CheckpointTimer
from jobmanager.loops.dispatch import DispatchLoop
from jobmanager.loops.leadership import Leadership, Timing
from jobmanager.loops.reaper import Reaper
from jobmanager.loops.watchdog import Watchdog
from jobmanager.protocol.inspection import AnswerBody, QuestionBody
from jobmanager.protocol.messages import ATTEMPT_TOKEN, PROTOCOL_HEADER, PROTOCOL_VERSION
from jobmanager.services import runners
from jobmanager.services.access_control import AccessControl
from jobmanager.services.batched_checkpoints import Acks
from jobmanager.services.directive_polls import DirectivePolls
from jobmanager.services.directives import RunSettings
from jobmanager.services.dispatch import Dispatcher
from jobmanager.services.events import EventHub
from jobmanager.services.heartbeats import Heartbeats
from jobmanager.services.ports.inspection import InspectorStatus
from jobmanager.services.ports.leadership import JobManager
from jobmanager.services.ports.runners import Launched, Runner
from jobmanager.services.start_progress import StartProgress
from jobmanager.services.wakeups import Wakeups
from jobmanager.services.webhooks import WebhookSending
from jobmanager.signals.request_sender import HttpRequestSender
from jobmanager.signals.server_secrets import ServerSecrets
from jobmanager.store.database import Database
from tests.support.builders import NOW
from tests.support.contract import check_answer

FENCE_AFTER = timedelta(seconds=60)
"""How long runners go on without a JobManager if their sinks cannot be fenced."""


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass
class Bench:
    """A launcher that starts nothing and remembers what it was asked for."""

    secrets: dict[RunnerId, str] = field(default_factory=dict)
    tokens: dict[RunnerId, dict[int, str]] = field(default_factory=dict)
    """What the runners, played by tests, know of their attempts."""
    killed: list[RunnerId] = field(default_factory=list)
    warm: list[RunnerId] = field(default_factory=list)
    served_before: dict[RunnerId, UUID] = field(default_factory=dict)
    """The processes of warm runners that served other runners."""
    expected: dict[RunnerId, AttemptNumber] = field(default_factory=dict)
    """The runners whose processes may serve another job, after which attempt."""
    shared: UUID | None = None
    """The process that runners share; None: there is none."""
    warm_connectors: frozenset[str] = frozenset()
    broken: str | None = None
    name: str = "bench"
    running: dict[RunnerId, Launched] = field(default_factory=dict)
    """Processes that somebody else has started."""

    def host(self) -> str:
        return self.name

    def log_path(self, runner_id: RunnerId) -> str:
        return f"/nowhere/{runner_id}"

    def reserve(self, needs: Collection[str] = ()) -> RunnerId | None:
        return self.warm.pop() if self.warm and self.warm_connectors.issuperset(needs) else None

    def process_of(self, runner_id: RunnerId) -> UUID | None:
        return self.served_before.get(runner_id)

    def share(self, runner_id: RunnerId) -> bool:
        if self.shared is None:
            return False
        self.served_before[runner_id] = self.shared
        return True

    async def await_returning(self) -> None:
        pass

    def expect_return(self, runner_id: RunnerId, attempt: AttemptNumber) -> None:
        self.expected[runner_id] = attempt

    async def launch(self, runner_id: RunnerId, secret: str) -> Launched:
        if self.broken:
            raise RuntimeError(self.broken)
        self.secrets[runner_id] = secret
        process = self.served_before.get(runner_id)
        return Launched("bench", 1, 0.0, self.log_path(runner_id), process)

    async def find(self, runner: Runner) -> Launched | None:
        return self.running.get(runner.id)

    async def kill(self, runner: Runner) -> str:
        self.killed.append(runner.id)
        return "killed"

    async def watch(self, runner: Runner) -> None:
        pass


@dataclass
class PlayedInspector:
    """Answers as the test says, and remembers what it was asked; silent by itself."""

    answers: list[AnswerBody] = field(default_factory=list)
    asked: list[QuestionBody] = field(default_factory=list)
    before_answer: Callable[[QuestionBody], None] = lambda question: None

    async def ask(self, question: QuestionBody, within: timedelta) -> AnswerBody:
        self.asked.append(question)
        self.before_answer(question)
        if not self.answers:
            raise InspectorUnavailable("nobody plays the inspector")
        return self.answers.pop(0)

    def status(self) -> InspectorStatus:
        return InspectorStatus("stopped", None, None, "/nowhere")


@dataclass
class PlayedRunner:
    """One runner, played through HTTP."""

    http: httpx.AsyncClient
    id: RunnerId
    secret: str
    job: UUID
    attempt: int
    tokens: dict[int, str] = field(default_factory=dict)
    """Of the attempts that it was told to run."""

    async def post(self, what: str, body: dict[str, Any]) -> httpx.Response:
        """With the token of the attempt that `body` speaks of, if the runner was told to run it."""
        headers = {"Authorization": f"Bearer {self.secret}"}
        attempt = body.get("attempt")
        if attempt is not None:
            if attempt not in self.tokens:
                await self._learn_tokens()
            headers |= {ATTEMPT_TOKEN: self.tokens[attempt]} if attempt in self.tokens else {}
        return await self.http.post(f"/v1/runners/{self.id}/{what}", json=body, headers=headers)

    async def directives(self, after: int = 0, wait_ms: int = 0) -> list[dict[str, Any]]:
        answer = await self.http.get(
            f"/v1/runners/{self.id}/directives",
            params={"after": after, "wait_ms": wait_ms},
            headers={"Authorization": f"Bearer {self.secret}"},
        )
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["directives"]
        self.tokens.update(
            {one["attempt"]: token for one in found if (token := one["body"].get("token"))}
        )
        return found

    async def _learn_tokens(self) -> None:
        """As a runner that has just registered: with nothing taken, nothing is forgotten."""
        with contextlib.suppress(AssertionError):  # of a secret that is not let in
            await self.directives()

    async def register(self) -> httpx.Response:
        hello = {"host": "bench", "pid": 1, "spark_version": "4.3.0"}
        return await self.post("register", {"protocol": PROTOCOL_VERSION, **hello})

    async def say(self, event: str, **more: Any) -> dict[str, Any]:
        body = {"event": event, **more}
        report = {"job": str(self.job), "attempt": self.attempt, "at": NOW.isoformat()}
        answer = await self.post("attempt", {**report, "body": body})
        assert answer.status_code == 200, answer.text
        said: dict[str, Any] = answer.json()
        return said

    async def run(self) -> None:
        assert (await self.register()).status_code == 200
        await self.say("running", restored=[])

    async def fail(
        self, message: str = "boom", *, restartable: bool = True, kind: str | None = None
    ) -> dict[str, Any]:
        failure = {
            "kind": kind or ("infrastructure" if restartable else "invalid_job"),
            "is_restartable": restartable,
            "message": message,
            "stack": f"Traceback\n{message}",
            "region": "out",
        }
        return await self.say("failed", failure=failure)

    async def beat(self, *regions: dict[str, Any]) -> dict[str, Any]:
        body = {"job": str(self.job), "attempt": self.attempt, "regions": list(regions)}
        answer = await self.post("heartbeat", body)
        assert answer.status_code == 200, answer.text
        said: dict[str, Any] = answer.json()
        return said

    async def ack(self, checkpoint: int, *subtasks: tuple[str, int, str]) -> str:
        answer = await self.post("acks", self.acks(checkpoint, *subtasks))
        assert answer.status_code == 200, answer.text
        return str(answer.json()["outcome"])

    def acks(self, checkpoint: int, *subtasks: tuple[str, int, str]) -> dict[str, Any]:
        return {
            "job": str(self.job),
            "attempt": self.attempt,
            "checkpoint": checkpoint,
            "manifest": f"checkpoints/{checkpoint}/manifest.json",
            "batches": {"out": checkpoint},
            "bytes": 100,
            "new_bytes": 10,
            "waited_ms": {"out": 70},
            "snapshot_ms": 30,
            "acks": [
                {"region": "out", "vertex": vertex, "subtask": subtask, "kind": kind, "bytes": 5}
                for vertex, subtask, kind in subtasks
            ],
        }

    async def decline(self, checkpoint: int, reason: str = "storage") -> str:
        body = {
            "job": str(self.job),
            "attempt": self.attempt,
            "checkpoint": checkpoint,
            "region": "out",
            "reason": reason,
            "detail": "no space left",
        }
        answer = await self.post("declines", body)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["outcome"])


LIMITS = RunnerLimits(
    heartbeat=timedelta(seconds=30),
    registration=timedelta(minutes=3),
    idle_start=timedelta(minutes=10),
)
EVERYONE = (
    ("bids", 0, "offsets"),
    ("revenue", 0, "state"),
    ("revenue", 1, "state"),
    ("out", 0, "sink"),
)
"""The subtasks of `builders.a_document()`."""


@dataclass
class EveryLane:
    """The lanes of the outbox, taken to their end."""

    lanes: list[DispatchLoop]

    async def run_once(self) -> None:
        """Returns when nothing is due, and nothing is under way."""
        for lane in self.lanes:
            await lane.run_once()
            while not lane.is_idle:
                await asyncio.gather(*lane.under_way)
                await lane.run_once()


@dataclass
class Cluster:
    app: FastAPI
    database: Database
    http: httpx.AsyncClient
    clock: Clock
    bench: Bench
    inspector: PlayedInspector
    storage: Path
    dispatch: EveryLane
    timer: CheckpointTimer
    reaper: Reaper
    leadership: Leadership
    watchdog: Watchdog

    async def submit(self, document: dict[str, Any], **params: Any) -> str:
        answer = await self.http.post("/v1/jobs", json=document, params=params)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["jobid"])

    async def runner(self, job: str, attempt: int = 1) -> PlayedRunner:
        """The runner launched for the attempt; the dispatcher has had its turn."""
        await self.dispatch.run_once()
        return await self.noted_runner(job, attempt)

    async def noted_runner(self, job: str, attempt: int = 1) -> PlayedRunner:
        async with self.database.unit_of_work() as uow:
            found = await uow.runners.of_attempt(JobId(UUID(job)), AttemptNumber(attempt))
        assert found is not None
        secret, tokens = self.bench.secrets[found.id], self.bench.tokens.setdefault(found.id, {})
        return PlayedRunner(self.http, found.id, secret, UUID(job), attempt, tokens)

    async def running(self, document: dict[str, Any]) -> tuple[str, PlayedRunner]:
        job = await self.submit(document)
        runner = await self.runner(job)
        await runner.run()
        return job, runner

    async def exit(self, runner: PlayedRunner, description: str = "killed by SIGKILL") -> None:
        """The runner's process is gone."""
        async with self.database.unit_of_work() as uow:
            found = await uow.runners.get(runner.id)
        storage = FileSnapshotStorage(self.storage)
        last_word = await storage.last_word(found.job_id, found.attempt)
        await runners.exited(
            self.database.unit_of_work(), runner.id, description, last_word, self.clock()
        )

    async def get(self, path: str) -> Any:
        answer = await self.http.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def state(self, job: str) -> str:
        return str((await self.get(f"/v1/jobs/{job}"))["state"])


@cache
def _app() -> FastAPI:
    """Made once: to build the routes takes longer than most tests."""
    return make_app(host_names=frozenset(["headgate"]))


def a_jobmanager(url: str) -> JobManager:
    return JobManager(JobManagerId(uuid4()), url, "bench", 1, "1", started_at=NOW, seen_at=NOW)


@asynccontextmanager
async def a_cluster(database: Database, directory: Path) -> AsyncIterator[Cluster]:
    clock, bench, wakeups, inspector = Clock(), Bench(), Wakeups(), PlayedInspector()
    database.on_commit = wakeups.wake
    storage, starts = FileSnapshotStorage(directory), StartProgress()
    units = database.unit_of_work
    events = EventHub(units)
    places = RunSettings("local[2]", directory.as_uri(), str(directory / "data"), shared_jobs=30)
    myself = a_jobmanager("http://headgate")
    leadership = Leadership(database.leases, myself, Timing(lease=timedelta(hours=1)))
    database.leader = lambda: leadership.term
    await leadership.run_once()
    dispatcher = Dispatcher(units, bench, storage, FENCE_AFTER, NOW)
    app = _app()
    transport = httpx.ASGITransport(app)
    async with (
        HttpRequestSender() as sender,
        httpx.AsyncClient(
            transport=transport,
            base_url="http://headgate",
            headers={PROTOCOL_HEADER: str(PROTOCOL_VERSION)},  # as runners of this version do
            event_hooks={"response": [check_answer]},
        ) as http,
    ):
        app.state.context = ApiContext(
            units=units,
            storage=storage,
            wakeups=wakeups,
            events=events,
            meters=Meters(units, events),
            clock=clock,
            run_settings=places,
            inspector=inspector,
            heartbeats=Heartbeats(units, clock, timedelta(seconds=1), timedelta(seconds=5), starts),
            directive_polls=DirectivePolls(units, wakeups, places, clock),
            acks=Acks(units),
            started_at=NOW,
            ping=database.ping,
            me=myself.id,
            leadership=leadership,
            to_leader=http,
            access=AccessControl(database.tokens, clock, needs_tokens=False),
            audit=database.audit,
            webhooks=WebhookSending(sender, ServerSecrets(), address_rules((), takes_any=True)),
        )
        try:
            yield Cluster(
                database=database,
                http=http,
                clock=clock,
                bench=bench,
                inspector=inspector,
                storage=directory,
                dispatch=EveryLane(
                    [
                        DispatchLoop(units, dispatcher, clock, lane, workers=2, wake=wake)
                        for lane, wake in wakeups.lanes.items()
                    ]
                ),
                timer=CheckpointTimer(units, clock),
                reaper=Reaper(units, bench, clock, LIMITS, starts),
                watchdog=Watchdog(units, clock, timedelta(seconds=30), timedelta(seconds=60)),
                leadership=leadership,
                app=app,
            )
        finally:
            await leadership.resign()
