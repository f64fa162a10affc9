"""The checkpoints that were discarded before their manifest was there.

A checkpoint can be aborted while a runner still uploads its files. Whoever discards the checkpoint
finds no manifest then, and notes its number; the runner looks for the note before it writes the
manifest. Both hold the lock of the pool, so either the manifest comes first and is deleted, or the
note comes first and there is never a manifest.
"""

import json

from jobmanager.core.ids import CheckpointNumber
from jobmanager.core.snapshots.layout import DISCARDED
from jobmanager.files.storage_port import Storage

_MOST = 100
"""Numbers ascend, and a runner takes one checkpoint at a time: the newest are enough."""


def note_discarded(work: Storage, number: CheckpointNumber) -> None:
    """`work` is the job's working directory; its pool lock is held."""
    noted = {*_noted(work), number}
    work.write(DISCARDED, json.dumps(sorted(noted)[-_MOST:]))


def is_discarded(work: Storage, number: CheckpointNumber) -> bool:
    return number in _noted(work)


def _noted(work: Storage) -> set[int]:
    try:
        return {int(number) for number in json.loads(work.read(DISCARDED))}
    except FileNotFoundError:
        return set()
