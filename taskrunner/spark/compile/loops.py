"""Loops in a batch job: their rounds, their end, and recovery from a lost executor.

Spark's executors keep the result of a round, cut off from its plan: otherwise the plan of round n
would be n times as long, or 2ⁿ times if a body uses its input twice. Every few rounds the result
is also written to files. If an executor is lost with its rows, the loop goes back to the last
round in files, or to its beginning, whose rows Spark can compute again.
"""

import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Lock
from typing import Any, Protocol

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row

from jobmanager.core.progress import LoopProgress
from taskrunner import logs
from taskrunner.core.invalid_vertex import InvalidVertex
from taskrunner.spark.session.column_names import column
from taskrunner.spark.session.hadoop_path import hadoop_path

CUT_EVERY = 10
"""Every so many rounds the result is written to files."""
_MOST_REWINDS = 3
"""Consecutive rewinds without a new round in files."""
_LOST = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
log = logs.get("loops")

Frames = tuple[DataFrame, ...]
"""The frames that a loop iterates on."""
Keep = Callable[[DataFrame], DataFrame]
"""Computes the rows of a frame once, and returns them as a frame without a lineage."""


@dataclass(frozen=True, slots=True)
class RoundVerdict:
    rows: int
    """The number of rows in the round's result, or of rows that it changed."""
    is_last: bool


Judge = Callable[[], RoundVerdict]
Step = Callable[[Frames, Keep], tuple[Frames, Judge]]
"""One round: returns the new frames, and whether it was the last round."""


class LoopStopped(Exception):
    """The loop ends because the job is to end."""


