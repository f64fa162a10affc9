"""The embedded Postgres: a real server from PyPI, with its data in our data directory.

`stop` ends it; if this process was killed instead, Postgres goes on, and the next start finds and
uses it.

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

import os
import secrets
from pathlib import Path
from urllib.parse import quote

from jobmanager.store.postgres_program import PORT, SUPERUSER, PostgresProgram, Postmaster

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

    def stop(self) -> None:
        self._program.stop()


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
