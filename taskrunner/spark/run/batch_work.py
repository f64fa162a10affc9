"""What the regions of one batch job share: the compiled graph, its loops, and the turn to run.

One region runs at a time. Each has all of Spark's cores while it does, and what two regions
need is computed by the first of them: a vertex that they share is kept by Spark, and a loop or
a fitted model in front of both runs once.
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
        """Waits until no other region runs. Raises `LoopStopped` when it is no longer wanted."""
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
        """The rows that the region's sink is given. Loops in front of it have then been run."""
        return self._compiler.rows_of(region)

    def stop(self) -> None:
        """No further round of any loop begins."""
        self._loops.stop()

    def leave(self, region: RegionId) -> None:
        """The region has ended; after the last one nothing is kept any more."""
        with self._leaving:
            if region in self._here:
                self._here.discard(region)
                if not self._here:
                    self._loops.close()

    def progress(self, region: Region) -> list[LoopProgress]:
        """Of the loops in that region."""
        inside = {str(vertex_id) for vertex_id in region.vertices}
        return [one for one in self._loops.progress() if one.vertex.split("/")[0] in inside]

    def activity(self) -> str | None:
        """The loop that runs, in words."""
        for one in self._loops.progress():
            if one.is_running:
                return (
                    f"{one.vertex}: round {one.iteration} of {one.max_iterations} at most gave "
                    f"{one.rows} rows in {one.duration_ms} ms"
                )
        return None