class LoopFailed(Exception):
    """A round, or the input of the first one, could not be computed; the cause says why."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__(f"{name} failed in round {number}")


class Loops(Protocol):
    """Runs loops, or only analyses them."""

    def rounds(self, name: str, start: Frames, step: Step, most: int) -> Frames: ...

    def reused(self, frames: Iterable[DataFrame]) -> list[DataFrame]:
        """The same frames, prepared to be read in every round of a loop."""
        ...

    def value(self, name: str, frame: DataFrame) -> Row | None:
        """The only row of a frame; None if loops are only analysed."""
        ...


class AnalysedLoops:
    """Builds one round of each loop for Spark to analyse, and runs none."""

    def rounds(self, name: str, start: Frames, step: Step, most: int) -> Frames:
        frames, _ = step(start, lambda frame: frame)
        return frames

    def reused(self, frames: Iterable[DataFrame]) -> list[DataFrame]:
        return list(frames)

    def value(self, name: str, frame: DataFrame) -> Row | None:
        return None


class RunningLoops:
    """The loops of one attempt of a batch job. One thread runs them, any thread may stop them."""

    def __init__(
        self, directory: Path, cut_every: int = CUT_EVERY, keep: Keep | None = None
    ) -> None:
        self._directory = directory
        self._cut_every = cut_every
        self._keep = keep or _on_executors
        self._stopping = Event()
        self._lock = Lock()
        self._progress: dict[str, LoopProgress] = {}
        self._reused: list[DataFrame] = []
        self._kept: list[DataFrame] = []

    def stop(self) -> None:
        """Prevents further rounds."""
        self._stopping.set()

    def progress(self) -> list[LoopProgress]:
        with self._lock:
            return list(self._progress.values())

    def rounds(self, name: str, start: Frames, step: Step, most: int) -> Frames:
        number, state, written, rewinds = 0, start, (0, start), 0
        previous: list[DataFrame] = []
        while number < most:
            kept: list[DataFrame] = []
            began = time.monotonic()
            try:
                self._check()
                following, judge = step(state, self._keeping(kept))
                verdict = judge()
            except (LoopStopped, AnalysisException, InvalidVertex):
                _release(kept)
                raise
            except Exception as error:
                _release(kept)
                self._check()  # a cancelled Spark job fails, but that is no failure of the loop
                if _LOST not in str(error) or rewinds == _MOST_REWINDS:
                    raise LoopFailed(name, number + 1) from error
                rewinds += 1
                log.warning("loop_rewound", loop=name, iteration=number + 1, to=written[0])
                number, state = written
                continue
            number += 1
            self._note(name, number, most, verdict, began)
            _release(previous)
            state, previous = following, kept
            if verdict.is_last:
                break
            if number % self._cut_every == 0 and number < most:
                state, rewinds = self._write(name, number, state), 0
                written = (number, state)
        self._note_end(name)
        self._kept.extend(previous)
        return state

    def reused(self, frames: Iterable[DataFrame]) -> list[DataFrame]:
        """Persists the frames for as long as the attempt runs; Spark can compute them again."""
        found = list(frames)
        for frame in found:
            if not frame.storageLevel.useMemory:
                self._reused.append(frame.persist())
        return found

    def value(self, name: str, frame: DataFrame) -> Row | None:
        self._check()
        try:
            return frame.first()
        except AnalysisException:
            raise
        except Exception as error:
            self._check()
            raise LoopFailed(name, 0) from error

    def close(self) -> None:
        """Frees everything that was kept."""
        _release(self._kept)
        try:
            for frame in self._reused:
                frame.unpersist()
        except Exception as error:  # Spark itself may have failed, and then holds nothing any more
            log.warning("not_let_go", reason=f"{type(error).__name__}: {error}")
        self._kept, self._reused = [], []
        shutil.rmtree(self._directory, ignore_errors=True)

    def _check(self) -> None:
        if self._stopping.is_set():
            raise LoopStopped

    def _keeping(self, kept: list[DataFrame]) -> Keep:
        def keep(frame: DataFrame) -> DataFrame:
            self._check()
            rows = self._keep(frame)
            kept.append(rows)
            return rows

        return keep

    def _write(self, name: str, number: int, state: Frames) -> Frames:
        """Writes the frames to files and reads them there. Files of earlier rounds are deleted."""
        directory = self._directory / name
        earlier = list(directory.glob("round-*"))
        read: list[DataFrame] = []
        for position, frame in enumerate(state):
            place = hadoop_path(directory / f"round-{number}" / str(position))
            frame.write.mode("overwrite").parquet(place)
            read.append(frame.sparkSession.read.schema(frame.schema).parquet(place))
        for one in earlier:
            shutil.rmtree(one, ignore_errors=True)
        return tuple(read)

    def _note(self, name: str, number: int, most: int, verdict: RoundVerdict, began: float) -> None:
        took = int((time.monotonic() - began) * 1000)
        log.info("iteration", loop=name, iteration=number, rows=verdict.rows, duration_ms=took)
        with self._lock:
            self._progress[name] = LoopProgress(
                vertex=name,
                iteration=number,
                max_iterations=most,
                rows=verdict.rows,
                duration_ms=took,
                is_converged=verdict.is_last,
            )

    def _note_end(self, name: str) -> None:
        with self._lock:
            ended = replace(self._progress[name], is_running=False)
            self._progress[name] = ended
        converged = ended.is_converged
        log.info("loop_ended", loop=name, iterations=ended.iteration, is_converged=converged)


def delta_rounds(
    loops: Loops,
    name: str,
    solution: DataFrame,
    workset: DataFrame,
    key: Sequence[str],
    advance: Callable[[DataFrame, DataFrame, Keep], tuple[DataFrame, DataFrame]],
    most: int,
    judge: Callable[[DataFrame], bool] = lambda delta: False,
) -> DataFrame:
    """Runs a delta iteration; returns the solution set when the workset is empty.

    `advance` computes the delta and the next workset from the solution set and the workset, which
    are already kept. `judge` may end the loop earlier, from the delta of a round.
    """

    def step(state: Frames, keep: Keep) -> tuple[Frames, Judge]:
        known, todo = state
        delta, following = advance(known, todo, keep)
        merged = keep(_merged(known, delta, key))

        def verdict() -> RoundVerdict:
            rows = following.count()
            return RoundVerdict(rows, rows == 0 or judge(delta))

        return (merged, following), verdict

    return loops.rounds(name, (solution, workset), step, most)[0]


def _merged(solution: DataFrame, delta: DataFrame, key: Sequence[str]) -> DataFrame:
    """The solution set, in which rows of the delta replace those with the same keys."""
    keys = delta.select(*(column(name).alias(f"__headgate_{name}") for name in key))
    same = [column(name).eqNullSafe(column(f"__headgate_{name}")) for name in key]
    kept = solution.join(keys, same, "left_anti")
    return kept.unionByName(delta)


def _on_executors(frame: DataFrame) -> DataFrame:
    return frame.localCheckpoint(eager=True)


def _release(frames: Iterable[DataFrame]) -> None:
    """Frees the blocks of kept frames on executors. Spark would do so too, some time after the last
    reference is gone; if its internals differ from 4.3, this is left to Spark.
    """
    for frame in frames:
        with suppress(Py4JError, TypeError, AttributeError):
            plan: Any = frame._jdf.queryExecution().analyzed()
            plan.rdd().unpersist(False)
