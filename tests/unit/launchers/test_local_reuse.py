"""The launcher and a process that serves several runners: every call hits the right runner.

`python -m taskrunner` is a small program here, which speaks the channel and starts no Spark.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from jobmanager.core.ids import AttemptNumber, JobId, RunnerId
from jobmanager.launchers import local, processes
from jobmanager.launchers.local import LocalLauncher
from jobmanager.services.ports.runners import Launched, Runner
from tests.support.builders import NOW

pytestmark = pytest.mark.anyio

_PLAYED = """
import json, os, socket, sys, time
from pathlib import Path
channel = socket.socket(fileno=os.dup(0))
lines = channel.makefile("r")
runner = sys.argv[sys.argv.index("--runner-id") + 1]
if "--ready-file" in sys.argv:
    Path(sys.argv[sys.argv.index("--ready-file") + 1]).touch()

def say(event):
    channel.sendall((json.dumps({"event": event, "runner": runner}) + "\\n").encode())

home = Path.cwd()
if not lines.readline():
    sys.exit(0)
while True:
    while not (home / "finish").exists():
        time.sleep(0.02)
    say("returning")
    say("offered")
    order = lines.readline()
    if not order:
        sys.exit(0)
    order = json.loads(order)
    runner, home = order["runner"], Path(order["home"])
    if (home / "ignore").exists():
        time.sleep(3600)
    home.mkdir(exist_ok=True)
    log = os.open(home / "runner.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 2)
    say("serving")
"""


class Site:
    """A launcher, and what the database would say of its runners."""

    def __init__(self, launcher: LocalLauncher, directory: Path) -> None:
        self.launcher = launcher
        self.directory = directory
        self.rows: dict[RunnerId, Runner] = {}
        self.exits: list[RunnerId] = []
        launcher.on_exit(self._exited)
        launcher.on_return(self._returned)

    async def _exited(self, runner: RunnerId, description: str) -> None:
        self.exits.append(runner)

    async def _returned(self, runner: RunnerId, attempt: AttemptNumber, description: str) -> bool:
        self.rows[runner] = replace(self.rows[runner], exited_at=NOW)
        return True

    async def launch(self) -> Runner:
        """As `services/dispatch.py` launches a runner."""
        runner_id = self.launcher.reserve() or RunnerId(uuid4())
        row = self.row(runner_id)
        self.launcher.expect_return(runner_id, AttemptNumber(1))
        launched = await self.launcher.launch(runner_id, "secret")
        self.rows[runner_id] = row = noted(row, launched)
        await self.launcher.watch(row)
        return row

    def row(self, runner_id: RunnerId) -> Runner:
        return Runner(
            id=runner_id,
            job_id=JobId(uuid4()),
            attempt=AttemptNumber(1),
            token_hash="",
            host=self.launcher.host(),
            log_path=self.launcher.log_path(runner_id),
            launched_at=NOW,
            process=self.launcher.process_of(runner_id),
        )

    async def finish(self, runner: Runner) -> None:
        """The runner's job ends, and its process returns."""
        (self.directory / str(runner.id) / "finish").touch()
        await eventually(lambda: self.launcher.warm_states()["primed"])


def noted(row: Runner, launched: Launched) -> Runner:
    born = launched.process_started_at
    return replace(row, pid=launched.pid, process_started_at=born, process=launched.process)


async def eventually(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(120):
        while not is_so():  # noqa: ASYNC110 — of another process
            await asyncio.sleep(0.02)


@asynccontextmanager
async def a_site(directory: Path, wanted: int = 1) -> AsyncIterator[Site]:
    runners = directory / "data" / "runners"
    launcher = LocalLauncher(runners, directory / "address", directory, "here", reuse=20)
    site = Site(launcher, runners)
    try:
        await launcher.keep_warm(wanted)
        yield site
    finally:
        await launcher.end_warm()
        await launcher.close()
        for one in [*site.rows, *(row.process for row in site.rows.values() if row.process)]:
            await asyncio.to_thread(processes.kill_all_of, str(one))
        for child in launcher._children.values():
            await asyncio.to_thread(child.wait)


@pytest.fixture(autouse=True)
def _played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "taskrunner.py").write_text(_PLAYED)
    monkeypatch.setenv("PYTHONPATH", str(modules))
    monkeypatch.setattr(local, "_require_java", lambda: None)


async def in_turn(site: Site) -> tuple[Runner, Runner]:
    """Two runners of one process, of which the second is served."""
    first = await site.launch()
    await site.finish(first)
    return site.rows[first.id], await site.launch()


async def test_a_process_that_returned_is_the_warm_process(tmp_path: Path) -> None:
    async with a_site(tmp_path) as site:
        first = await site.launch()
        await site.finish(first)
        assert site.launcher.warm_states() == {"primed": 1, "starting": 0}

        await site.launcher.keep_warm(1)
        second = await site.launch()

        assert site.launcher.warm() == 0, "none was started beside it"
        assert (second.process, second.pid) == (first.id, first.pid)
        assert second.id != first.id
        assert site.exits == []


async def test_the_kill_of_the_runner_before_does_not_hit_the_runner_after(tmp_path: Path) -> None:
    async with a_site(tmp_path) as site:
        first, second = await in_turn(site)
        assert second.pid is not None

        said = await site.launcher.kill(first)

        assert said == "its process serves another runner"
        assert processes.is_same(second.pid, second.process_started_at or 0)
        await site.launcher.kill(second)
        await eventually(lambda: site.exits)
        assert site.exits == [second.id]


async def test_the_death_of_a_process_is_the_exit_of_the_runner_that_it_serves(
    tmp_path: Path,
) -> None:
    async with a_site(tmp_path) as site:
        _, second = await in_turn(site)
        assert second.pid is not None

        os.kill(second.pid, signal.SIGKILL)

        await eventually(lambda: site.exits)
        assert site.exits == [second.id]


async def test_the_next_server_finds_whom_a_process_serves(tmp_path: Path) -> None:
    async with a_site(tmp_path) as site:
        first, second = await in_turn(site)
        runners, address = site.directory, tmp_path / "address"
        next_one = LocalLauncher(runners, address, tmp_path, "here", reuse=20)
        unknown = replace(second, pid=None, process_started_at=None)

        found = await next_one.find(unknown)
        not_taken = await next_one.find(replace(unknown, log_path=first.log_path))

        assert found is not None
        assert (found.pid, found.process) == (second.pid, first.id)
        assert not_taken is None, "a process that has not taken the runner is not its process"
        await next_one.kill(replace(second, log_path=first.log_path))
        assert site.exits == []
        await next_one.kill(second)
        await eventually(lambda: site.exits)


async def test_a_process_that_does_not_take_a_runner_is_replaced_by_one_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobmanager.launchers.reuse._CONFIRM_SECONDS", 0.5)
    async with a_site(tmp_path) as site:
        first = await site.launch()
        await site.finish(first)
        second = site.launcher.reserve()
        assert second is not None
        home = site.directory / str(second)
        home.mkdir()
        (home / "ignore").touch()

        launched = await site.launcher.launch(second, "secret")

        site.rows[second] = noted(site.row(second), launched)
        assert launched.process is None
        assert launched.pid != first.pid
        assert not processes.is_same(first.pid or 0, first.process_started_at or 0)
        assert processes.find(str(second)) == launched.pid


async def test_one_process_more_than_wanted_lingers_and_then_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_site(tmp_path) as site:
        first = await site.launch()
        await site.launcher.keep_warm(1)
        await eventually(lambda: site.launcher.warm_states()["primed"])
        (site.directory / str(first.id) / "finish").touch()
        await eventually(lambda: site.launcher.warm_states()["primed"] == 2)

        await site.launcher.keep_warm(1)
        lingering = site.launcher.warm()
        monkeypatch.setattr(local, "_LINGER_SECONDS", 0.0)
        await site.launcher.keep_warm(1)

        assert (lingering, site.launcher.warm()) == (2, 1)
        assert site.launcher.has_returned()


async def test_a_process_without_a_job_ends_with_its_server(tmp_path: Path) -> None:
    async with a_site(tmp_path) as site:
        first = await site.launch()
        await site.finish(first)

        await site.launcher.end_warm()

        assert processes.find(str(first.id)) is None
        assert site.launcher.warm() == 0


def test_the_mark_of_a_runner_is_that_of_its_process() -> None:
    process, runner = UUID(int=1), RunnerId(UUID(int=2))
    row = Runner(
        runner, JobId(UUID(int=3)), AttemptNumber(1), "", "here", "/nowhere", NOW, process=process
    )

    assert row.process_id == process
    assert replace(row, process=None).process_id == runner
