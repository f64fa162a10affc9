"""A Spark session with enough slots for a real-time job (`taskrunner.core.real_time_slots`).

With `local[…]` as master the session is opened with as many slots as are needed: its tasks wait for
records most of the time, so there may be more of them than cores. Any other master gives what it
gives, and the job is refused if that is not enough.
"""

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import SparkSession

from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sources import Source
from jobmanager.core.ids import VertexId
from jobmanager.core.plan.job_plan import plan_of
from taskrunner import logs
from taskrunner.core.real_time_slots import SlotUse, needed, slots_of, told
from taskrunner.core.secret_fields import with_secrets
from taskrunner.secret_lookup import SecretLookup
from taskrunner.snapshots.snapshot import AttemptContext
from taskrunner.spark.connectors.registry import READERS
from taskrunner.spark.session.session import WarmSession

_MASTER = "spark.master"
_LOCAL = re.compile(r"local(?:\[(?P<slots>\*|\d+)(?:,\s*\d+)?\])?")
_EXECUTORS_WITHIN_SECONDS = 60.0
_LOOK_AGAIN_SECONDS = 0.5
log = logs.get("real_time")


class NotEnoughSlots(Exception):
    """The master gives fewer slots than the tasks of a real-time job need at the same time."""


def open_with_slots(
    session: WarmSession,
    chosen: Mapping[str, str],
    context: AttemptContext,
    secret: SecretLookup,
    check: Callable[[], None],
) -> tuple[SparkSession, Mapping[VertexId, int]]:
    """The session, and the partitions of each source that it has slots for. `check` may raise an
    error to abandon the preparation. Raises `NotEnoughSlots`.
    """
    kept = session.master
    if local_slots(chosen[_MASTER]) is not None and kept and local_slots(kept) is not None:
        chosen = {**chosen, _MASTER: kept}  # of an attempt before, or of a warm runner
    master = chosen[_MASTER]
    slots = local_slots(master)
    spark = session.open(chosen)
    partitions = _partitions(spark, context.graph, secret)
    uses = slots_of(context.graph, context.parallelism, partitions)
    log.info("slots_counted", needed=needed(uses), there=slots, master=master)
    if slots is None:
        _await_slots(spark, master, uses, check)
    elif slots < needed(uses):
        check()
        spark = session.open({**chosen, _MASTER: f"local[{needed(uses)}]"})
    return spark, partitions


def local_slots(master: str) -> int | None:
    """The slots of a local master; None: it is no local master."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        return None
    slots = found["slots"] or "1"
    return (os.cpu_count() or 1) if slots == "*" else int(slots)


def _partitions(
    spark: SparkSession, graph: JobGraph, secret: SecretLookup
) -> Mapping[VertexId, int]:
    found: dict[VertexId, int] = {}
    for region in plan_of(graph).regions:
        for name in region.sources:
            source = graph.vertex(name)
            assert isinstance(source, Source)
            count = READERS[type(source.connector)].partitions
            assert count is not None  # the graph was checked
            filled = with_secrets(source, secret)
            found[name] = count(filled, filled.connector, spark)
    return found


def _await_slots(
    spark: SparkSession, master: str, uses: Sequence[SlotUse], check: Callable[[], None]
) -> None:
    """Waits for executors, which register one after the other."""
    deadline = time.monotonic() + _EXECUTORS_WITHIN_SECONDS
    while (there := spark.sparkContext.defaultParallelism) < needed(uses):
        check()
        if time.monotonic() >= deadline:
            raise NotEnoughSlots(
                f"{master} gives {there} slots, and a real-time job needs one for each of its "
                f"tasks at the same time: {told(uses)}; add cores, or lower the parallelism"
            )
        time.sleep(_LOOK_AGAIN_SECONDS)
