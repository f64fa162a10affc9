"""The cost of a round of a loop with and without cutting the plan: PageRank of a random graph.

    python -m bench.batch 20 20000       # rounds, vertices (5 edges each)

One Spark session, one warm-up, then the same loop three ways: as Headgate runs it (kept on
executors, every tenth round in files), with every round in files, and with rounds that are
only persisted, whose plans grow. Reported are the first and last rounds and their ratios.
"""

import statistics
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.support import say, table
from jobmanager.core.graph.graph_algorithms import GraphAlgorithm, PageRank
from jobmanager.core.graph.inputs import Input
from jobmanager.core.ids import VertexId
from taskrunner.spark.compile.graph_algorithms import graph
from taskrunner.spark.compile.loops import CUT_EVERY, Frames, Judge, Keep, RunningLoops, Step
from taskrunner.spark.session.session import close_session, open_session, settings

_NEVER = 10**9


class TimedLoops(RunningLoops):
    """Notes how long each round takes, with what is written for it."""

    def __init__(self, directory: Path, cut_every: int, keep: Keep | None = None) -> None:
        super().__init__(directory, cut_every, keep)
        self.began_at: list[float] = []

    def rounds(self, name: str, start: Frames, step: Step, most: int) -> Frames:
        def timed(state: Frames, keep: Keep) -> tuple[Frames, Judge]:
            self.began_at.append(time.monotonic())
            return step(state, keep)

        ended = super().rounds(name, start, timed, most)
        self.began_at.append(time.monotonic())
        return ended

    def seconds(self) -> list[float]:
        return [after - before for before, after in pairwise(self.began_at)]


def persisted(frame: DataFrame) -> DataFrame:
    frame.persist().count()
    return frame


WAYS: dict[str, tuple[int, Keep | None]] = {
    f"on executors, every {CUT_EVERY}th in files": (CUT_EVERY, None),
    "every round in files": (1, None),
    "persisted, no cut": (_NEVER, persisted),
}


def main(rounds: int, vertices: int) -> None:
    extra = {"spark.log.level": "ERROR"}
    spark = open_session(settings(name="bench", master="local[2]", parallelism=2, extra=extra))
    try:
        measure(spark, CUT_EVERY, None, 3, vertices)
        took = {}
        for name, (cut_every, keep) in WAYS.items():
            took[name] = measure(spark, cut_every, keep, rounds, vertices)
            say(f"{name}: {sum(took[name]):.1f} s")
    finally:
        close_session(spark)
    ours = statistics.median(next(iter(took.values())))
    table(
        ["rounds", "first 3, median s", "last 3, median s", "last / first", "all, ratio to ours"],
        [
            [
                name,
                f"{statistics.median(found[:3]):.2f}",
                f"{statistics.median(found[-3:]):.2f}",
                f"{statistics.median(found[-3:]) / statistics.median(found[:3]):.2f}",
                f"{statistics.median(found) / ours:.2f}",
            ]
            for name, found in took.items()
        ],
    )


def measure(
    spark: SparkSession, cut_every: int, keep: Keep | None, rounds: int, vertices: int
) -> list[float]:
    ids = spark.range(vertices * 5)
    edges = ids.selectExpr(
        f"id % {vertices} AS src", f"pmod(hash(id), {vertices}) AS dst"
    ).selectExpr("src", "CAST(dst AS BIGINT) AS dst")
    vertex = GraphAlgorithm(
        id=VertexId("ranks"),
        inputs=(Input(VertexId("edges")),),
        edges=VertexId("edges"),
        vertices=None,
        src="src",
        dst="dst",
        weight=None,
        algorithm=PageRank(0.85, rounds, 0.0),
    )
    with tempfile.TemporaryDirectory(prefix="hgbench") as name:
        loops = TimedLoops(Path(name), cut_every, keep)
        graph(vertex, [edges], loops)
        loops.close()
    return loops.seconds()


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:] or ("20", "20000")))
