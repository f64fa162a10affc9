"""Processes that return to their server, played by small programs that speak the same channel."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from jobmanager.core.ids import AttemptNumber, RunnerId
from jobmanager.launchers import processes
from jobmanager.launchers.reuse import HeldProcess, ReusedProcesses

pytestmark = pytest.mark.anyio

# It returns at once from every runner, and does what it is told otherwise by its arguments.
_PLAYED = """
import json, os, signal, socket, sys
channel = socket.socket(fileno=os.dup(0))
lines = channel.makefile("r")
runner, habit = sys.argv[1], sys.argv[2]

def say(event, about):
    channel.sendall((json.dumps({"event": event, "runner": about}) + "\\n").encode())

lines.readline()
while True:
    say("returning", runner)
    if habit == "dies cleaning":
        os._exit(9)
    say("offered", "00000000-0000-0000-0000-000000000000" if habit == "lies" else runner)
    if habit == "dies offered":
        os._exit(9)
    order = lines.readline()
    if not order:
        sys.exit(0)
    if habit == "dies taking":
        os._exit(9)
    if habit == "hangs":
        lines.readline()
        sys.stdin.read()
    runner = json.loads(order)["runner"]
    say("serving", runner)
    if habit == "serves on":
        while True:
            signal.pause()
"""


class Desk:
    """A server's side: the processes, and what was recorded of them."""

    def __init__(
        self, limit: int = 20, *, is_wanted: bool = True, is_recorded: bool = True
    ) -> None:
        self.recorded: list[RunnerId] = []
        self.unwatched: list[RunnerId] = []
        self.deleted: list[UUID] = []
        self.is_recorded = is_recorded
        self.reused = ReusedProcesses(
            limit, lambda: is_wanted, self.unwatched.append, self.deleted.append
        )
        self.reused.on_return(self._record)
        self.children: list[subprocess.Popen[bytes]] = []

    async def _record(self, runner: RunnerId, attempt: AttemptNumber, description: str) -> bool:
        self.recorded.append(runner)
        return self.is_recorded

    async def start(self, habit: str = "") -> RunnerId:
        """A process that serves a runner, and is about to return."""
        runner = RunnerId(uuid4())
        own, its = socket.socketpair()
        with its:
            child = await asyncio.to_thread(
                subprocess.Popen,
                [sys.executable, "-S", "-c", _PLAYED, str(runner), habit],
                stdin=its.fileno(),
                env={**os.environ, processes.MARKER: str(runner)},
            )
        self.children.append(child)
        own.sendall(b"secret\n")
        self.reused.expect_return(runner, AttemptNumber(1))
        await self.reused.hold(runner, child, own)
        return runner

    async def idle(self) -> HeldProcess:
        await eventually(lambda: bool(self.reused.idle))
        return self.reused.idle[0]

    async def gone(self, child: subprocess.Popen[bytes]) -> None:
        await eventually(lambda: child.poll() is not None)


