"""Whether a user may dispose of a savepoint: nothing may need it any more."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from jobmanager.core.errors import SavepointInUse
from jobmanager.core.ids import JobId
from jobmanager.core.life.records import Savepoint, StoredOperation
from jobmanager.core.life.savepoint import SavepointStatus


def disposed(
    savepoint: Savepoint, under_way: StoredOperation | None, users: Sequence[JobId], at: datetime
) -> Savepoint:
    """Dispose of a savepoint. `under_way` is the operation that stops or changes its job, `users`
    are the jobs that were started from it and still need it.
    """
    name = savepoint.id.hex
    if savepoint.status is not SavepointStatus.COMPLETED:
        raise SavepointInUse(
            f"savepoint {name} is {savepoint.status}: only a completed savepoint can be disposed of"
        )
    if under_way is not None and under_way.savepoint_id == savepoint.id:
        raise SavepointInUse(f"operation {under_way.id.hex} needs savepoint {name} until its end")
    if users:
        raise SavepointInUse(f"job {users[0].hex} was started from savepoint {name} and still runs")
    return replace(savepoint, status=SavepointStatus.DISPOSED, disposed_at=at)
