"""Sends accumulators of user functions from Python workers to the driver.

They use Spark's accumulators, which count a task that ran twice twice. So the values of a task are
kept by region, batch, vertex, partition and task attempt, and only one attempt at a partition
counts. `Totals` sums up a batch when its rows are written, before Spark commits it, and writes the
totals next to Spark's log, from where they become part of snapshots: a job that goes back to a
batch goes back to its totals. So a committed batch counts once.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyspark.accumulators
from pyspark import AccumulatorParam, SparkContext, TaskContext
from pyspark.accumulators import Accumulator
from pyspark.sql import SparkSession

from jobmanager.core.progress import AccumulatorValue
from taskrunner.api import accumulators
from taskrunner.api.accumulators import Merge, Tally
from taskrunner.snapshots import durable

Report = Callable[[], None]
Sums = dict[str, dict[str, Tally]]
"""Vertex to name to value."""
_REGION = "headgate.region"
_BATCH = "streaming.sql.batchId"
_KEPT = 8
"""How many files of totals are kept: the newest counts, after a crash the one before."""
_Task = tuple[str, int, str, int, int]
"""Region, batch, vertex, partition and task attempt."""
_Told = dict[_Task, dict[str, Tally]]


class _Merging(AccumulatorParam[_Told]):
    def zero(self, value: _Told) -> _Told:
        return {}

    def addInPlace(self, value1: _Told, value2: _Told) -> _Told:  # noqa: N802 — Spark's name
        for task, tallies in value2.items():
            value1[task] = accumulators.merged(value1.get(task, {}), tallies)
        return value1


_accumulators: dict[int, tuple[SparkContext, "Accumulator[_Told]"]] = {}


def _accumulator(spark: SparkSession) -> "Accumulator[_Told]":
    """The accumulator of a Spark context, shared by all jobs that it runs one after the other."""
    context = spark.sparkContext
    held = _accumulators.get(id(context))
    if held is None or held[0] is not context:
        made: Accumulator[_Told] = context.accumulator({}, _Merging())
        _accumulators.clear()
        _accumulators[id(context)] = held = (context, made)
    return held[1]


def forget() -> None:
    """Forgets what was counted so far, after the last job that could ask for it."""
    _accumulators.clear()
    pyspark.accumulators._accumulatorRegistry.clear()


def reporter(spark: SparkSession, vertex: str) -> Report:
    """The function that a worker calls after user code, to send what was added."""
    return _Reporter(_accumulator(spark), vertex)


class _Reporter:
    def __init__(self, accumulator: "Accumulator[_Told]", vertex: str) -> None:
        self._accumulator = accumulator
        self._vertex = vertex

    def __call__(self) -> None:
        tallies = accumulators.take()
        context = TaskContext.get()
        if tallies and context is not None:
            task = (
                context.getLocalProperty(_REGION) or "",
                int(context.getLocalProperty(_BATCH) or 0),
                self._vertex,
                context.partitionId(),
                context.taskAttemptId(),
            )
            self._accumulator.add({task: tallies})


class Totals:
    """The totals of one region, batch after batch. Used by the thread that writes batches."""

    def __init__(self, spark: SparkSession, region: str, directory: Path | None) -> None:
        """`directory` is Spark's checkpoint directory; None: a batch job, which starts over."""
        self._spark = spark
        self._region = region
        self._directory = None if directory is None else directory / "accumulators"
        self._sums: Sums = {}

    def begin(self) -> None:
        """To be called by the thread that starts the region's work."""
        self._spark.sparkContext.setLocalProperty(_REGION, self._region)

    def add(self, batch: int) -> None:
        """Adds the values of the tasks of `batch`. The batch may have been added before."""
        told = _accumulator(self._spark).value
        mine = {task: told.pop(task) for task in list(told) if task[:2] == (self._region, batch)}
        before = self._read(batch - 1)
        self._sums = _summed(before, mine)
        if self._directory is not None and self._sums:
            durable.write(self._directory / f"{batch}.json", _text(self._sums))
            self._prune(batch)

    def read(self) -> dict[str, dict[str, AccumulatorValue]]:
        """Vertex to name to its kind of merging and its value."""
        return {
            vertex: {name: AccumulatorValue(**one) for name, one in tallies.items()}
            for vertex, tallies in _document(self._sums).items()
        }

    def restore(self, batch: int | None) -> None:
        """Continues from the totals after `batch`."""
        self._sums = {} if batch is None else self._read(batch)

    def _read(self, batch: int) -> Sums:
        """The totals after `batch`, or after the last batch before it that has totals."""
        if self._directory is None or not self._directory.is_dir():
            return {}
        known = [int(one.stem) for one in self._directory.glob("*.json") if one.stem.isdigit()]
        newest = max((one for one in known if one <= batch), default=None)
        if newest is None:
            return {}
        return _sums(json.loads((self._directory / f"{newest}.json").read_text(encoding="utf-8")))

    def _prune(self, batch: int) -> None:
        assert self._directory is not None
        for one in self._directory.glob("*.json"):
            if one.stem.isdigit() and int(one.stem) <= batch - _KEPT:
                one.unlink(missing_ok=True)


def _summed(before: Sums, told: Mapping[_Task, dict[str, Tally]]) -> Sums:
    """Of several attempts at a partition the last one counts: all of them had the same rows."""
    last: dict[tuple[str, int], tuple[int, dict[str, Tally]]] = {}
    for (_, _, vertex, partition, attempt), tallies in told.items():
        place = (vertex, partition)
        if place not in last or attempt > last[place][0]:
            last[place] = (attempt, tallies)
    sums = dict(before)
    for (vertex, _), (_, tallies) in sorted(last.items()):
        sums[vertex] = accumulators.merged(sums.get(vertex, {}), tallies)
    return sums


def _document(sums: Sums) -> dict[str, dict[str, Any]]:
    return {
        vertex: {
            name: {"merge": str(one.merge), "value": one.value} for name, one in tallies.items()
        }
        for vertex, tallies in sums.items()
    }


def _text(sums: Sums) -> str:
    return json.dumps(_document(sums))


def _sums(document: Mapping[str, Any]) -> Sums:
    return {
        vertex: {name: Tally(Merge(one["merge"]), one["value"]) for name, one in tallies.items()}
        for vertex, tallies in document.items()
    }
