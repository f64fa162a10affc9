"""A process that answers reads beside the server's own.

It is started by `ReaderProcesses` (reader_supervisor.py) with two open files: the listening socket
of the server, and its end of a channel. It ends when the channel does, and with its parent.
"""

import asyncio
import contextlib
import os
import pickle
import signal
import socket
from collections.abc import Sequence
from datetime import datetime, timedelta

import httpx
import psutil
import structlog

from jobmanager import memory_return
from jobmanager.api.app import make_app
from jobmanager.api.context import ApiContext
from jobmanager.api.http_connections import HttpServer
from jobmanager.api.metrics import Meters
from jobmanager.api.reader_connections import ClientOfConnection, ReaderServer, told_of
from jobmanager.api.reader_figures import ReaderFigures, samples_of
from jobmanager.core.errors import InspectorUnavailable
from jobmanager.core.life.lease import Term
from jobmanager.core.redaction import Secrets
from jobmanager.core.snapshots.storage_uri import local_path
from jobmanager.cycle_collection import collect_rarely
from jobmanager.files.snapshot_storage import FileSnapshotStorage
from jobmanager.launchers import processes
from jobmanager.loops.ticker import tick
from jobmanager.protocol.inspection import AnswerBody, QuestionBody
from jobmanager.reader_channel import ChannelMessage, ReaderChannel
from jobmanager.reader_supervisor import ReaderStart
from jobmanager.server_parts import configure_logs, http_server, run_settings_of
from jobmanager.services.access_control import AccessControl
from jobmanager.services.batched_checkpoints import Acks
from jobmanager.services.clock import SteadyClock
from jobmanager.services.directive_polls import DirectivePolls
from jobmanager.services.events import EventHub
from jobmanager.services.heartbeats import Heartbeats
from jobmanager.services.ports.inspection import InspectorStatus
from jobmanager.services.ports.leadership import Election
from jobmanager.services.start_progress import StartProgress
from jobmanager.services.wakeups import Wakeups
from jobmanager.services.webhooks import WebhookSending
from jobmanager.signals.request_sender import HttpRequestSender
from jobmanager.signals.server_secrets import ServerSecrets
from jobmanager.store.database import READER_POOL, Database, open_database

_REPORT_EVERY = 1.0
_log = structlog.get_logger(__name__)


def serve_reads(listener: int, channel: int) -> None:
    """Serve until the channel is closed. Both numbers are those of open files."""
    processes.hide_memory()
    memory_return.use_few_heaps()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the server decides
    asyncio.run(_Reader().run(_socket_of(listener), socket.socket(fileno=channel)))


class _Reader:
    def __init__(self) -> None:
        self._clock = SteadyClock()
        self._ended = asyncio.Event()
        self._access: AccessControl | None = None
        self._myself = psutil.Process()

    async def run(self, listener: socket.socket, end: socket.socket) -> None:
        self._start: asyncio.Future[ReaderStart] = asyncio.get_running_loop().create_future()
        self._channel = ReaderChannel(end, self._hear, self._end)
        self._channel.open()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._channel.close)
        with contextlib.suppress(asyncio.CancelledError):
            start = await self._start
            await self._serve(start, listener)

    async def _serve(self, start: ReaderStart, listener: socket.socket) -> None:
        self._clock.hear(start.now, start.seconds)
        database = open_database(start.database_url, pool=READER_POOL)
        configure_logs(Secrets([database.engine.url.password]))
        app = make_app(host_names=start.host_names)
        http = http_server(
            app, start.settings, lambda config, limits: ReaderServer(config, limits, self._give)
        )
        try:
            async with HttpRequestSender() as sender, httpx.AsyncClient() as nobody:
                app.state.context = context = self._context(start, database, sender, nobody)
                serving = asyncio.create_task(http.serve(sockets=[listener]))
                collect_rarely()
                self._channel.send({"kind": "ready"})
                memory = memory_return.MemoryReturn()
                every = memory_return.EVERY_SECONDS
                returning = asyncio.create_task(tick("memory", memory, every, self._ended))
                while not self._ended.is_set():
                    self._report(context, http)
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._ended.wait(), _REPORT_EVERY)
                http.leave_accepting()  # at once: another server may want the port
                listener.close()
                http.should_exit = True
                await asyncio.gather(serving, returning)
        finally:
            await database.close()

    def _hear(self, message: ChannelMessage) -> None:
        match message.head["kind"]:
            case "start":
                # From the parent, over a socket that nobody else has.
                self._start.set_result(pickle.loads(message.content))
            case "time":
                told = datetime.fromisoformat(message.head["now"])
                self._clock.hear(told, message.head["seconds"])
            case "forget_tokens":
                if self._access is not None:
                    self._access.forget()

    def _end(self) -> None:
        self._ended.set()
        self._start.cancel()  # if it has not come

    def _give(self, told: ClientOfConnection, first: bytes, file: int) -> None:
        self._channel.send({"kind": "handover", "of": told_of(told)}, first, file)

    def _report(self, context: ApiContext, http: HttpServer) -> None:
        times = self._myself.cpu_times()
        open_here = http.open_connections
        figures = ReaderFigures(
            pid=os.getpid(),
            cpu_seconds=times.user + times.system,
            resident_bytes=self._myself.memory_info().rss,
            phases={str(phase): count for phase, count in open_here.counts.items()},
            closed=open_here.closed_because,
            requests=samples_of(context.meters.requests.collect()),
        )
        self._channel.send({"kind": "report", "figures": figures.told()})

    def _context(
        self,
        start: ReaderStart,
        database: Database,
        sender: HttpRequestSender,
        nobody: httpx.AsyncClient,
    ) -> ApiContext:
        """Make what the routes work with. The routes that readers answer (`READER_ROUTES`) use
        only the database, the clock and the settings; of all else there is nothing here.
        """
        settings, units = start.settings, database.unit_of_work
        places = run_settings_of(settings, settings.connector_shelf)
        events, wakeups = EventHub(units), Wakeups()
        self._access = AccessControl(database.tokens, self._clock, settings.exposure.needs_tokens)
        return ApiContext(
            units=units,
            storage=FileSnapshotStorage(local_path(settings.storage_uri), settings.checkpoints),
            inspector=_NoInspector(),
            wakeups=wakeups,
            events=events,
            meters=Meters(units, events),
            clock=self._clock,
            run_settings=places,
            heartbeats=Heartbeats(
                units,
                self._clock,
                settings.heartbeat_interval,
                longest=settings.heartbeat_timeout / 6,
                starts=StartProgress(),
            ),
            directive_polls=DirectivePolls(units, wakeups, places, self._clock),
            acks=Acks(units),
            started_at=self._clock(),
            ping=database.ping,
            me=start.me,
            leadership=_LeadsNever(),
            to_leader=nobody,
            access=self._access,
            audit=database.audit,
            webhooks=WebhookSending(sender, ServerSecrets(), settings.address_rules),
        )


class _LeadsNever:
    """A reader neither leads nor follows: what is not a read never comes to its routes."""

    term: Term | None = None
    leader_url: str | None = None
    urls: Sequence[str] = ()

    async def look(self) -> Election:
        raise RuntimeError("a reader process was asked who leads")


class _NoInspector:
    async def ask(self, question: QuestionBody, within: timedelta) -> AnswerBody:
        raise InspectorUnavailable("a reader process has no inspector")

    def status(self) -> InspectorStatus:
        return InspectorStatus("stopped", None, None, "")


def _socket_of(file: int) -> socket.socket:
    listener = socket.socket(fileno=file)
    listener.setblocking(False)
    return listener
