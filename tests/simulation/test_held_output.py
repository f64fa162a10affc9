"""When output that waits for a checkpoint (`visibility: checkpoint`) may be seen by readers.

Found by seed 1794967607014130 of an earlier model: the invariant was wrong, not the product.
"""

from uuid import UUID

import pytest

from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId, VertexId
from jobmanager.core.life.events import Submitted
from jobmanager.core.life.life import begin
from jobmanager.core.life.records import RestorePoint
from jobmanager.core.snapshots.manifest import Ancestor, Manifest, SavepointInfo
from taskrunner.core.sink_records import RecordState
from tests.simulation import stream
from tests.simulation.choices import Choices
from tests.simulation.graphs import Variant, simulated
from tests.simulation.invariants import EXACTLY_ONCE, InvariantBroken
from tests.simulation.storage import SavepointDirectory, SinkFiles, SinkRecord
from tests.simulation.world import World
from tests.support.builders import after

SAVEPOINT = "file:///savepoints/one"
GRAPH = simulated(Variant(is_held=True))


def sink() -> VertexId:
    return VertexId(GRAPH.regions[0].id)


def show(world: World, job: JobId, *batches: int) -> None:
    """Each batch has the row of its number."""
    files = SinkFiles(job, sink(), is_held=True)
    for batch in batches:
        name = f"{batch}.parquet"
        record = SinkRecord(RecordState.PUBLISHED, batch, AttemptNumber(1), ((name, name),))
        files.records[batch] = record
        files.visible[name] = (stream.expected(batch),)
    world.storage.of(job).sinks[sink()] = files


def take_savepoint(world: World, job: JobId, batch: int) -> None:
    lineage = (Ancestor(job, {sink(): batch}),)
    info = SavepointInfo(UUID(int=7), GRAPH.document, lineage)
    first = AttemptNumber(1)
    manifest = Manifest(job, CheckpointNumber(1), first, after(1), "4.1", 2, 4, {}, info)
    world.storage.savepoints[SAVEPOINT] = SavepointDirectory(manifest, {})


def submit(world: World, job: JobId, written_by: JobId) -> None:
    """A job that starts from the savepoint of another."""
    point = RestorePoint(SAVEPOINT, "manifest.json", "savepoint", written_by.hex)
    submission = Submitted(after(2), job, GRAPH.document, GRAPH.graph, 2, point)
    assert world.database.on_step is not None
    world.database.on_step(None, None, begin(submission))


def test_a_job_that_goes_on_with_the_output_of_another_shows_it_up_to_their_savepoint() -> None:
    world = World(Choices(replayed=[]))
    first = world.new_job(GRAPH)
    take_savepoint(world, first, batch=0)
    second = world.new_job(GRAPH, output_of=first)
    submit(world, second, first)

    show(world, first, 0)
    world.invariants.check()

    show(world, first, 0, 1)
    with pytest.raises(InvariantBroken, match="batch 1 is visible") as broken:
        world.invariants.check()
    assert broken.value.invariant == EXACTLY_ONCE


def test_a_job_with_output_of_its_own_shows_nothing_of_the_job_that_it_started_from() -> None:
    world = World(Choices(replayed=[]))
    first = world.new_job(GRAPH)
    take_savepoint(world, first, batch=0)
    submit(world, world.new_job(GRAPH), first)

    show(world, first, 0)
    with pytest.raises(InvariantBroken, match="batch 0 is visible"):
        world.invariants.check()
