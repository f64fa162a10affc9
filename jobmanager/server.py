"""The server: everything wired together, and its life from start to end.

A server that ends leaves its jobs running, unless told to stop them: the runners
go on by themselves, and the next server on the same data finds them again.
"""

import asyncio
import contextlib
import fcntl
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import IO

import structlog
import uvicorn

from jobmanager.api.app import make_app
from jobmanager.api.context import Context
from jobmanager.core.ids import RunnerId
from jobmanager.core.storage_uri import local_path
from jobmanager.launchers.local import LocalLauncher
from jobmanager.loops.checkpoint_timer import CheckpointTimer
from jobmanager.loops.dispatch import DispatchLoop
from jobmanager.loops.reaper import Reaper
from jobmanager.loops.ticker import tick
from jobmanager.services import jobs, runners
from jobmanager.services.bells import Bells
from jobmanager.services.clock import utc_now
from jobmanager.services.directives import RunSettings
from jobmanager.services.dispatch import Dispatcher
from jobmanager.settings import Settings
from jobmanager.storage.files import FileSnapshotStorage
from jobmanager.store.database import AlreadyLed, Database, open_database
from jobmanager.store.embedded import EmbeddedPostgres

_log = structlog.get_logger(__name__)
_STOP_JOBS_WITHIN = 60.0


class CannotStart(Exception):
    """The server cannot start; the message says why and what to do."""


def serve(settings: Settings, announce: Callable[[str], None]) -> None:
    """Runs the server until SIGINT or SIGTERM; announces its URL when it is ready.

    Raises `CannotStart`.
    """
    _configure_logs()
    asyncio.run(_serve(settings, announce))


async def _serve(settings: Settings, announce: Callable[[str], None]) -> None:
    stop = _stop_on_signals()
    async with AsyncExitStack() as stack:
        stack.enter_context(_only_server(settings))
        listener = stack.enter_context(_listen(settings))
        database = await stack.enter_async_context(_database(settings))
        server = Server(settings, database, listener)
        await server.run(stop, announce)


