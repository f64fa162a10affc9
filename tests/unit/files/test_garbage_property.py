"""Whatever happens in whatever order, nothing that is needed is deleted, and gc leaves no more.

The model is what the database would say about each checkpoint and savepoint; the runner's
and the JobManager's own code works on real files, and on a store of fsspec.
"""

import asyncio
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from enum import Enum, auto
from pathlib import Path
from tempfile import mkdtemp
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from jobmanager.core.ids import AttemptNumber, CheckpointNumber
from jobmanager.core.life.job import JobStatus
from jobmanager.core.snapshots import layout as storage_layout
from jobmanager.core.snapshots import manifest as manifests
from jobmanager.core.snapshots.garbage import GarbageLimits, JobFacts, Judgement
from jobmanager.core.snapshots.manifest import Manifest
from jobmanager.core.snapshots.records import Remains
from jobmanager.files.open_storage import open_storage
from jobmanager.files.snapshot_storage import FileSnapshotStorage
from jobmanager.files.storage_port import Storage, damage
from taskrunner.core.restore import FromScratch
from taskrunner.snapshots.clone import Clones, Past, read_manifest
from taskrunner.snapshots.fence import Fence
from taskrunner.snapshots.layout import layout_of
from taskrunner.snapshots.snapshot import AttemptContext, Snapshots
from taskrunner.snapshots.spark_log import SparkLog
from taskrunner.snapshots.spark_state import MissingState
from tests.support import stores
from tests.unit.taskrunner.builders import JOB, OUT, SparkDirectory, a_graph

NOW = datetime(2026, 11, 16, tzinfo=UTC)
ON_A_RAM_DISK = "/dev/shm"  # to sync takes no time there


class Fate(Enum):
    """What the database says about a checkpoint."""

    UNDER_WAY = auto()
    RETAINED = auto()
    OVER = auto()


class Crash(BaseException):
    """The process is gone."""


