"""The subtasks of a task in a checkpoint, as Flink shows them.

A task may have several vertices with snapshots of their own, such as a source that is chained with
a sink. Their snapshots with the same number are one subtask here.
"""

from collections.abc import Iterable
from typing import Any

from jobmanager.api.flink.summaries import statistics
from jobmanager.api.flink.times import millis
from jobmanager.core.ids import SubtaskRef
from jobmanager.core.life.records import StoredCheckpoint
from jobmanager.core.plan.job_plan import Task

_NO_ALIGNMENT = {"buffered": 0, "processed": 0, "persisted": 0, "duration": 0}


def task_checkpoint_subtasks(found: StoredCheckpoint, task: Task) -> dict[str, Any]:
    """Return `subtasks` and `summary` of a task in a checkpoint."""
    checkpoint = found.checkpoint
    acked: dict[int, list[SubtaskRef]] = {}
    for ref in checkpoint.snapshots:
        if ref.vertex in task.vertices:
            acked.setdefault(ref.subtask, []).append(ref)
    awaited = {ref.subtask for ref in checkpoint.awaiting if ref.vertex in task.vertices}
    shapes = [
        _pending(number) if number in awaited else _completed(found, number, acked[number])
        for number in sorted(awaited | acked.keys())
    ]
    return {"subtasks": shapes, "summary": _summary([s for s in shapes if "ack_timestamp" in s])}


def _pending(number: int) -> dict[str, Any]:
    return {"className": "pending", "index": number, "status": "pending_or_failed"}


def _completed(found: StoredCheckpoint, number: int, refs: list[SubtaskRef]) -> dict[str, Any]:
    acked_at = millis(max(found.acked_at[ref] for ref in refs))
    size = sum(found.checkpoint.snapshots[ref].bytes for ref in refs)
    whole = acked_at - millis(found.checkpoint.triggered_at)
    stored = found.checkpoint.stored
    snapshot = stored.times.snapshot_ms if stored else None
    return {
        "className": "completed",
        "index": number,
        "status": "completed",
        "ack_timestamp": acked_at,
        "end_to_end_duration": whole,
        "checkpointed_size": size,
        "state_size": size,
        # No batch waits for a snapshot: all of it is asynchronous.
        "checkpoint": {"sync": -1 if snapshot is None else 0, "async": _known(snapshot)},
        "alignment": _NO_ALIGNMENT,
        "start_delay": -1 if snapshot is None else max(0, whole - snapshot),
        "unaligned_checkpoint": False,
        "aborted": False,
    }


def _known(milliseconds: int | None) -> int:
    return -1 if milliseconds is None else milliseconds


def _summary(shapes: list[dict[str, Any]]) -> dict[str, Any]:
    def of(name: str) -> dict[str, Any]:
        return known(one[name] for one in shapes)

    def known(values: Iterable[int]) -> dict[str, Any]:
        return statistics([one for one in values if one >= 0])

    nothing = statistics([0 for _ in shapes])
    return {
        "checkpointed_size": of("checkpointed_size"),
        "state_size": of("state_size"),
        "end_to_end_duration": of("end_to_end_duration"),
        "checkpoint_duration": {
            part: known(one["checkpoint"][part] for one in shapes) for part in ("sync", "async")
        },
        "alignment": dict.fromkeys(("buffered", "processed", "persisted", "duration"), nothing),
        "start_delay": of("start_delay"),
    }
