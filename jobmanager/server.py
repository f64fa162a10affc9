"""The server: puts all parts together, starts them and ends them.

A server that ends leaves its jobs running, unless told to stop them: the runners go on by
themselves, and the next leader takes them over. Of several servers on one database one leads; the
others answer reads and forward all other requests to the leader.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import httpx
import structlog
from fastapi import FastAPI

from jobmanager import memory_return
from jobmanager.api.app import make_app
from jobmanager.api.context import ApiContext
from jobmanager.api.forwarding import PATIENCE
from jobmanager.api.http_connections import HttpServer
from jobmanager.api.metrics import Meters
from jobmanager.api.reader_figures import FiguresOfReaders
from jobmanager.core.ids import JobManagerId
from jobmanager.core.life.lease import Term
from jobmanager.core.redaction import Secrets
from jobmanager.core.snapshots.layout import INSPECTOR
from jobmanager.core.snapshots.storage_uri import local_path
from jobmanager.cycle_collection import collect_rarely
from jobmanager.early_start import CannotStart as CannotStart
from jobmanager.early_start import EarlyStart, launcher_of
from jobmanager.files.own_threads import in_own_thread
from jobmanager.files.snapshot_storage import FileSnapshotStorage
from jobmanager.launchers.inspector import LocalInspector
from jobmanager.launchers.local import LocalLauncher
from jobmanager.leader_tasks import LeaderTasks, Signals
from jobmanager.loops.access_pruner import AccessPruner
from jobmanager.loops.leadership import Leadership, Timing
from jobmanager.loops.leftovers import EVERY_SECONDS, Leftovers
from jobmanager.loops.ticker import tick
from jobmanager.protocol.tls_trust import trust_in
from jobmanager.reader_supervisor import EVERY_SECONDS as READERS_EVERY
from jobmanager.reader_supervisor import ReaderProcesses
from jobmanager.server_parts import BACKLOG, configure_logs, http_server, run_settings_of
from jobmanager.services import jobs
from jobmanager.services.access_control import AccessControl
from jobmanager.services.batched_checkpoints import Acks
from jobmanager.services.clock import SteadyClock, boot_seconds, utc_now
from jobmanager.services.directive_polls import DirectivePolls
from jobmanager.services.events import HISTORY_CHANNEL, LIVE_CHANNEL, EventHub
from jobmanager.services.heartbeats import Heartbeats
from jobmanager.services.ports.leadership import JobManager
from jobmanager.services.start_progress import StartProgress
from jobmanager.services.wakeups import Wakeups
from jobmanager.services.webhooks import WebhookSending
from jobmanager.settings import Settings
from jobmanager.signals.openlineage import receiver_from
from jobmanager.signals.otlp_exporter import exporter_from
from jobmanager.signals.request_sender import HttpRequestSender
from jobmanager.signals.server_secrets import ServerSecrets
from jobmanager.store.database import Database, open_database
from jobmanager.store.database_url import parse_url
from jobmanager.store.embedded import keep_running
from jobmanager.store.notifications import listen
from jobmanager.tls_files import UnusableTls, check_certificate, check_files

_log = structlog.get_logger(__name__)
_STOP_JOBS_WITHIN = 60.0
_ADDRESS_WITHIN = 1.0
_EVERY_ADDRESS = ("0.0.0.0", "::")
_TO_LEADER = httpx.Limits(max_connections=1000, max_keepalive_connections=50)


def serve(settings: Settings, early: EarlyStart, announce: Callable[["ServerReady"], None]) -> None:
    """Run the server until SIGINT or SIGTERM; call `announce` when it is ready.

    Raises `CannotStart`.
    """
    memory_return.use_few_heaps()
    configure_logs(early.secrets)
    try:
        asyncio.run(_serve(settings, early, announce))
    except UnusableTls as error:
        raise CannotStart(str(error)) from error


async def _serve(
    settings: Settings, early: EarlyStart, announce: Callable[["ServerReady"], None]
) -> None:
    stop = _stop_on_signals()
    async with AsyncExitStack() as stack:
        check_files(settings)
        listener = stack.enter_context(_listen(settings))
        database = await stack.enter_async_context(_database(settings, early))
        server = Server(
            settings, database, listener, early.myself, early.predecessor, early.launcher
        )
        check_certificate(settings, server.url)
        await server.run(stop, announce)


@dataclass(frozen=True, slots=True)
class ServerReady:
    """What is announced when the server is ready for requests."""

    url: str
    leader: str | None
    """None: no JobManager leads yet."""
    access: str
    """Whether tokens are needed, and why."""
    first_admin_token: str | None
    """Created by this start, and told nowhere else. None: an admin token exists, or no token is
    needed.
    """


class Server:
    """One JobManager on an open database and an open listener."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        listener: socket.socket,
        myself: JobManagerId,
        predecessor: JobManagerId | None = None,
        launcher: LocalLauncher | None = None,
    ) -> None:
        self._settings = settings
        self._database = database
        self._listener = listener
        self._me = myself
        self._clock = SteadyClock()
        self._starts = StartProgress()
        self._wakeups = Wakeups()
        self._events = EventHub(database.unit_of_work)
        root = local_path(settings.storage_uri)
        for directory in (root, settings.files_root):
            directory.mkdir(parents=True, exist_ok=True)
        self._storage = FileSnapshotStorage(root, settings.checkpoints)
        secrets = Secrets([database.engine.url.password])
        self._connectors = settings.connector_shelf
        self._launcher = launcher or launcher_of(settings, secrets)
        self._inspector = LocalInspector(
            settings.directory / "inspector",
            root / INSPECTOR,
            settings.archives,
            settings.inspector_idle,
            settings.start_timeout,
            secrets,
            log_limits=settings.log_limits,
            connectors=self._connectors,
        )
        self._sender = HttpRequestSender(settings.ca.expanduser() if settings.ca else None)
        self._webhooks = WebhookSending(
            self._sender,
            ServerSecrets(settings.secrets_directory, settings.secrets_command),
            settings.address_rules,
        )
        self._leader_tasks = LeaderTasks(
            database.unit_of_work,
            self._launcher,
            self._storage,
            self._wakeups,
            settings,
            AccessPruner(database.audit, database.tokens, self._clock, settings.keep_audit),
            self._clock,
            self._starts,
            Signals(
                self._webhooks,
                receiver_from(os.environ, self._sender),
                exporter_from(os.environ),
            ),
        )
        self._leadership = Leadership(
            database.leases,
            _described(myself, self.url, settings.node),
            Timing(settings.lease, settings.lease_renewal),
            self,
            predecessor,
            warm=self._warm,
            hear_time=self._clock.hear,
            catch_up=self._catch_up,
        )
        self._figures_of_readers = FiguresOfReaders()
        self._access = AccessControl(database.tokens, self._clock, settings.exposure.needs_tokens)
        database.on_commit = self._wakeups.wake
        database.leader = lambda: self._leadership.term

    async def run(self, stop: asyncio.Event, announce: Callable[[ServerReady], None]) -> None:
        self._clock.hear(await self._database.time(), boot_seconds())
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._launcher.reap)
        async with (
            self._sender,
            httpx.AsyncClient(
                timeout=PATIENCE,
                limits=_TO_LEADER,
                trust_env=False,
                verify=trust_in(self._settings.trusted_ca),
            ) as http,
        ):
            app = make_app(
                host_names=self._host_names(),
                most_upload_bytes=self._settings.most_artifact_bytes,
                body_within=self._settings.body_timeout.total_seconds(),
                body_idle=self._settings.body_idle.total_seconds(),
            )
            app.state.context = self._context(http)
            await self._run(app, stop, announce)

    async def _run(
        self, app: FastAPI, stop: asyncio.Event, announce: Callable[[ServerReady], None]
    ) -> None:
        http = http_server(app, self._settings)
        context: ApiContext = app.state.context
        context.meters.watch(http.open_connections, self._figures_of_readers)
        readers = self._readers_of(http)
        self._access.on_revoke = readers.forget_tokens
        # Before the first request, so that a single server leads from its first request on.
        await self._leadership.run_once()
        serving = asyncio.create_task(http.serve(sockets=[self._listener]), name="http")
        stop_leading = asyncio.Event()
        leading = asyncio.create_task(self._leadership.run(stop_leading), name="leadership")
        events = self._start_events(stop_leading)
        events.append(self._start_leftovers(stop_leading))
        events.append(self._start_memory_return(stop_leading))
        events.append(asyncio.create_task(tick("readers", readers, READERS_EVERY, stop_leading)))
        first = await self._access.create_first_admin()
        collect_rarely()
        announce(
            ServerReady(
                self.url,
                self._leadership.leader_url,
                self._settings.exposure.why,
                first.text if first else None,
            )
        )
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([serving, leading, stopping], return_when=asyncio.FIRST_COMPLETED)
        try:
            if self._settings.stop_jobs:
                await self._stop_jobs()
        finally:
            stop_leading.set()
            await leading
            await self._leadership.resign()
            await self._inspector.close()
            await readers.close()
            http.should_exit = True
            self._wakeups.wake_all()
            self._events.close()
            await asyncio.gather(*events)
            await serving

    @property
    def url(self) -> str:
        host, port = self._listener.getsockname()[:2]
        reachable = "127.0.0.1" if host in _EVERY_ADDRESS else host
        shown = f"[{reachable}]" if ":" in reachable else reachable
        scheme = "https" if self._settings.tls_cert else "http"
        return self._settings.advertise or f"{scheme}://{shown}:{port}"

    def _host_names(self) -> frozenset[str]:
        """Return the names under which clients may call this server, beside localhost and IP
        addresses.
        """
        own = [self._settings.host, *self._settings.allow_hosts]
        if self._settings.host in _EVERY_ADDRESS:
            own.append(socket.gethostname())
        return frozenset([*own, httpx.URL(self.url).host])

    async def lead(self, term: Term) -> None:
        self._leader_tasks.begin(term, self.url)

    async def follow(self) -> None:
        await self._leader_tasks.end()

    def _warm(self) -> Mapping[str, int] | None:
        """Return the state of the warm runners; only a leader keeps some."""
        if self._leadership.term is None:
            return None
        return {"wanted": self._settings.warm_runners, **self._launcher.warm_states()}

    async def peers_changed(self, urls: Sequence[str]) -> None:
        """Write the servers' URLs to the address file: runners read it when they cannot reach a
        server.
        """
        path = self._settings.address_file
        try:
            async with asyncio.timeout(_ADDRESS_WITHIN):
                await in_own_thread(lambda: _write_addresses(path, urls))
        except (OSError, TimeoutError) as error:  # a bad disk must not cost the lead
            _log.warning("address file not written", error=repr(error))

    def _context(self, to_leader: httpx.AsyncClient) -> ApiContext:
        units = self._database.unit_of_work
        places = run_settings_of(self._settings, self._connectors)
        return ApiContext(
            units=units,
            storage=self._storage,
            inspector=self._inspector,
            wakeups=self._wakeups,
            events=self._events,
            meters=Meters(units, self._events),
            clock=self._clock,
            run_settings=places,
            heartbeats=Heartbeats(
                units,
                self._clock,
                self._settings.heartbeat_interval,
                longest=self._settings.heartbeat_timeout / 6,
                starts=self._starts,
            ),
            directive_polls=DirectivePolls(units, self._wakeups, places, self._clock),
            acks=Acks(units),
            started_at=self._clock(),
            ping=self._database.ping,
            me=self._me,
            leadership=self._leadership,
            to_leader=to_leader,
            access=self._access,
            audit=self._database.audit,
            webhooks=self._webhooks,
            configuration=self._settings.shown(),
        )

    def _start_events(self, stop: asyncio.Event) -> list[asyncio.Task[None]]:
        """Start event streams, which work on every server. NOTIFY tells about news at once; without
        it the hub looks every second.
        """
        hub = self._events
        url, channels = self._database.engine.url, (HISTORY_CHANNEL, LIVE_CHANNEL)
        return [
            asyncio.create_task(tick("events", hub, 1.0, stop, hub.wake)),
            asyncio.create_task(listen(url, channels, hub.hear, hub.wake.set, stop)),
        ]

    def _readers_of(self, http: HttpServer) -> ReaderProcesses:
        return ReaderProcesses(
            settings=self._settings,
            database_url=self._database.engine.url.render_as_string(hide_password=False),
            host_names=self._host_names(),
            me=self._me,
            listener=self._listener,
            clock=self._clock,
            http=http,
            figures=self._figures_of_readers,
        )

    def _start_leftovers(self, stop: asyncio.Event) -> asyncio.Task[None]:
        keep, units = self._settings.keep_history, self._database.unit_of_work
        leftovers = Leftovers(units, self._launcher, self._clock, keep)
        return asyncio.create_task(tick("leftovers", leftovers, EVERY_SECONDS, stop))

    def _start_memory_return(self, stop: asyncio.Event) -> asyncio.Task[None]:
        every = memory_return.EVERY_SECONDS
        return asyncio.create_task(tick("memory", memory_return.MemoryReturn(), every, stop))

    async def _catch_up(self) -> None:
        self._clock.catch_up(await self._database.time(), boot_seconds())

    async def _stop_jobs(self) -> None:
        """Cancel the jobs, unless another JobManager is there to lead them."""
        if self._leadership.term is None or not self._leadership.is_alone:
            _log.info("jobs left to another JobManager", leader=self._leadership.leader_url)
            return
        async with self._database.unit_of_work() as uow:
            live = await uow.jobs.live()
        for job_id in live:
            with contextlib.suppress(Exception):
                await jobs.cancel(
                    self._database.unit_of_work(),
                    job_id,
                    "the server stops its jobs",
                    self._clock(),
                )
        deadline = asyncio.get_running_loop().time() + _STOP_JOBS_WITHIN
        while asyncio.get_running_loop().time() < deadline:
            async with self._database.unit_of_work() as uow:
                if not await uow.jobs.live() and not await uow.runners.alive():
                    return
            await asyncio.sleep(0.2)
        _log.warning("jobs are still running", waited_seconds=_STOP_JOBS_WITHIN)