class StorageMachine(RuleBasedStateMachine):
    elsewhere: str | None = None

    @initialize()
    def begin(self) -> None:
        stores.forget()
        self.root = Path(mkdtemp(prefix="headgate-gc-", dir=ON_A_RAM_DISK))
        self.layout = layout_of(self.root.as_uri(), JOB, self.elsewhere)
        self.storage = FileSnapshotStorage(self.root, self.elsewhere)
        self.fates: dict[int, Fate] = {}
        self.savepoints: dict[str, bool] = {}
        """Each directory, and whether the savepoint in it is complete."""
        self.attempt = 0
        self._start(completed=None)
        self.commit(snapshot=False)

    def teardown(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        stores.forget()

    # ── what a runner does ────────────────────────────────────────────────────

    @rule(snapshot=st.booleans())
    def commit(self, snapshot: bool) -> None:
        batch = (SparkLog(self.spark.path).last_committed() or 0) + 1
        batch = batch if (self.spark.path / "commits/0").exists() else 0
        self.spark.commit(batch)
        if snapshot:
            self.spark.snapshot(version=batch + 1, shared=[f"{batch:06}", "000000"])

    @rule(fate=st.sampled_from(Fate))
    def checkpoint(self, fate: Fate) -> None:
        number = self._next()
        self._take(number)
        self.fates[number] = fate

    @rule(after=st.integers(0, 20))
    def checkpoint_that_breaks_off(self, after: int) -> None:
        """By a store that fails, or by a state file that is not there."""
        number = self._next()
        lost = min(self.spark.path.glob("state/0/1/[0-9]*"))  # a changelog, or a snapshot
        hidden = lost.rename(lost.with_name("hidden"))
        try:
            with stores.failing(after), suppress(OSError, MissingState):
                self._take(number)
        finally:
            hidden.rename(lost)
        self.fates[number] = Fate.OVER

    @rule(crashes_after=st.none() | st.integers(0, 8))
    def savepoint(self, crashes_after: int | None) -> None:
        root = self.elsewhere or self.root.as_uri()
        target = f"{root}/savepoints/savepoint-{len(self.savepoints)}"
        steps = iter(range(1_000))

        def after_step(step: str) -> None:
            if crashes_after is not None and next(steps) >= crashes_after:
                raise Crash

        self.savepoints[target] = False
        with suppress(Crash):
            self.snapshots.take_savepoint(
                CheckpointNumber(1), {OUT: self.spark.path}, NOW, UUID(int=9), target, after_step
            )
            self.savepoints[target] = True

    @rule(loses_attempts=st.booleans())
    def restart(self, loses_attempts: bool) -> None:
        retained = self._with(Fate.RETAINED)
        completed = read_manifest(self.layout, retained[-1]) if retained else None
        if loses_attempts and completed is not None:
            self.layout.work.delete_directory(storage_layout.ATTEMPTS)
        self._start(completed)

    # ── what the JobManager does ──────────────────────────────────────────────

    @precondition(lambda self: self._with(Fate.UNDER_WAY))
    @rule(fate=st.sampled_from([Fate.RETAINED, Fate.OVER]))
    def settle(self, fate: Fate) -> None:
        self.fates[self._with(Fate.UNDER_WAY)[0]] = fate

    @precondition(lambda self: len(self._with(Fate.RETAINED)) > 1)
    @rule(crashes=st.booleans())
    def discard(self, crashes: bool) -> None:
        oldest = self._with(Fate.RETAINED)[0]
        self.fates[oldest] = Fate.OVER
        if crashes:  # after its first step
            self.files.delete([storage_layout.checkpoint_manifest(oldest)])
        else:
            asyncio.run(self.storage.discard_checkpoint(JOB, oldest))

    @rule()
    def explain(self) -> None:
        before = self._everything()
        said = self._sweep(deletes=False)

        assert self._everything() == before
        for one in said.garbage:
            assert open_storage(one.path.rpartition("/")[0]).list_names(), (
                f"{one.path} is not there"
            )

    @rule()
    def collect(self) -> None:
        explained = self._sweep(deletes=False)
        assert self._sweep(deletes=True) == explained

        kept = [n for n, fate in self.fates.items() if fate is not Fate.OVER]
        named = {file.location for n in kept for file in self._manifest(n).files()}
        own = {storage_layout.checkpoint_manifest(n) for n in kept}
        assert (
            set(self.files.list_files("pool")) | set(self.files.list_files("checkpoints"))
            == named | own
        )
        whole = [directory for directory, is_complete in self.savepoints.items() if is_complete]
        home = open_storage(f"{self.elsewhere or self.root.as_uri()}/savepoints")
        assert {f"{home.uri}/{name}" for name in home.list_names()} == set(whole)
        assert self._sweep(deletes=True).garbage == ()

    # ── what must hold ────────────────────────────────────────────────────────

    @invariant()
    def everything_that_is_needed_is_there(self) -> None:
        for number, fate in self.fates.items():
            if fate is not Fate.OVER:
                _check(self.files, self._manifest(number))
        for directory, is_complete in self.savepoints.items():
            if is_complete:
                files = open_storage(directory)
                _check(files, manifests.from_json(files.read("manifest.json").decode()))

    @property
    def files(self) -> Storage:
        return self.layout.snapshots

    def _start(self, completed: Manifest | None) -> None:
        self.attempt += 1
        number = AttemptNumber(self.attempt)
        fence = Fence(self.layout, number)
        fence.raise_epoch()
        clones = Clones(self.layout, number, Past(completed=completed))
        choice = clones.choose(OUT)
        clones.draft(OUT, choice)
        clones.finish(OUT)
        assert self.attempt == 1 or not isinstance(choice, FromScratch)
        self.spark = SparkDirectory(self.layout.spark_checkpoint_dir(number, OUT))
        self.snapshots = Snapshots(
            AttemptContext(JOB, number, a_graph(), 2, "4.3.0"), self.layout, fence
        )
        if completed is not None:
            self.snapshots.learn(completed)

    def _take(self, number: int) -> None:
        taken = self.snapshots.take(CheckpointNumber(number), {OUT: self.spark.path}, NOW)
        for file in taken.manifest.files():
            source = self.spark.path / file.path
            assert self.files.read(file.location) == source.read_bytes(), file.location

    def _manifest(self, number: int) -> Manifest:
        return read_manifest(self.layout, CheckpointNumber(number))

    def _with(self, fate: Fate) -> list[CheckpointNumber]:
        return [CheckpointNumber(n) for n, one in sorted(self.fates.items()) if one is fate]

    def _next(self) -> int:
        return len(self.fates) + 1

    def _everything(self) -> object:
        paths = (p for p in self.root.rglob("*") if p.is_file() and p.suffix != ".lock")
        here = {path: path.stat().st_size for path in paths}
        return here, {name: one.size for name, one in stores.MoodyStore.store.items()}

    def _sweep(self, *, deletes: bool) -> Judgement:
        """What the use case does, with the model for a database."""

        async def sweep() -> Judgement:
            facts = JobFacts(
                JobStatus.RUNNING, None, True, dict.fromkeys(self._with(Fate.OVER), "over")
            )
            judged = await self.storage.sweep.job(JOB, facts, GarbageLimits(NOW), deletes=deletes)
            for directory, is_complete in self.savepoints.items():
                remains: list[Remains] = list(
                    await self.storage.sweep.remains(directory, is_complete=is_complete)
                )
                for one in remains if deletes else []:
                    await self.storage.sweep.delete(one)
            return judged

        return asyncio.run(sweep())


class ElsewhereMachine(StorageMachine):
    elsewhere = "moody://bucket/headgate"


def _check(files: Storage, manifest: Manifest) -> None:
    for file in manifest.files():
        assert damage(files, file) is None, f"{file.location} {damage(files, file)}"


@pytest.mark.parametrize("machine", [StorageMachine, ElsewhereMachine])
def test_nothing_that_is_needed_is_ever_deleted(machine: type[StorageMachine]) -> None:
    limits = settings(max_examples=20, stateful_step_count=25, deadline=None)
    run_state_machine_as_test(machine, settings=limits)