class Server:
    """One JobManager on an open database and an open listener."""

    def __init__(self, settings: Settings, database: Database, listener: socket.socket) -> None:
        self._settings = settings
        self._database = database
        self._listener = listener
        self._bells = Bells()
        database.on_commit = self._bells.ring
        root = local_path(settings.storage_uri)
        for directory in (root, settings.files_root):
            directory.mkdir(parents=True, exist_ok=True)
        self._storage = FileSnapshotStorage(root, settings.checkpoints)
        self._launcher = LocalLauncher(settings.directory / "runners", settings.address_file)
        self._launcher.on_exit(self._runner_exited)
        self._stop_loops = asyncio.Event()

    async def run(self, stop: asyncio.Event, announce: Callable[[str], None]) -> None:
        app = make_app()
        app.state.context = self._context()
        http = _Http(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=3,
            )
        )
        serving = asyncio.create_task(http.serve(sockets=[self._listener]), name="http")
        self._write_address()
        await self._adopt()
        loops = self._start_loops()
        announce(self.url)
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        try:
            if self._settings.stop_jobs:
                await self._stop_jobs()
        finally:
            self._stop_loops.set()
            await asyncio.gather(*loops)
            await self._launcher.close()
            http.should_exit = True
            self._bells.ring_all()
            await serving

    @property
    def url(self) -> str:
        host, port = self._listener.getsockname()[:2]
        reachable = "127.0.0.1" if host in ("0.0.0.0", "::") else host
        shown = f"[{reachable}]" if ":" in reachable else reachable
        return self._settings.advertise or f"http://{shown}:{port}"

    def _context(self) -> Context:
        return Context(
            units=self._database.unit_of_work,
            storage=self._storage,
            bells=self._bells,
            clock=utc_now,
            run_settings=RunSettings(
                spark_master=self._settings.spark_master,
                storage=self._settings.storage_uri,
                data_root=str(self._settings.files_root),
                checkpoints=self._settings.checkpoints,
            ),
            heartbeat_interval=self._settings.heartbeat_interval,
            started_at=utc_now(),
            ping=self._database.ping,
        )

    def _write_address(self) -> None:
        """Runners look here when they cannot reach a server: it may have moved."""
        path = self._settings.address_file
        new = path.with_suffix(".new")
        new.write_text(json.dumps({"urls": [self.url]}))
        new.replace(path)

    async def _adopt(self) -> None:
        """Watches the runners that an earlier server left behind."""
        async with self._database.unit_of_work() as uow:
            alive = [one for one in await uow.runners.alive() if one.pid is not None]
        for runner in alive:
            await self._launcher.watch(runner)
        if alive:
            _log.info("runners adopted", runners=[str(one.id) for one in alive])

    def _start_loops(self) -> list[asyncio.Task[None]]:
        units, stop, settings = self._database.unit_of_work, self._stop_loops, self._settings
        dispatcher = Dispatcher(units, self._launcher, self._storage)
        dispatch = DispatchLoop(units, dispatcher, utc_now)
        timer = CheckpointTimer(units, utc_now)
        reaper = Reaper(
            units, self._launcher, utc_now, settings.heartbeat_timeout, settings.start_timeout
        )
        return [
            asyncio.create_task(tick("dispatch", dispatch, 1.0, stop, self._bells.outbox)),
            asyncio.create_task(tick("checkpoint timer", timer, 0.1, stop)),
            asyncio.create_task(tick("reaper", reaper, 0.5, stop)),
        ]

    async def _runner_exited(self, runner_id: RunnerId, description: str) -> None:
        """Told once, so it has to be written down, however long Postgres is away."""
        while True:
            try:
                async with self._database.unit_of_work() as uow:
                    runner = await uow.runners.get(runner_id)
                last_word = await self._storage.last_word(runner.job_id, runner.attempt)
                await runners.exited(
                    self._database.unit_of_work(), runner_id, description, last_word, utc_now()
                )
                return
            except Exception as error:
                _log.warning("exit not recorded yet", runner=str(runner_id), error=str(error))
                await asyncio.sleep(1)

    async def _stop_jobs(self) -> None:
        async with self._database.unit_of_work() as uow:
            live = await uow.jobs.live()
        for job_id in live:
            with contextlib.suppress(Exception):
                await jobs.cancel(
                    self._database.unit_of_work(), job_id, "the server stops its jobs", utc_now()
                )
        deadline = asyncio.get_running_loop().time() + _STOP_JOBS_WITHIN
        while asyncio.get_running_loop().time() < deadline:
            async with self._database.unit_of_work() as uow:
                if not await uow.jobs.live() and not await uow.runners.alive():
                    return
            await asyncio.sleep(0.2)
        _log.warning("jobs are still running", waited_seconds=_STOP_JOBS_WITHIN)


class _Http(uvicorn.Server):
    """Uvicorn without its own signal handlers: the order of the shutdown is ours."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def _only_server(settings: Settings) -> Iterator[None]:
    """Two servers on one data directory would start two Postgres on the same files."""
    settings.directory.mkdir(parents=True, exist_ok=True)
    lock: IO[str] = (settings.directory / "server.lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise CannotStart(
            f"another Headgate server runs on {settings.directory}: "
            "stop it, or choose another --data-dir"
        ) from None
    try:
        yield
    finally:
        lock.close()


@contextmanager
def _listen(settings: Settings) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
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
async def _database(settings: Settings) -> AsyncIterator[Database]:
    embedded = None
    if settings.database_url is None:
        try:
            embedded = await asyncio.to_thread(
                EmbeddedPostgres.start, settings.directory / "postgres"
            )
        except Exception as error:
            raise CannotStart(f"the embedded Postgres does not start: {error}") from error
    try:
        database = open_database(settings.database_url or (embedded.url if embedded else ""))
        try:
            await _prepare(database)
            yield database
        finally:
            await database.close()
    finally:
        if embedded is not None:
            await asyncio.to_thread(embedded.stop)


async def _prepare(database: Database) -> None:
    try:
        await database.lead()
        await database.migrate()
    except AlreadyLed as error:
        raise CannotStart(str(error)) from error
    except Exception as error:
        raise CannotStart(f"the database cannot be used: {error}") from error


def _stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def _configure_logs() -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
