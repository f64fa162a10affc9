"""The launcher and processes that serve several runners at the same time.

`python -m taskrunner --shared` is a small program here, which speaks the channel and the files, and
starts no Spark. A file `finish` in the home of a runner ends the runner; with `deaf` in it, the
runner does not end when it is asked to; with `ignore`, the process does not take it.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from jobmanager.core.ids import AttemptNumber, JobId, RunnerId
from jobmanager.launchers import local, processes, shared
from jobmanager.launchers.local import LocalLauncher
from jobmanager.launchers.shared import NotTaken
from jobmanager.protocol.process_channel import end_file, exit_file, served_file
from jobmanager.services.ports.runners import Runner
from tests.support.builders import NOW
from tests.unit.launchers.test_local_reuse import eventually, noted

pytestmark = pytest.mark.anyio

_PLAYED = """
import json, os, select, socket, sys, time
from pathlib import Path
assert "--shared" in sys.argv and "--memory" in sys.argv
process = sys.argv[sys.argv.index("--runner-id") + 1]
channel = socket.socket(fileno=os.dup(0))
lines, homes, is_open, rest = None, [], True, b""
while is_open or homes:
    if is_open and select.select([channel], [], [], 0.02)[0]:
        got = channel.recv(65536)
        is_open = bool(got)
        *whole, rest = (rest + got).split(b"\\n")
        for order in map(json.loads, whole):
            home = Path(order["home"])
            home.mkdir(exist_ok=True)
            if (home / "ignore").exists():
                continue
            (home / f"served-{process}").touch()
            homes.append(home)
            said = {"event": "serving", "runner": order["runner"]}
            channel.sendall((json.dumps(said) + "\\n").encode())
    elif not is_open:
        time.sleep(0.02)
    for home in list(homes):
        is_asked = (home / f"end-{process}").exists() and not (home / "deaf").exists()
        if is_asked or (home / "finish").exists():
            why = "asked" if is_asked else "finished"
            part = home / "part"
            part.write_text(why + "; its shared process goes on")
            part.rename(home / f"exited-{process}")
            homes.remove(home)
