"""The simulated world: all parties, and all faults that can happen.

A schedule draws its own mix of faults first (some have no faults, some lose every tenth message,
some crash a party every few steps), so that rare combinations are tried as well as common ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from jobmanager.core.ids import CheckpointNumber, JobId, RunnerId
from jobmanager.core.life.draft import Life
from jobmanager.core.snapshots.manifest import Manifest
from jobmanager.protocol import messages
from tests.simulation.choices import Choices
from tests.simulation.database import Database
from tests.simulation.graphs import BOUNDED_ROWS, Simulated, Variant, simulated
from tests.simulation.invariants import Invariants
from tests.simulation.jobmanager import JobManagerParty
from tests.simulation.network import Network
from tests.simulation.runner import RunnerParty
from tests.simulation.scheduler import Party, Scheduler, Steps
from tests.simulation.storage import FileGone, Storage
from tests.simulation.story import Story
from tests.simulation.stream import StateFile
from tests.simulation.user import UserParty

_HOURS_IN_STEPS = 2_400
"""A step of half a second becomes one of twenty minutes, and the longest five hours."""


@dataclass(slots=True)
class Faults:
    """How often each kind of fault happens: once in so many chances; 0 is never."""

    messages: int = 0
    crashes: int = 0
    outages: int = 0
    storage: int = 0
    leaps: int = 40
    pauses: int = 0
    split_acks: int = 0
    starts: int = 0
    """Of a process, of a query, of the restore before it."""
    stops_at_once: int = 0
    """A Spark that cannot end a query after its batch."""

    @staticmethod
    def drawn(choices: Choices) -> "Faults":
        return Faults(
            messages=(0, 40, 12)[choices.below(3)],
            crashes=(0, 90, 45, 25)[choices.below(4)],
            outages=(0, 30)[choices.below(2)],
            storage=(0, 10)[choices.below(2)],
            leaps=(60, 12)[choices.below(2)],
            pauses=(0, 6)[choices.below(2)],
            split_acks=(0, 2)[choices.below(2)],
            starts=(0, 0, 6, 2)[choices.below(4)],
            stops_at_once=1 if choices.one_in(16) else 0,
        )


class World:
    def __init__(self, choices: Choices, *, is_told: bool = False) -> None:
        self.choices = choices
        self.story = Story(is_told=is_told)
        self.scheduler = Scheduler(choices)
        self.faults = Faults.drawn(choices)
        self.storage = Storage(self.scheduler)
        self.database = Database(self.scheduler, choices)
        self.database.one_in_outages = self.faults.outages
        self.network = Network(self.scheduler, choices, self.story)
        self.network.one_in_faults = self.faults.messages
        self.runners: list[RunnerParty] = []
        self._last_number = 0
        self._graphs: dict[JobId, Simulated] = {}
        self.invariants = Invariants(self)
        # On one machine a leader sees the end of its predecessor's runners, on two it does not.
        hosts = ("east", "east", "east") if choices.below(2) else ("east", "west", "east")
        count = 3 if choices.one_in(5) else 2
        self.jobmanagers = [
            JobManagerParty(self, f"jobmanager-{number}", host)
            for number, host in enumerate(hosts[:count], start=1)
        ]
        self._parted: RunnerParty | None = None
        """The runner that was last parted from its leader."""
        self.user = UserParty(self, self._drawn_graph())

    def next_number(self) -> int:
        """A number that was never used: ids and tokens are made of it."""
        self._last_number += 1
        return self._last_number

    def _drawn_graph(self) -> Simulated:
        choices = self.choices
        regions, is_held = 1 + choices.below(2), choices.one_in(4)
        return simulated(
            Variant(
                regions=regions,
                is_held=is_held,
                is_bounded=choices.one_in(2 if is_held else 5),
                retained=1 + choices.below(2),
                tolerable_failures=(2, 0)[choices.below(2)],
                is_unfenced=choices.one_in(4),
            )
        )

    # ── jobs ──────────────────────────────────────────────────────────────────

    def new_job(self, graph: Simulated, output_of: JobId | None = None) -> JobId:
        """A job with sinks of its own, or with those of a job that has ended."""
        job = JobId(UUID(int=self.next_number()))
        self._graphs[job] = graph
        if output_of is not None:
            self.storage.of(job).output_root = self.storage.of(output_of).output_root
        return job

    def simulated_of(self, job: JobId) -> Simulated:
        return self._graphs[job]

    def last_row_of(self, job: JobId) -> int | None:
        return BOUNDED_ROWS if self._graphs[job].variant.is_bounded else None

    def is_near_end_of_input(self, job: JobId) -> bool:
        """Whether few rows are left for a query of the job."""
        read = [
            query.directory.end_of(batch)
            for one in self.runners
            if one.is_up and one.newest is not None and one.newest.job == job
            for query in one.newest.queries.values()
            if (batch := query.directory.last_committed) is not None
        ]
        return max(read, default=0) >= BOUNDED_ROWS - 6

    def life(self, job: JobId) -> Life | None:
        return self.database.lives.get(job)

    def open_restore_point(
        self, point: messages.RestorePointMessage
    ) -> tuple[Manifest, Mapping[str, StateFile]]:
        """The manifest of a restore point, and its files. Raises `FileGone`."""
        _, _, job = point.root.partition("/jobs/")
        if job:
            there = self.storage.of(JobId(UUID(hex=job)))
            number = CheckpointNumber(int(point.manifest.split("/")[1]))
            manifest = there.checkpoints.get(number)
            if manifest is None:
                raise FileGone(f"{point.name} is not there")
            return manifest, there.pool
        saved = self.storage.savepoints.get(point.root)
        if saved is None:
            raise FileGone(f"{point.name} is not there")
        return saved.manifest, saved.files

    # ── processes of runners ──────────────────────────────────────────────────

    def launch(self, runner: RunnerId, secret: str, host: str) -> None:
        name = f"runner-{len(self.runners) + 1}"
        self.story.add(self.scheduler.now, host, "starts {}", name)
        self.runners.append(RunnerParty(self, runner, secret, host, name))

    def process(self, runner: RunnerId, host: str) -> RunnerParty | None:
        for one in self.runners:
            if one.id == runner and one.host == host and one.is_up:
                return one
        return None

    def has_process(self, runner: RunnerId, host: str) -> bool:
        return self.process(runner, host) is not None

    def kill(self, runner: RunnerId, host: str) -> None:
        """Ends a runner's processes, also one that is frozen; only those of this machine."""
        while (process := self.process(runner, host)) is not None:
            self.story.add(self.scheduler.now, host, "kills {}", process.name)
            process.crash()

    # ── faults ────────────────────────────────────────────────────────────────

    def maybe_pause(self) -> Steps[None]:
        """Where something else may come first, once in a while."""
        if self.choices.one_in(self.faults.pauses):
            yield None

    def start_fails(self) -> bool:
        return self.choices.one_in(self.faults.starts)

    def storage_fails(self) -> bool:
        return self.choices.one_in(self.faults.storage)

    def maybe_fault(self) -> None:
        one_in = self.faults.crashes
        if one_in and (ending := self._runner_at_end_of_input()) is not None:
            if self.choices.one_in(20):
                self._end(ending)
            return
        if one_in and self._is_operating:
            one_in = max(8, one_in // 3)  # where there is most to go wrong
        if not self.choices.one_in(one_in):
            return
        victims: list[Party] = [one for one in self.runners if one.is_up]
        victims += self.jobmanagers
        victim = victims[self.choices.below(len(victims))]
        if self._is_unfenced and self.choices.below(2):
            self._part()
            return
        match self.choices.below(8):
            case 0:
                self._end(victim)
            case 1 | 2 | 3:
                self._freeze(victim)
            case 4:
                self._step_clock(victim)
            case 5:
                self.story.add(self.scheduler.now, "postgres", "✗ restarts")
                self.database.restart()
            case 6:
                self._cut_off(victim)
            case _:
                self._fail_query(victim)

    def _runner_at_end_of_input(self) -> RunnerParty | None:
        """A runner that has read all input and holds output back. What it shows must stay."""
        if not self.simulated_of(self.user.job).variant.ends_with_checkpoint:
            return None
        for one in self.runners:
            attempt = one.newest
            if one.is_up and attempt is not None and not attempt.has_ended:
                queries = attempt.queries.values()
                if queries and all(query.is_exhausted for query in queries):
                    return one
        return None

    def _part(self) -> None:
        """Where no sink can be fenced: cuts the newest runner off from a leader that cannot look
        at its machine. If the leader can, it crashes first.
        """
        runner = next((one for one in reversed(self.runners) if one.is_up), None)
        if runner is None or self._parted is runner:
            return
        self._parted = runner
        leader = self._leader
        if leader is not None and leader.host == runner.host and self._has_two_hosts:
            self._end(leader)
        self.network.spawn("parting", self._cut_off_when_heard(runner))

    def _cut_off_when_heard(self, runner: RunnerParty) -> Steps[None]:
        """Once the leader has heard of the runner: so it does not listen longer than it has to."""
        until = self.scheduler.now + 15_000
        while self._has_two_hosts and self.scheduler.now < until:
            leader, row = self._leader, self.database.runners.get(runner.id)
            heard_at = row.heartbeat_at if row is not None else None
            is_apart = leader is not None and leader.host != runner.host
            if leader is not None and is_apart and heard_at and heard_at > leader.listening_since:
                break
            yield self.scheduler.now + 200
        self._cut_off(runner)

    @property
    def _leader(self) -> JobManagerParty | None:
        term = self.database.lease.term
        return next((one for one in self.jobmanagers if one.is_up and one.term == term), None)

    @property
    def _has_two_hosts(self) -> bool:
        return len({one.host for one in self.jobmanagers}) > 1

    def _cut_off(self, victim: Party) -> None:
        """No message of a runner comes through, and none to it."""
        if isinstance(victim, RunnerParty) and victim.name not in self.network.cut_off:
            self.story.add(self.scheduler.now, victim.name, "✗ is cut off")
            self.network.cut_off.add(victim.name)
            self.network.spawn("mended", self._mend_later(victim))

    def _mend_later(self, victim: Party) -> Steps[None]:
        yield self.scheduler.now + 10_000 * (1 + self.choices.below(5))
        self.story.add(self.scheduler.now, victim.name, "is in reach again")
        self.network.cut_off.discard(victim.name)

    @property
    def _is_unfenced(self) -> bool:
        return self.simulated_of(self.user.job).variant.is_unfenced

    @property
    def _is_operating(self) -> bool:
        life = self.life(self.user.job)
        return life is not None and life.operation is not None

    def _end(self, victim: Party) -> None:
        if not victim.is_up:
            return
        self.story.add(self.scheduler.now, victim.name, "✗ crashes")
        victim.crash()
        if isinstance(victim, JobManagerParty):
            self.network.spawn("restart", self._restart_later(victim))

    def _restart_later(self, victim: JobManagerParty) -> Steps[None]:
        yield self.scheduler.now + 500 + 500 * self.choices.below(20)
        if not victim.is_up:
            self.story.add(self.scheduler.now, victim.name, "starts again")
            victim.start()

    def _freeze(self, victim: Party) -> None:
        if victim.is_frozen or not victim.is_up:
            return
        self.story.add(self.scheduler.now, victim.name, "✗ freezes")
        victim.is_frozen = True
        self.network.spawn("thaw", self._thaw_later(victim))

    def _thaw_later(self, victim: Party) -> Steps[None]:
        # A runner that is frozen in the middle of a batch for longer than its fence time, on a
        # machine that is out of reach, writes when it wakes up: nothing can be done about that.
        longest = 10 if self._is_unfenced and isinstance(victim, RunnerParty) else 30
        yield self.scheduler.now + 1000 * (1 + self.choices.below(longest))
        self.thaw(victim)

    def thaw(self, victim: Party) -> None:
        if victim.is_frozen:
            self.story.add(self.scheduler.now, victim.name, "wakes up")
            victim.is_frozen = False

    def _step_clock(self, victim: Party) -> None:
        step = 500 * (self.choices.below(31) - 15)
        if self.choices.below(2):
            step *= _HOURS_IN_STEPS
        if isinstance(victim, JobManagerParty):
            self.story.add(self.scheduler.now, victim.name, "✗ clock stepped by {} ms", step)
            victim.clock_offset_ms += step
        else:
            self.story.add(self.scheduler.now, "postgres", "✗ clock stepped by {} ms", step)
            self.database.clock_offset_ms += step

    def _fail_query(self, victim: Party) -> None:
        if isinstance(victim, RunnerParty) and victim.newest is not None:
            for query in victim.newest.queries.values():
                self.story.add(self.scheduler.now, victim.name, "✗ query {} fails", query.region)
                query.fails_next = True
                return

    def heal(self) -> None:
        """No more faults: whoever is there goes on, and what is down starts again. Who is cut off
        stays so for as long as was drawn.
        """
        self.story.add(self.scheduler.now, "world", "is calm from now on")
        self.choices.is_dull = True
        self.faults = Faults()
        self.network.one_in_faults = 0
        self.database.one_in_outages = 0
        for party in (*self.runners, *self.jobmanagers):
            self.thaw(party)
        for jobmanager in self.jobmanagers:
            if not jobmanager.is_up:
                jobmanager.start()
