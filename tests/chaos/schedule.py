"""What a chaos run does, as data: the same seed gives the same schedule, for ever.

A schedule is a row of steps. A step may first ask for something (a savepoint, a rescale), then,
a moment later, break something for some seconds. Some steps wait until the job has recovered
before the next begins, the others do not.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    KILL_RUNNER = "kill_runner"
    """kill -9 of the driver's Python process."""
    KILL_SPARK = "kill_spark"
    """kill -9 of its JVM."""
    FREEZE_RUNNER = "freeze_runner"
    """SIGSTOP of all its processes, SIGCONT before anybody takes it for lost."""
    LOSE_RUNNER = "lose_runner"
    """The same, for longer than its silence is put up with."""
    KILL_LEADER = "kill_leader"
    KILL_FOLLOWER = "kill_follower"
    FREEZE_LEADER = "freeze_leader"
    """SIGSTOP; for longer than its lease."""
    KILL_POSTGRES = "kill_postgres"
    """kill -9 of all its processes, under load; it starts again after a while."""
    FILL_DISK = "fill_disk"
    """No byte is free where state, checkpoints, output and the servers' own files are."""
    POWER_CUT = "power_cut"
    """kill -9 of servers and runners, and what was not synced to disk is lost."""
    STEP_CLOCK = "step_clock"
    """The wall clock of the servers is wrong by hours, for a while."""
    CUT_OFF = "cut_off"
    """Runners reach no server."""
    CUT_SERVERS = "cut_servers"
    """The servers do not reach each other."""
    CUT_DATABASE = "cut_database"
    """The leader hears nothing of Postgres; the follower does."""
    DOUBLE_ACKS = "double_acks"
    """Whatever a runner says of a checkpoint or an attempt is delivered twice."""
    DELAY_ACKS = "delay_acks"
    """It is delivered late."""
    REPLAY = "replay"
    """All that any runner ever said is said again, in any order, with its token."""


class Request(StrEnum):
    SAVEPOINT = "savepoint"
    RESCALE = "rescale"


@dataclass(frozen=True, slots=True)
class Limits:
    """What the servers are set to: faults are to stay below, or to go beyond."""

    heartbeat_timeout: float
    lease: float


@dataclass(frozen=True, slots=True)
class Step:
    fault: Fault
    seconds: float
    """How long it lasts. A kill: until what was killed is started again, if it is ours to start."""
    request: Request | None
    pause: float
    """Between the request and the fault."""
    number: int
    """For whatever needs one: a parallelism, an order, the size of a step."""
    settles: bool
    """The next step waits until the job has recovered."""

    def __str__(self) -> str:
        asked = f"{self.request}({self.number}), after {self.pause:.2f} s " if self.request else ""
        settled = ", then wait until it has recovered" if self.settles else ""
        return f"{asked}{self.fault} for {self.seconds:.2f} s{settled}"


@dataclass(frozen=True, slots=True)
class Schedule:
    seed: int
    shows_at_checkpoint: bool
    """The sink's `visibility` is `checkpoint`."""
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        sink = "checkpoint" if self.shows_at_checkpoint else "batch"
        lines = [f"seed {self.seed}, visibility {sink}"]
        return "\n".join(lines + [f"  {n}. {step}" for n, step in enumerate(self.steps, 1)])


PARALLELISMS = (1, 2, 3, 4)
_SETTLES = 0.6
_ASKS = 0.6


def make(seed: int, length: int, limits: Limits) -> Schedule:
    """The schedule of a seed: so many steps, and every fault before any comes again."""
    chance = random.Random(seed)
    shows_at_checkpoint = chance.random() < 0.5
    faults = _dealt(chance)
    steps = []
    in_a_row = 0
    for _ in range(length):
        fault = next(faults)
        seconds = _seconds(fault, limits, chance)
        request = chance.choice(list(Request)) if chance.random() < _ASKS else None
        pause = round(chance.uniform(0, 2), 2)
        number = chance.choice(PARALLELISMS)
        in_a_row = 0 if chance.random() < _SETTLES or in_a_row == 1 else in_a_row + 1
        steps.append(Step(fault, seconds, request, pause, number, settles=in_a_row == 0))
    return Schedule(seed, shows_at_checkpoint, tuple(steps))


def _dealt(chance: random.Random) -> Iterator[Fault]:
    while True:
        deck = list(Fault)
        chance.shuffle(deck)
        yield from deck


def _seconds(fault: Fault, limits: Limits, chance: random.Random) -> float:
    match fault:
        case Fault.LOSE_RUNNER:
            low, high = limits.heartbeat_timeout + 2, limits.heartbeat_timeout + 4
        case Fault.FREEZE_RUNNER:
            low, high = 0.2, limits.heartbeat_timeout / 3
        case Fault.FREEZE_LEADER:
            low, high = limits.lease / 2, limits.lease * 2
        case Fault.FILL_DISK | Fault.KILL_POSTGRES | Fault.STEP_CLOCK:
            low, high = 1.0, 3.0
        case Fault.CUT_SERVERS | Fault.CUT_DATABASE:
            low, high = limits.lease / 2, limits.lease * 3
        case Fault.CUT_OFF:
            low, high = 1.0, limits.heartbeat_timeout + 2
        case _:
            low, high = 0.1, 2.0
    return round(chance.uniform(low, high), 2)