"""


class Site:
    """A launcher, and what the database would say of its runners."""

    def __init__(self, launcher: LocalLauncher, directory: Path) -> None:
        self.launcher = launcher
        self.directory = directory
        self.exits: dict[RunnerId, str] = {}
        self.seen: set[UUID] = set()
        launcher.on_exit(self._exited)

    async def _exited(self, runner: RunnerId, description: str) -> None:
        assert runner not in self.exits, "an exit is reported once"
        self.exits[runner] = description

    async def launch(self) -> Runner:
        """As `services/dispatch.py` launches a runner that shares its process."""
        runner = self.row(RunnerId(uuid4()))
        launched = await self.launcher.launch(runner.id, "secret")
        runner = noted(runner, launched)
        await self.launcher.watch(runner)
        return runner

    def row(self, runner_id: RunnerId) -> Runner:
        assert self.launcher.share(runner_id)
        process = self.launcher.process_of(runner_id)
        assert process is not None
        self.seen.add(process)
        return Runner(
            id=runner_id,
            job_id=JobId(uuid4()),
            attempt=AttemptNumber(1),
            token_hash="",
            host=self.launcher.host(),
            log_path=self.launcher.log_path(runner_id),
            launched_at=NOW,
            process=process,
            shares_process=True,
        )

    def home(self, runner: Runner) -> Path:
        return self.directory / str(runner.id)


def a_launcher(directory: Path, jobs: int = 3) -> LocalLauncher:
    runners = directory / "data" / "runners"
    return LocalLauncher(runners, directory / "address", directory, "here", shared_jobs=jobs)


@asynccontextmanager
async def a_site(directory: Path, jobs: int = 3) -> AsyncIterator[Site]:
    site = Site(a_launcher(directory, jobs), directory / "data" / "runners")
    try:
        yield site
    finally:
        await site.launcher.end_warm()
        await site.launcher.close()
        for process in site.seen:
            await asyncio.to_thread(processes.kill_all_of, str(process))
        for child in site.launcher._shared.orphans:
            await asyncio.to_thread(child.wait)


@pytest.fixture(autouse=True)
def _played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "taskrunner.py").write_text(_PLAYED)
    monkeypatch.setenv("PYTHONPATH", str(modules))
    monkeypatch.setattr(local, "_require_java", lambda: None)
    monkeypatch.setattr(shared, "_END_SECONDS", 1.0)


def is_alive(runner: Runner) -> bool:
    assert runner.pid is not None
    return processes.is_same(runner.pid, runner.process_started_at or 0)


async def test_runners_share_a_process_until_it_is_full(tmp_path: Path) -> None:
    async with a_site(tmp_path, jobs=2) as site:
        first, second, third = await asyncio.gather(*(site.launch() for _ in range(3)))

        assert first.pid == second.pid
        assert first.process == second.process
        assert third.pid != first.pid


async def test_a_place_that_is_free_again_is_given_away(tmp_path: Path) -> None:
    async with a_site(tmp_path, jobs=2) as site:
        first, second = await site.launch(), await site.launch()
        (site.home(first) / "finish").touch()
        await eventually(lambda: site.exits)

        third = await site.launch()

        assert third.process == second.process
        assert site.exits == {first.id: "finished; its shared process goes on"}


async def test_a_kill_ends_one_runner_and_leaves_the_others(tmp_path: Path) -> None:
    async with a_site(tmp_path) as site:
        first, second = await site.launch(), await site.launch()

        said = await site.launcher.kill(first)
        await site.launcher.kill(first)  # the reaper does so twice in a second

        assert "was asked to end it" in said
        await eventually(lambda: site.exits)
        assert site.exits == {first.id: "asked; its shared process goes on"}
        assert is_alive(second)


async def test_a_runner_that_does_not_end_takes_its_process_along_and_all_are_told_why(
    tmp_path: Path,
) -> None:
    async with a_site(tmp_path) as site:
        first, second = await site.launch(), await site.launch()
        (site.home(first) / "deaf").touch()

        await site.launcher.kill(first)

        await eventually(lambda: len(site.exits) == 2)
        assert not is_alive(second)
        for told in site.exits.values():
            assert "killed by SIGKILL" in told
            assert f"runner {first.id} of job {first.job_id.hex} did not end" in told


async def test_the_death_of_a_process_is_the_exit_of_all_its_runners(tmp_path: Path) -> None:
    async with a_site(tmp_path) as site:
        first, second = await site.launch(), await site.launch()
        assert first.pid is not None

        os.kill(first.pid, signal.SIGKILL)

        await eventually(lambda: len(site.exits) == 2)
        assert set(site.exits) == {first.id, second.id}
        later = await site.launch()
        assert later.process != first.process


async def test_a_runner_that_was_not_taken_is_launched_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "_CONFIRM_SECONDS", 1.0)
    async with a_site(tmp_path) as site:
        first = await site.launch()
        ignored = site.row(RunnerId(uuid4()))
        site.home(ignored).mkdir(parents=True)
        (site.home(ignored) / "ignore").touch()
        with pytest.raises(NotTaken):
            await site.launcher.launch(ignored.id, "secret")
        assert await site.launcher.find(ignored) is None

        (site.home(ignored) / "ignore").unlink()
        again = site.row(ignored.id)
        launched = await site.launcher.launch(ignored.id, "another secret")

        assert again.process != first.process
        assert launched.process == again.process
        assert is_alive(first), "its runners go on"


async def test_the_kill_of_a_runner_that_nobody_has_taken_harms_nobody(tmp_path: Path) -> None:
    async with a_site(tmp_path) as site:
        first = await site.launch()
        never = replace(first, id=RunnerId(uuid4()), pid=None)
        never = replace(never, log_path=site.launcher.log_path(never.id))

        await site.launcher.kill(never)
        await asyncio.sleep(2.0)

        assert is_alive(first)
        assert site.exits == {}


async def test_the_next_server_finds_watches_and_ends_runners_of_a_shared_process(
    tmp_path: Path,
) -> None:
    async with a_site(tmp_path) as site:
        first, second, third = [await site.launch() for _ in range(3)]
        await site.launcher.end_warm()  # its server ends: the channel is closed
        await site.launcher.close()
        assert is_alive(first)
        next_site = Site(a_launcher(tmp_path), site.directory)
        try:
            unknown = replace(first, pid=None, process_started_at=None)
            found = await next_site.launcher.find(unknown)
            nowhere = replace(unknown, log_path=site.launcher.log_path(RunnerId(uuid4())))
            not_taken = await next_site.launcher.find(nowhere)
            for one in (first, second, third):
                await next_site.launcher.watch(one)

            assert found is not None
            assert (found.pid, found.process) == (first.pid, first.process)
            assert not_taken is None
            await next_site.launcher.kill(first)
            await eventually(lambda: next_site.exits)
            assert set(next_site.exits) == {first.id}
            for one in (second, third):
                (site.home(one) / "finish").touch()
            await eventually(lambda: len(next_site.exits) == 3)
            await eventually(lambda: not is_alive(first))  # no server can give it a runner
        finally:
            await next_site.launcher.end_warm()
            await next_site.launcher.close()


async def test_an_empty_process_ends_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "_LINGER_SECONDS", 0.5)
    async with a_site(tmp_path) as site:
        first = await site.launch()
        (site.home(first) / "finish").touch()

        await eventually(lambda: not is_alive(first))

        later = await site.launch()
        assert later.process != first.process


async def test_a_server_without_shared_processes_reserves_none(tmp_path: Path) -> None:
    assert not a_launcher(tmp_path, jobs=0).share(RunnerId(uuid4()))


def test_the_files_of_two_processes_of_one_runner_are_apart(tmp_path: Path) -> None:
    one, other = uuid4(), uuid4()
    names = [
        file(tmp_path, by) for file in (served_file, end_file, exit_file) for by in (one, other)
    ]

    assert len({name.name for name in names}) == 6
    with contextlib.suppress(FileNotFoundError):
        assert not [name for name in names if name.exists()]
