"""What earlier attempts of a job left behind, and how far it can be trusted.

The newest attempt whose directory was made decides: what attempts before it left is older, and
the output that goes with it may have been withdrawn. What the directory was made of is written
down before any output is withdrawn, so an attempt that died in between is known as well.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from jobmanager.core.ids import AttemptNumber, RegionId
from jobmanager.core.snapshots import layout as storage_layout
from taskrunner.core import restore
from taskrunner.core.restore import (
    FromAttempt,
    FromCheckpoint,
    FromSavepoint,
    FromScratch,
    PreviousAttempt,
    Restore,
)
from taskrunner.snapshots.layout import JobLayout
from taskrunner.snapshots.spark_log import SparkLog
from taskrunner.snapshots.wholeness import SparkDirectoryCheck

_ATTEMPT = "attempt"

Checks = dict[tuple[AttemptNumber, RegionId], SparkDirectoryCheck]


@dataclass(frozen=True, slots=True)
class Origin:
    """What a region's directory was made of."""

    kind: str
    """attempt, checkpoint, savepoint or scratch"""
    attempt: int | None
    batch: int | None
    why: str

    @property
    def is_attempt(self) -> bool:
        return self.kind == _ATTEMPT


def write_origin(
    layout: JobLayout, attempt: AttemptNumber, region: RegionId, choice: Restore
) -> None:
    """Writes down what the region's directory is made of, durably."""
    document = {
        "kind": _kind(choice),
        "attempt": choice.attempt if isinstance(choice, FromAttempt) else None,
        "batch": restore.batch_of(choice),
        "why": choice.why,
    }
    layout.work.write(storage_layout.restored(attempt, region), json.dumps(document, indent=1))


def read_origin(layout: JobLayout, attempt: AttemptNumber, region: RegionId) -> Origin | None:
    """None: an attempt that had not come so far, or of a release that did not write it down."""
    try:
        text = layout.work.read(storage_layout.restored(attempt, region))
    except FileNotFoundError:
        return None
    found = json.loads(text)
    return Origin(found["kind"], found["attempt"], found["batch"], found["why"])


def read_drain(layout: JobLayout, attempt: AttemptNumber, region: RegionId) -> int | None:
    """The batch after which a stop drained the region; None: none did."""
    try:
        return int(layout.work.read(storage_layout.drain(attempt, region)))
    except FileNotFoundError:
        return None


class PreviousAttempts:
    """Looks at what the attempts before one of them left behind; at each file once."""

    def __init__(
        self,
        layout: JobLayout,
        attempt: AttemptNumber,
        base_attempt: AttemptNumber,
        checks: Checks,
    ) -> None:
        self._layout = layout
        self._known = range(base_attempt, attempt)
        self._checks = checks

    def newest(
        self, region: RegionId, not_before: int, lost_output: Mapping[int, str]
    ) -> PreviousAttempt | None:
        """The newest attempt that committed a batch, else the newest that began one. Batches
        before `not_before` are of no use; `lost_output` is told in `restore.newest_whole`.
        """
        first_batch = None
        for attempt in self._older_attempts():
            origin = read_origin(self._layout, attempt, region)
            if not self._layout.spark_checkpoint_dir(attempt, region).exists():
                if origin is None or origin.is_attempt:
                    continue
                return _cut_off(attempt, origin)
            found = self._look(attempt, region, not_before, lost_output)
            if origin is not None:
                return self._judged(region, origin, attempt, found)
            if found is not None and SparkLog(self._directory(attempt, region)).committed():
                return found
            first_batch = first_batch or found
        return first_batch

    def check(self, attempt: AttemptNumber, region: RegionId) -> SparkDirectoryCheck:
        """What is known about the files in a region's directory."""
        wanted = (attempt, region)
        if wanted not in self._checks:
            self._checks[wanted] = SparkDirectoryCheck(self._directory(attempt, region))
        return self._checks[wanted]

    def _look(
        self,
        attempt: AttemptNumber,
        region: RegionId,
        not_before: int,
        lost_output: Mapping[int, str],
    ) -> PreviousAttempt | None:
        log = SparkLog(self._directory(attempt, region))
        drained_after = read_drain(self._layout, attempt, region)
        # a drained region was to end there, and did not: nothing would be in time any more
        last = math.inf if drained_after is None else drained_after
        committed = [batch for batch in log.committed() if batch <= last]
        begun = [batch for batch in log.begun() if batch <= last]
        points = restore.start_points(committed, begun, not_before)
        check = self.check(attempt, region)
        return restore.newest_whole(attempt, points, check.damage, lost_output)

    def _judged(
        self,
        region: RegionId,
        origin: Origin,
        attempt: AttemptNumber,
        found: PreviousAttempt | None,
    ) -> PreviousAttempt | None:
        """What was found, given what the directory was made of."""
        committed = SparkLog(self._directory(attempt, region)).last_committed()
        if origin.batch is not None and (committed is None or committed < origin.batch):
            fault = f"it was started after batch {origin.batch}, and that batch is not in it"
            return PreviousAttempt(attempt, None, has_pending_batch=False, fault=fault)
        if found is None or not origin.is_attempt or committed != origin.batch:
            return found
        at = "before the first batch" if origin.batch is None else f"after batch {origin.batch}"
        words = (
            f"attempt {attempt} had gone on {at} from what attempt {origin.attempt} left, and "
            "committed nothing"
        )
        return replace(found, failed_start=words)

    def _directory(self, attempt: AttemptNumber, region: RegionId) -> Path:
        return self._layout.spark_checkpoint_dir(attempt, region)

    def _older_attempts(self) -> list[AttemptNumber]:
        """The newest first."""
        names = self._layout.work.list_names(storage_layout.ATTEMPTS)
        return [n for n in reversed(storage_layout.attempt_numbers(names)) if n in self._known]


def _cut_off(attempt: AttemptNumber, origin: Origin) -> PreviousAttempt:
    fault = f"it was cut off before its directory was made; it was to start so: {origin.why}"
    return PreviousAttempt(attempt, None, has_pending_batch=False, fault=fault)


def _kind(choice: Restore) -> str:
    match choice:
        case FromScratch():
            return "scratch"
        case FromAttempt():
            return _ATTEMPT
        case FromCheckpoint():
            return "checkpoint"
        case FromSavepoint():
            return "savepoint"
