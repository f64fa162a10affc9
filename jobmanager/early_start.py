"""What a server begins before its own modules are imported.

To import them takes seconds of one processor. Meanwhile the embedded Postgres starts, and the first
spare runner, whose Spark takes longest of all. A server on a Postgres of its own will lead; where
another server may lead, no runner is started before that is known.
"""

import fcntl
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import IO
from uuid import UUID, uuid4

from jobmanager.core.connector_packages import UnusableCatalogue
from jobmanager.core.ids import JobManagerId
from jobmanager.core.redaction import Secrets
from jobmanager.core.snapshots.storage_uri import fault_of_working_directory, local_path
from jobmanager.launchers import processes
from jobmanager.launchers.local import LocalLauncher
from jobmanager.settings import Settings
from jobmanager.store.embedded import EmbeddedPostgres


class CannotStart(Exception):
    """The server cannot start; the message says why and what to do."""


class EarlyStart:
    """What was begun. `close` ends what no server has taken over."""

    def __init__(self, settings: Settings) -> None:
        """Raises `CannotStart`."""
        processes.hide_memory()
        self.myself = JobManagerId(uuid4())
        self.secrets = Secrets()
        self._stack = ExitStack()
        self._postgres: Future[EmbeddedPostgres] | None = None
        _check_names(settings)
        settings.directory.mkdir(parents=True, exist_ok=True)
        self.predecessor = self._stack.enter_context(_only_server(settings, self.myself))
        """The server that had the directory before."""
        try:
            _check_connectors(settings)
            if settings.database is None:
                self._begin_postgres(settings)
            self.launcher = launcher_of(settings, self.secrets)
            if settings.database is None and settings.warm_runners:
                # Jobs of a server that ended may run, and are not to be slowed down.
                self.launcher.start_spare(spares_jobs=bool(processes.marked_runners()))
        except BaseException:
            self.close()
            raise

    def take_postgres(self) -> "Future[EmbeddedPostgres]":
        """The embedded Postgres, which the caller has to stop from now on."""
        postgres, self._postgres = self._postgres, None
        assert postgres is not None
        return postgres

    def close(self) -> None:
        """A spare runner ends by itself, with its connection to this process."""
        if self._postgres is not None:
            with suppress(Exception):
                self._postgres.result().stop()
        self._stack.close()

    def _begin_postgres(self, settings: Settings) -> None:
        thread = ThreadPoolExecutor(1, thread_name_prefix="postgres")
        self._postgres = thread.submit(EmbeddedPostgres.start, settings.directory / "postgres")
        thread.shutdown(wait=False)


def launcher_of(settings: Settings, secrets: Secrets) -> LocalLauncher:
    return LocalLauncher(
        settings.directory / "runners",
        settings.address_file,
        settings.archives,
        settings.node,
        settings.spark_master,
        log_limits=settings.log_limits,
        ca=settings.trusted_ca,
        secrets=secrets,
        reuse=settings.runner_reuse,
        shared_jobs=settings.shared_jobs,
        shared_memory=settings.shared_memory,
        connectors=settings.connector_shelf,
        warm_connectors=settings.connectors,
    )


def _check_names(settings: Settings) -> None:
    """Raises `CannotStart` if jobs could not keep their state where the settings say."""
    for directory in (settings.directory, local_path(settings.storage_uri)):
        if fault := fault_of_working_directory(directory):
            raise CannotStart(fault)


def _check_connectors(settings: Settings) -> None:
    """Raises `CannotStart` if a connector package that warm runners are to have is missing."""
    try:
        shelf = settings.connector_shelf
    except UnusableCatalogue as error:
        raise CannotStart(str(error)) from error
    faults = [fault for name in settings.connectors if (fault := shelf.fault(name))]
    if faults:
        raise CannotStart(f"--connectors: {'; '.join(faults)}")


@contextmanager
def _only_server(settings: Settings, myself: JobManagerId) -> Iterator[JobManagerId | None]:
    """Hold the lock of the data directory: two servers would start two Postgres on the same files.

    Yields the server that had the directory before: it has ended, because its lock was free.
    """
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
        lock.seek(0)
        predecessor = _id_in(lock.read())
        lock.truncate(0)
        lock.write(str(myself))
        lock.flush()
        yield predecessor
    finally:
        lock.close()


def _id_in(text: str) -> JobManagerId | None:
    try:
        return JobManagerId(UUID(text.strip()))
    except ValueError:
        return None  # an empty file, or one of an older version
