"""Shared by the regions of one batch job: the compiled graph, its loops, and the turn to run.

One region runs at a time, with all of Spark's cores. What two regions need is computed by the
first of them: Spark keeps the rows of a shared vertex, and a loop or the fitting of a model
upstream of both runs once.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from pyspark.sql import DataFrame

from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import RegionId
from jobmanager.core.plan.job_plan import Region, shared_by_regions
from jobmanager.core.progress import LoopProgress
from taskrunner.spark.compile.compiler import Compiler, ReadSource
from taskrunner.spark.compile.loops import LoopStopped, RunningLoops
from taskrunner.spark.compile.models import Models

_WAIT_SECONDS = 0.2


class BatchWork:
    """The work of one attempt of a batch job."""

    def __init__(
        self,
        graph: JobGraph,
        parallelism: int,
        read: ReadSource,
        regions: Collection[Region],
        models: Models,
        directory: Path,
    ) -> None:
        self._loops = RunningLoops(directory)
        self._compiler = Compiler(
            graph,
            parallelism,
            read,
            loops=self._loops,
            models=models,
            shared=shared_by_regions(graph, regions),
        )
        self._turn = Lock()
        self._leaving = Lock()
        self._here = {region.id for region in regions}

    @contextmanager
    def turn(self, is_wanted: Callable[[], bool]) -> Iterator[None]:
        """Waits until no other region runs. Raises `LoopStopped` when the job is to end."""
        while not self._turn.acquire(timeout=_WAIT_SECONDS):
            if not is_wanted():
                raise LoopStopped
        try:
            if not is_wanted():
                raise LoopStopped
            yield
        finally:
            self._turn.release()

    def rows_of(self, region: Region) -> DataFrame:
        """The rows for the region's sink, after running the loops upstream of it."""
        return self._compiler.rows_of(region)

    def stop(self) -> None:
        """Prevents further rounds of all loops."""
        self._loops.stop()

    def leave(self, region: RegionId) -> None:
        """Ends the region's turn; after the last region everything is freed."""
        with self._leaving:
            if region in self._here:
                self._here.discard(region)
                if not self._here:
                    self._loops.close()

    def progress(self, region: Region) -> list[LoopProgress]:
        """The progress of the loops in that region."""
        inside = {str(vertex_id) for vertex_id in region.vertices}
        return [one for one in self._loops.progress() if one.vertex.split("/")[0] in inside]

    def activity(self) -> str | None:
        """A description of the running loop."""
        for one in self._loops.progress():
            if one.is_running:
                return (
                    f"{one.vertex}: round {one.iteration} of {one.max_iterations} at most gave "
                    f"{one.rows} rows in {one.duration_ms} ms"
                )
        return None
