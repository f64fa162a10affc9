"""Finds the state that earlier attempts of a job left, and judges whether it can be trusted.

Only the newest attempt with a complete directory counts: the state of attempts before it is older,
and output that belongs to that state may have been withdrawn. The origin of a directory is recorded
before any output is withdrawn, so that an attempt which died before its directory was complete is
known as well.
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
    """The state from which a region's directory was cloned."""

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
    """Records the state from which the region's directory is cloned, durably."""
    document = {
        "kind": _kind(choice),
        "attempt": choice.attempt if isinstance(choice, FromAttempt) else None,
        "batch": restore.batch_of(choice),
        "why": choice.why,
    }
    layout.work.write(storage_layout.restored(attempt, region), json.dumps(document, indent=1))


def read_origin(layout: JobLayout, attempt: AttemptNumber, region: RegionId) -> Origin | None:
    """None: the attempt died earlier, or ran on a release that did not record the origin."""
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
    """The directories of the attempts before a new attempt. Each file is verified at most once."""

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
        """The newest attempt that committed a batch, else the newest attempt that began one. For
        `not_before` and `lost_output` see `restore.start_points` and `restore.newest_whole`.
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
        """The verification of a region's directory in an attempt."""
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
        # the stop failed after its drain: with that watermark all rows would be late
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
        """Adds what the origin of the directory tells about the attempt."""
        committed = SparkLog(self._directory(attempt, region)).last_committed()
        if origin.batch is not None and (committed is None or committed < origin.batch):
            fault = f"it was started after batch {origin.batch}, which is missing in its directory"
            return PreviousAttempt(attempt, None, has_pending_batch=False, fault=fault)
        if found is None or not origin.is_attempt or committed != origin.batch:
            return found
        at = "before the first batch" if origin.batch is None else f"after batch {origin.batch}"
        words = (
            f"attempt {attempt} continued {at} from the directory of attempt {origin.attempt} and "
            "committed nothing"
        )
        return replace(found, failed_start=words)

    def _directory(self, attempt: AttemptNumber, region: RegionId) -> Path:
        return self._layout.spark_checkpoint_dir(attempt, region)

    def _older_attempts(self) -> list[AttemptNumber]:
        """Newest first."""
        names = self._layout.work.list_names(storage_layout.ATTEMPTS)
        return [n for n in reversed(storage_layout.attempt_numbers(names)) if n in self._known]


def _cut_off(attempt: AttemptNumber, origin: Origin) -> PreviousAttempt:
    fault = f"it died before its directory was complete; its choice was: {origin.why}"
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
