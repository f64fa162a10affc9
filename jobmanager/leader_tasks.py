"""What a JobManager does only while it leads: it runs the background loops and watches runners.

A leader begins by taking over the existing runners. When its leadership ends, their processes go
on, and it decides nothing any more; the next leader starts from what Postgres says.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

import structlog

from jobmanager.core.errors import JobNotFound, RunnerNotFound
from jobmanager.core.ids import AttemptNumber, RunnerId
from jobmanager.core.life.lanes import OutboxLane
from jobmanager.core.life.lease import Term
from jobmanager.core.life.overdue import RunnerLimits
from jobmanager.core.life.records import HistoryEntry
from jobmanager.launchers.local import LocalLauncher
from jobmanager.launchers.machine_load import MachineLoad
from jobmanager.loops.access_pruner import AccessPruner
from jobmanager.loops.checkpoint_timer import CheckpointTimer
from jobmanager.loops.deliverer import Deliverer
from jobmanager.loops.dispatch import DispatchLoop
from jobmanager.loops.lineage_rules import LineageRules
from jobmanager.loops.pruner import Pruner
from jobmanager.loops.reaper import Reaper
from jobmanager.loops.sampler import EVERY_SECONDS, SampleAging, Sampler
from jobmanager.loops.ticker import tick
from jobmanager.loops.trace_emitter import EVERY_SECONDS as TRACES_EVERY
from jobmanager.loops.trace_emitter import TraceEmitter
from jobmanager.loops.warm_pool import WarmPool
from jobmanager.loops.watchdog import Watchdog
from jobmanager.loops.webhook_rules import DeliveryPruner, WebhookRules
from jobmanager.services import runners
from jobmanager.services.clock import Clock
from jobmanager.services.dispatch import Dispatcher
from jobmanager.services.ports.signals import SpanExporter
from jobmanager.services.ports.storage import SnapshotStorage
from jobmanager.services.ports.unit_of_work import UnitsOfWork
from jobmanager.services.start_progress import StartProgress
from jobmanager.services.wakeups import Wakeups
from jobmanager.services.webhooks import WebhookSending
from jobmanager.settings import Settings
from jobmanager.signals.openlineage import LineageReceiver

_log = structlog.get_logger(__name__)
_END_WITHIN = 2.0
_PRUNE_EVERY = 600.0
_TRY_AGAIN_AFTER = 0.5
_LAUNCHES_AT_ONCE = 4
_SHARE = 0.1
"""The share of the time that loops which look at every job may take."""


@dataclass(frozen=True, slots=True)
class Signals:
    """What goes out of the server by itself."""

    webhooks: WebhookSending
    lineage: LineageReceiver | None = None
    """None: no lineage events."""
    spans: SpanExporter | None = None
    """None: no traces."""


class LeaderTasks:
    """The tasks of one leadership: they begin and end with it."""

    def __init__(
        self,
        units: UnitsOfWork,
        launcher: LocalLauncher,
        storage: SnapshotStorage,
        wakeups: Wakeups,
        settings: Settings,
        access_pruner: AccessPruner,
        clock: Clock,
        starts: StartProgress,
        signals: Signals,
    ) -> None:
        self._clock = clock
        self._starts = starts
        self._signals = signals
        self._deliverer: Deliverer | None = None
        self._units = units
        self._launcher = launcher
        self._storage = storage
        self._wakeups = wakeups
        self._settings = settings
        self._access_pruner = access_pruner
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._lanes: list[DispatchLoop] = []
        launcher.on_exit(self._runner_exited)
        launcher.on_return(self._runner_returned)

    def begin(self, term: Term, url: str) -> None:
        self._stop = stop = asyncio.Event()
        units, launcher, settings = self._units, self._launcher, self._settings
        clock = self._clock
        timeout = settings.heartbeat_timeout
        dispatcher = Dispatcher(
            units, launcher, self._storage, settings.fence_after, listening_since=clock()
        )
        workers = {
            OutboxLane.RUNNERS: _LAUNCHES_AT_ONCE,
            OutboxLane.STORAGE: settings.storage_workers,
        }
        self._lanes = [
            DispatchLoop(units, dispatcher, clock, lane, workers[lane], wake)
            for lane, wake in self._wakeups.lanes.items()
        ]
        timer = CheckpointTimer(units, clock)
        # Made now: silence before this leadership began does not count.
        limits = RunnerLimits(timeout, settings.start_timeout, settings.idle_start_timeout)
        reaper = Reaper(units, launcher, clock, limits, self._starts)
        watchdog = Watchdog(units, clock, timeout, settings.stall_after)
        pruner = Pruner(units, self._storage.sweep, clock, settings.pruning)
        launcher.want(settings.warm_runners)  # a busy machine may start none for a while
        warm = WarmPool(launcher, settings.warm_runners, clock, MachineLoad().is_busy)
        self._tasks = [
            asyncio.create_task(self._adopt(term, url), name="adopt"),
            *(
                asyncio.create_task(tick(f"dispatch of {lane}", dispatch, 1.0, stop, wake))
                for dispatch, (lane, wake) in zip(
                    self._lanes, self._wakeups.lanes.items(), strict=True
                )
            ),
            asyncio.create_task(tick("checkpoint timer", timer, 0.1, stop)),
            asyncio.create_task(tick("reaper", reaper, 0.5, stop, share=_SHARE)),
            asyncio.create_task(tick("watchdog", watchdog, 1.0, stop, share=_SHARE)),
            asyncio.create_task(tick("pruner", pruner, _PRUNE_EVERY, stop)),
            asyncio.create_task(tick("audit", self._access_pruner, _PRUNE_EVERY, stop)),
            asyncio.create_task(tick("sampler", Sampler(units, clock), EVERY_SECONDS, stop)),
            asyncio.create_task(tick("aging", SampleAging(units, clock), _PRUNE_EVERY, stop)),
            asyncio.create_task(tick("warm pool", warm, 1.0, stop)),
            *self._begin_signals(stop),
        ]

    def _begin_signals(self, stop: asyncio.Event) -> list[asyncio.Task[None]]:
        """Begin what goes out of the server by itself."""
        units, clock, wake = self._units, self._clock, asyncio.Event()
        lineage, spans = self._signals.lineage, self._signals.spans
        self._deliverer = deliverer = Deliverer(
            units, self._signals.webhooks, clock, wake, lineage.send if lineage else None
        )
        pruner = DeliveryPruner(units, clock)
        begun = [
            tick("webhook rules", WebhookRules(units, clock), 1.0, stop),
            tick("deliverer", deliverer, 1.0, stop, wake),
            tick("deliveries", pruner, _PRUNE_EVERY, stop),
        ]
        if lineage is not None:
            root = str(self._settings.files_root)
            rules = LineageRules(units, lineage.producer, root, clock)
            begun.append(tick("lineage", rules, 1.0, stop))
        if spans is not None:
            emitter = TraceEmitter(units, spans, clock)
            begun.append(tick("traces", emitter, TRACES_EVERY, stop, share=_SHARE))
        return [asyncio.create_task(one) for one in begun]

    async def end(self) -> None:
        """End all tasks and wait for them. A task that does not end in time is cancelled: Postgres
        would refuse its writes anyway.
        """
        self._stop.set()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_END_WITHIN)
            for task in late:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await asyncio.gather(*(lane.end(within=timedelta()) for lane in self._lanes))
        if self._deliverer is not None:
            await self._deliverer.end()
        await self._launcher.end_warm()
        await self._launcher.close()
        self._wakeups.wake_all()  # runners that wait here for directives have to ask the new leader

    async def _adopt(self, term: Term, url: str) -> None:
        """Watch the existing runners, whoever started them, and note the new leader in the history
        of live jobs.
        """
        while not self._stop.is_set():
            try:
                await self._note_leader(term, url)
                async with self._units() as uow:
                    alive = [one for one in await uow.runners.alive() if one.pid is not None]
            except Exception as error:
                _log.warning("runners not adopted yet", error=str(error))
                await asyncio.sleep(_TRY_AGAIN_AFTER)
                continue
            for runner in alive:
                await self._launcher.watch(runner)
            _log.info("runners adopted", term=term, runners=[str(one.id) for one in alive])
            return

    async def _note_leader(self, term: Term, url: str) -> None:
        async with self._units() as uow:
            if unknown := await uow.outbox.unknown():
                _log.warning("effects left for a newer JobManager", effects=dict(unknown))
            for job_id in await uow.jobs.live():
                said = f"{url} leads, in term {term}"
                entry = HistoryEntry(self._clock(), "leader_changed", said)
                await uow.history.add(job_id, entry)
            await uow.commit()

    async def _runner_returned(
        self, runner_id: RunnerId, attempt: AttemptNumber, description: str
    ) -> bool:
        """Record that a runner exited and its process stays; False: it must end."""
        while True:
            try:
                now = self._clock()
                return await runners.returned(self._units(), runner_id, attempt, description, now)
            except (RunnerNotFound, JobNotFound):
                return False
            except Exception as error:
                _log.warning("return not recorded yet", runner=str(runner_id), error=str(error))
                await asyncio.sleep(1)

    async def _runner_exited(self, runner_id: RunnerId, description: str) -> None:
        """Record the exit of a runner. It is reported only once, so retry until Postgres answers.
        If leadership is lost meanwhile, the next leader sees the exit by itself.
        """
        while True:
            try:
                async with self._units() as uow:
                    runner = await uow.runners.get(runner_id)
                last_word = await self._storage.last_word(runner.job_id, runner.attempt)
                now = self._clock()
                await runners.exited(self._units(), runner_id, description, last_word, now)
                return
            except Exception as error:
                _log.warning("exit not recorded yet", runner=str(runner_id), error=str(error))
                await asyncio.sleep(1)
