"""The embedded Postgres: a real server from PyPI, with its data in our data directory.

`stop` ends it; if this process was killed instead, Postgres goes on, and the next start finds and
uses it. If Postgres was killed, `keep_running` starts it again.

Only a user who can read the server's own files can connect:

* Postgres listens on no TCP port, only on a Unix socket in its data directory, which only its owner
  can enter (mode 0700). If that path is too long for a socket, the socket is in a directory with a
  random name and the same mode, which is removed when Postgres stops;
* a connection needs a password (SCRAM). The password is random, made at the first start, and kept
  in a file beside the data directory that only its owner can read.

A data directory of an older version, in which every local user was trusted, is changed to this at
its next start. If root starts the server, Postgres runs as the system user `pgserver`, because
Postgres refuses to run as root.
"""

import asyncio
import os
import secrets
from pathlib import Path
from threading import Lock
from typing import NoReturn
from urllib.parse import quote

import structlog

from jobmanager.store.postgres_program import (
    PORT,
    SUPERUSER,
    PostgresFailed,
    PostgresProgram,
    Postmaster,
)

_log = structlog.get_logger(__name__)
_RULES = """\
# Written by Headgate at its start: changes do not last. Who connects needs the password.
local all all scram-sha-256
"""


class EmbeddedPostgres:
    """A Postgres that runs. `start` makes one."""

    def __init__(self, program: PostgresProgram, password: str, postmaster: Postmaster) -> None:
        self._program = program
        self._password = password
        self._postmaster = postmaster
        self._lock = Lock()
        """Held while Postgres is started again or stopped."""
        self._is_stopped = False

    @classmethod
    def start(cls, directory: Path) -> "EmbeddedPostgres":
        """Start Postgres on the data in `directory`, or use the Postgres that already runs there.
        Raises `PostgresFailed`.
        """
        directory = directory.expanduser().resolve()
        program, file = PostgresProgram(directory), password_file(directory)
        program.own_directory()
        if not program.is_initialised:
            program.initialise()
        program.check_version()
        password = _read_password(file)
        if password is None or not _is_locked(program):
            password = _lock(program, file, password)
        running = program.running() or program.start()
        return cls(program, password, running)

    @property
    def url(self) -> str:
        """With the password: not to be shown."""
        host = quote(str(self._postmaster.socket_directory), safe="/")
        user = f"{SUPERUSER}:{quote(self._password, safe='')}"
        return f"postgresql://{user}@/{SUPERUSER}?host={host}&port={PORT}"

    @property
    def is_running(self) -> bool:
        return self._program.running() is not None

    def start_again(self) -> None:
        """Start Postgres after it has ended by itself, with the same URL. Raises `PostgresFailed`,
        also as long as processes of the Postgres that ended are still there.
        """
        with self._lock:
            if not self._is_stopped:
                sockets = self._postmaster.socket_directory
                self._postmaster = self._program.running() or self._program.start(sockets)

    def stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            self._program.stop()


async def keep_running(postgres: EmbeddedPostgres, look_every: float = 1.0) -> NoReturn:
    """Start the embedded Postgres again whenever it has ended: killed for want of memory, or by a
    user. Without it the server could only answer 503 until it is restarted itself.
    """
    while True:
        await asyncio.sleep(look_every)
        if await asyncio.to_thread(lambda: postgres.is_running):
            continue
        _log.error("embedded_postgres_ended")
        try:
            await asyncio.to_thread(postgres.start_again)
        except (OSError, PostgresFailed) as error:
            _log.error("embedded_postgres_not_started", error=str(error))
        else:
            _log.info("embedded_postgres_started_again")


def password_file(directory: Path) -> Path:
    """Beside the data directory, which is not the server's own where root started it."""
    return directory.with_name(f"{directory.name}.password")


def _is_locked(program: PostgresProgram) -> bool:
    return program.access_rules.read_text() == _RULES


def _lock(program: PostgresProgram, file: Path, password: str | None) -> str:
    """From the next start on only the password opens. It is written down last: whoever is
    interrupted before makes another one.
    """
    program.stop()
    chosen = password or secrets.token_urlsafe(32)
    program.set_password(chosen)
    program.write_rules(_RULES)
    if password is None:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as opened:
            opened.write(f"{chosen}\n")
            opened.flush()
            os.fsync(opened.fileno())
    return chosen


def _read_password(file: Path) -> str | None:
    """None: there is none yet, or an interruption left an empty file."""
    if not file.exists():
        return None
    file.chmod(0o600)
    password = file.read_text().strip()
    if not password:
        file.unlink()
    return password or None
