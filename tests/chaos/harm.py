"""Does to a world what a schedule says, and makes it whole again."""

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil

from jobmanager.store.embedded import EmbeddedPostgres
from tests.chaos.relay import Manner, count_completion
from tests.chaos.schedule import Fault, Request, Schedule, Step
from tests.chaos.world import World
from tests.support.server import ServerProcess, eventually, processes_of

_LEGAL_TO_REPEAT = {200, 400, 401, 404, 409, 502, 503}


class Harm:
    def __init__(self, world: World) -> None:
        self._world = world
        self.notes: list[str] = []
        """What was really done."""
        self._began = time.monotonic()

    def carry_out(self, schedule: Schedule) -> None:
        for number, step in enumerate(schedule.steps, 1):
            self._note(f"{number}. {step}")
            if step.request is not None:
                self._ask_for(step.request, step.number)
                time.sleep(step.pause)
            self._break(step)
            if step.settles:
                self._world.recover()
                self._note("   recovered")

    def heal(self) -> None:
        """Everything is there again: what was asked for comes to an end by itself."""
        for relay in self._world.relays:
            relay.manner = Manner.HONEST
        for server in self._world.servers:
            if not server.is_running:
                server.start()

    def _break(self, step: Step) -> None:
        match step.fault:
            case Fault.KILL_RUNNER:
                self._kill_runner(step.seconds)
            case Fault.KILL_SPARK:
                self._kill_spark(step.seconds)
            case Fault.FREEZE_RUNNER | Fault.LOSE_RUNNER:
                self._freeze_runner(step.seconds)
            case Fault.KILL_LEADER | Fault.KILL_FOLLOWER:
                self._kill_server(step.seconds, leads=step.fault is Fault.KILL_LEADER)
            case Fault.FREEZE_LEADER:
                self._freeze_leader(step.seconds)
            case Fault.CRASH_POSTGRES:
                self._crash_postgres(step.seconds)
            case Fault.FILL_DISK:
                self._fill_disk(step.seconds)
            case Fault.CUT_OFF:
                self._behave(Manner.REFUSES, step.seconds)
            case Fault.DOUBLE_ACKS:
                self._behave(Manner.DOUBLES, step.seconds + 2)
            case Fault.DELAY_ACKS:
                self._behave(Manner.DELAYS, step.seconds + 2, delay=step.seconds)
            case Fault.REPLAY:
                self._replay(step.number)

    def _ask_for(self, request: Request, number: int) -> None:
        """Whether it is accepted depends on what else goes on: both are right."""
        world = self._world
        if request is Request.SAVEPOINT:
            answer = world.ask("POST", f"/v1/jobs/{world.job}/savepoints", json={})
        else:
            params = {"parallelism": number}
            answer = world.ask("PATCH", f"/v1/jobs/{world.job}/rescaling", params=params)
        assert answer.status_code in (202, 400, 409), answer.text
        self._note(f"   {request}: {answer.status_code}")

    def _kill_runner(self, seconds: float) -> None:
        runner = self._world.status()["runner"]
        if runner and runner["pid"]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(runner["pid"], signal.SIGKILL)
                self._note(f"   killed {runner['pid']}")
        time.sleep(seconds)

    def _kill_spark(self, seconds: float) -> None:
        for pid in self._runner():
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                if psutil.Process(pid).name() == "java":
                    os.kill(pid, signal.SIGKILL)
                    self._note(f"   killed {pid}, a JVM")
        time.sleep(seconds)

    def _freeze_runner(self, seconds: float) -> None:
        pids = self._runner()
        with _stopped(pids):
            time.sleep(seconds)
        self._note(f"   woke up {[pid for pid in pids if psutil.pid_exists(pid)]} of {pids}")

    def _runner(self) -> list[int]:
        runner = self._world.status()["runner"]
        return processes_of(runner["id"]) if runner else []

    def _kill_server(self, seconds: float, *, leads: bool) -> None:
        server = self._server(leads=leads)
        server.stop(signal.SIGKILL)
        time.sleep(seconds)
        server.start()

    def _freeze_leader(self, seconds: float) -> None:
        with _stopped([self._server(leads=True).pid]):
            time.sleep(seconds)

    def _server(self, *, leads: bool) -> ServerProcess:
        leader = eventually(self._world.leader, within=60)
        self._note(f"   {leader.directory.name} leads")
        return next(one for one in self._world.servers if (one is leader) == leads)

    def _crash_postgres(self, seconds: float) -> None:
        directory = self._world.postgres_directory
        pid = int((directory / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGQUIT)  # "immediate": as good as a power cut for whoever is connected
        eventually(lambda: not _runs(pid), within=30)
        time.sleep(seconds)
        self._world.postgres = EmbeddedPostgres.start(directory)

    def _fill_disk(self, seconds: float) -> None:
        if not self._world.has_small_disk:
            self._note("   left out: no file system can be mounted here")
            return
        ballast = self._world.storage / "ballast"
        try:
            _fill(ballast)
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                time.sleep(0.2)
                _fill(ballast)  # what others gave back meanwhile
        finally:
            ballast.unlink()

    def _behave(self, manner: Manner, seconds: float, delay: float = 0.0) -> None:
        for relay in self._world.relays:
            relay.manner, relay.delay = manner, delay
        time.sleep(seconds)
        for relay in self._world.relays:
            relay.manner = Manner.HONEST

    def _replay(self, seed: int) -> None:
        world = self._world
        messages = list(world.said.messages)
        random.Random(seed).shuffle(messages)
        answers: dict[int, int] = {}
        url = eventually(world.leader, within=60).url
        with httpx.Client(base_url=url, timeout=15, trust_env=False) as http:
            for one in messages:
                headers = {**one.credentials, "Content-Type": "application/json"}
                answer = http.post(one.path, content=one.body, headers=headers)
                assert answer.status_code in _LEGAL_TO_REPEAT, (one, answer.text)
                if one.path.endswith("/acks") and answer.status_code == 200:
                    count_completion(world.said, one.body, answer)
                answers[answer.status_code] = answers.get(answer.status_code, 0) + 1
        self._note(f"   said again: {answers}")

    def _note(self, text: str) -> None:
        self.notes.append(f"{time.monotonic() - self._began:6.1f} s  {text}")


@contextmanager
def _stopped(pids: list[int]) -> Iterator[None]:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _fill(ballast: Path) -> None:
    """Takes every byte that is free."""
    with ballast.open("ab") as file:
        free = os.statvfs(ballast)
        wanted = free.f_bavail * free.f_frsize
        while wanted > 0:
            try:
                os.posix_fallocate(file.fileno(), file.tell(), wanted)
                file.seek(0, os.SEEK_END)
                return
            except OSError:
                wanted //= 2


def _runs(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False