async def eventually(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(120):
        while not is_so():  # noqa: ASYNC110 — of another process
            await asyncio.sleep(0.02)


@asynccontextmanager
async def a_desk(
    limit: int = 20, *, is_wanted: bool = True, is_recorded: bool = True
) -> AsyncIterator[Desk]:
    desk = Desk(limit, is_wanted=is_wanted, is_recorded=is_recorded)
    try:
        yield desk
    finally:
        await desk.reused.close()
        for child in desk.children:
            child.kill()
            child.wait()


async def given(desk: Desk) -> tuple[RunnerId, HeldProcess | None]:
    """The process that is free, given to a new runner."""
    runner = desk.reused.reserve()
    assert runner is not None
    desk.reused.expect_return(runner, AttemptNumber(1))
    return runner, await desk.reused.give(runner, "other", Path("/nowhere"))


async def test_a_process_that_returned_serves_the_next_runner() -> None:
    async with a_desk() as desk:
        first = await desk.start("serves on")
        await desk.idle()
        assert desk.recorded == desk.unwatched == [first]

        second = desk.reused.reserve()

        assert second is not None
        assert second != first
        assert desk.reused.process_of(second) == first
        assert desk.reused.reserve() is None, "it is reserved"
        held = await desk.reused.give(second, "other", Path("/nowhere"))
        assert held is not None
        assert held.state.serves(second)
        assert held.child is desk.children[0]


@pytest.mark.parametrize("habit", ["dies cleaning", "dies offered"])
async def test_a_process_that_dies_before_it_is_given_away_is_given_to_nobody(habit: str) -> None:
    async with a_desk() as desk:
        first = await desk.start(habit)
        await desk.gone(desk.children[0])
        await eventually(lambda: first not in desk.reused.ids)

        assert desk.reused.reserve() is None


async def test_a_process_that_dies_while_it_is_handed_over_runs_nothing() -> None:
    async with a_desk() as desk:
        await desk.start("dies taking")
        await desk.idle()

        _, held = await given(desk)

        assert held is None
        assert desk.children[0].poll() is not None


async def test_a_process_that_does_not_confirm_is_killed_before_another_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jobmanager.launchers.reuse._CONFIRM_SECONDS", 0.2)
    async with a_desk() as desk:
        await desk.start("hangs")
        await desk.idle()

        _, held = await given(desk)

        assert held is None
        assert desk.children[0].returncode == -signal.SIGKILL


async def test_the_kill_of_a_runner_that_has_gone_spares_the_process() -> None:
    async with a_desk() as desk:
        first = await desk.start("serves on")
        await desk.idle()
        assert not desk.reused.may_kill(first, first), "nobody is served"

        second, held = await given(desk)

        assert held is not None
        assert not desk.reused.may_kill(first, first)
        assert desk.reused.may_kill(second, first)


async def test_a_process_that_is_being_killed_is_not_taken_back() -> None:
    async with a_desk() as desk:
        first = await desk.start()
        assert desk.reused.may_kill(first, first)

        await desk.gone(desk.children[0])

        assert desk.recorded == []


async def test_a_process_whose_return_was_not_recorded_ends() -> None:
    async with a_desk(is_recorded=False) as desk:
        await desk.start()

        await desk.gone(desk.children[0])

        assert desk.unwatched == [], "who watches its runner will see the exit"


async def test_a_process_that_is_not_wanted_ends() -> None:
    async with a_desk(is_wanted=False) as desk:
        await desk.start()

        await desk.gone(desk.children[0])

        assert desk.recorded == desk.unwatched == []


async def test_a_process_serves_so_many_jobs_and_no_more() -> None:
    async with a_desk(limit=3) as desk:
        await desk.start()
        for _ in range(2):
            await desk.idle()
            _, held = await given(desk)
            assert held is not None

        await desk.gone(desk.children[0])

        assert len(desk.recorded) == 2, "the exit of the third is seen by whoever watches it"


async def test_a_process_that_speaks_of_another_runner_is_not_reused() -> None:
    async with a_desk() as desk:
        await desk.start("lies")

        await desk.gone(desk.children[0])

        assert desk.recorded == []


async def test_a_launch_waits_for_a_process_that_is_about_to_be_free() -> None:
    async with a_desk() as desk:
        await desk.start("serves on")
        await eventually(lambda: desk.reused.expected or desk.reused.idle)

        await desk.reused.await_returning()

        assert desk.reused.reserve() is not None


async def test_an_idle_process_ends_with_its_server() -> None:
    async with a_desk() as desk:
        await desk.start()
        held = await desk.idle()

        held.writer.close()  # as the kernel does for a server that was killed

        await desk.gone(desk.children[0])


async def test_a_process_that_nobody_expects_back_serves_one_runner() -> None:
    async with a_desk() as desk:
        own, its = socket.socketpair()
        its.close()
        child = await asyncio.to_thread(subprocess.Popen, [sys.executable, "-S", "-c", ""])
        desk.children.append(child)

        await desk.reused.hold(RunnerId(uuid4()), child, own)

        assert desk.reused.ids == []
        assert own.fileno() == -1
