"""Does to a world what a schedule says, and makes it whole again."""

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import httpx
import psutil

from jobmanager.store.embedded import EmbeddedPostgres
from tests.chaos import invariants, server_clock, verdict
from tests.chaos.disk import ImageDisk, Losses
from tests.chaos.load import Load
from tests.chaos.relay import Manner, count_completion
from tests.chaos.schedule import Fault, Request, Schedule, Step
from tests.chaos.world import World
from tests.support.server import ServerProcess, eventually, freeze_all, processes_of

HOURS = {1: 5, 2: -5, 3: 1, 4: -1}
"""By how much a clock is stepped, for the number of a step."""
_LEGAL_TO_REPEAT = {200, 400, 401, 404, 409, 502, 503}


class Harm:
    def __init__(self, world: World) -> None:
        self._world = world
        self.notes: list[str] = []
        """What was really done."""
        self.left_out: list[str] = []
        """What could not be done here, each with the reason."""
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
                verdict.check_meanwhile(self._world)

    def heal(self) -> None:
        """Everything is there again: what was asked for comes to an end by itself."""
        for relay in self._world.relays:
            relay.manner = Manner.HONEST
        for to_postgres in self._world.database_relays:
            to_postgres.heal()
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
            case Fault.KILL_POSTGRES:
                self.kill_postgres(step.seconds)
            case Fault.FILL_DISK:
                self.fill_disk(step.seconds)
            case Fault.POWER_CUT:
                self.cut_power(step.seconds)
            case Fault.STEP_CLOCK:
                self.step_clock(HOURS[step.number], step.seconds)
            case Fault.CUT_OFF:
                self._behave(Manner.REFUSES, step.seconds)
            case Fault.CUT_SERVERS:
                self._behave(Manner.APART, step.seconds)
            case Fault.CUT_DATABASE:
                self.cut_database(step.seconds)
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

    def kill_postgres(self, seconds: float) -> None:
        """Whatever a server has accepted is in Postgres before it answers."""
        world = self._world
        pid = int((world.postgres_directory / "postmaster.pid").read_text().split()[0])
        with Load(world) as load:
            time.sleep(1)
            killed = kill_with_children(pid)
            time.sleep(seconds)
            world.postgres = EmbeddedPostgres.start(world.postgres_directory)
        self._note(f"   killed {len(killed)} processes after {load.answers} answers")
        invariants.read_everything(world.postgres.url)
        for number in sorted(load.accepted):
            world.get(f"/v1/jobs/{world.job}/checkpoints/{number}")

    def fill_disk(self, seconds: float) -> None:
        disk = self._world.disk
        if not disk.can_be_filled:
            self._leave_out("no file system can be mounted here")
            return
        try:
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                disk.fill()  # also what others gave back meanwhile
                time.sleep(0.2)
        finally:
            disk.free()

    def cut_power(self, seconds: float) -> Losses | None:
        """Of the machine with all servers and runners; that of Postgres is another."""
        world, disk = self._world, self._world.disk
        if not isinstance(disk, ImageDisk):
            self._leave_out("no ext4 file system can be mounted here")
            return None
        servers = [one for one in world.servers if one.is_running]
        frozen = freeze_all(lambda: [one.pid for one in servers] + world.processes())
        disk.lose_power()
        for pid in frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for server in servers:
            server.stop(signal.SIGKILL)
        eventually(lambda: not any(map(_runs, frozen)), within=30)
        losses = disk.find_again()
        self._note(f"   {losses}")
        time.sleep(seconds)
        for server in servers:
            server.start()
        return losses

    def step_clock(self, hours: float, seconds: float) -> None:
        file = self._world.clock_step_file
        server_clock.step(file, timedelta(hours=hours))
        self._note(f"   the servers' wall clock is wrong by {hours} h")
        time.sleep(seconds)
        server_clock.step(file, timedelta())

    def cut_database(self, seconds: float) -> None:
        """From the leader only: the other server takes over, if it is for long enough."""
        leader = self._server(leads=True)
        relay = self._world.database_relays[self._world.servers.index(leader)]
        relay.cut()
        time.sleep(seconds)
        relay.heal()

    def _leave_out(self, why: str) -> None:
        self.left_out.append(why)
        self._note(f"   left out: {why}")

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


def kill_with_children(pid: int) -> list[int]:
    """kill -9 of a process and its descendants at once; returns when they are dead."""
    killed = freeze_all(lambda: _with_children(pid))
    for one in killed:
        os.kill(one, signal.SIGKILL)
    eventually(lambda: not any(map(_runs, killed)), within=30)
    return killed


def _with_children(pid: int) -> list[int]:
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        found = [process, *process.children(recursive=True)]
        return sorted(one.pid for one in found if _runs(one.pid))
    return []


def _runs(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False