def _write_addresses(path: Path, urls: Sequence[str]) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"urls": list(urls)}))
    new.replace(path)


def _described(myself: JobManagerId, url: str, node: str) -> JobManager:
    now = utc_now()
    return JobManager(
        id=myself,
        url=url,
        host=node,
        pid=os.getpid(),
        version=version("headgate"),
        started_at=now,
        seen_at=now,
    )


@contextmanager
def _listen(settings: Settings) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(BACKLOG)  # a client that was told the server is ready must not be refused
    except OSError as error:
        listener.close()
        raise CannotStart(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; "
            "choose another --port"
        ) from error
    try:
        yield listener
    finally:
        listener.close()


@asynccontextmanager
async def _database(settings: Settings, early: EarlyStart) -> AsyncIterator[Database]:
    embedded = None
    url = settings.database
    if url is None:
        try:
            embedded = await asyncio.wrap_future(early.take_postgres())
        except Exception as error:
            raise CannotStart(f"the embedded Postgres does not start: {error}") from error
        url = parse_url(embedded.url)
    early.secrets.learn(url.password)
    keeping = asyncio.create_task(keep_running(embedded)) if embedded else None
    try:
        database = open_database(url)
        try:
            await _prepare(database, early.secrets)
            yield database
        finally:
            await database.close()
    finally:
        if embedded is not None and keeping is not None:
            keeping.cancel()
            await asyncio.wait([keeping])
            await asyncio.to_thread(embedded.stop)


async def _prepare(database: Database, secrets: Secrets) -> None:
    try:
        await database.migrate()
    except Exception as error:
        said = secrets.hidden(str(error))
        raise CannotStart(f"the database {database.engine.url} cannot be used: {said}") from error


def _stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop
