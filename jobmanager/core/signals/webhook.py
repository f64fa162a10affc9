"""A webhook: an HTTP address that is told of what happens to jobs, by rules over the history."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, NewType
from uuid import UUID, uuid5

from jobmanager.core.errors import InvalidWebhook
from jobmanager.core.ids import JobId
from jobmanager.core.life.health import Health
from jobmanager.core.life.job import JobStatus
from jobmanager.core.life.operation import OperationKind, OperationStatus
from jobmanager.core.life.records import HistoryEntry

WebhookId = NewType("WebhookId", UUID)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MOST_WEBHOOKS = 100
LONGEST_PATTERN = 255
LEAST_SECRET = 16
MOST_SECRET = 1024


class WebhookEvent(StrEnum):
    """What a webhook can be told of."""

    STATE_CHANGED = "state_changed"
    """The job has another state, as `headgate list` shows it: also stalled and degraded."""
    RESTART = "restart"
    """An attempt failed, and the job will run again."""
    CHECKPOINT_FAILED = "checkpoint_failed"
    RESCALED = "rescaled"
    """A rescale has ended: it was completed, has failed or was rolled back."""
    UPGRADED = "upgraded"
    """An upgrade has ended, in the same ways."""
    SAVEPOINT_COMPLETED = "savepoint_completed"
    STALLED = "stalled"
    """The job has input, and commits nothing."""
    DEGRADED = "degraded"
    """Heartbeats are late, or checkpoints fail or are missing."""
    RECOVERED = "recovered"
    """The job was stalled or degraded, and is healthy again."""
    TEST = "test"
    """A sample, sent only on request (`headgate webhooks test`)."""


RULES = tuple(event for event in WebhookEvent if event is not WebhookEvent.TEST)
"""The events that a webhook can be created for."""


def _endings(kind: OperationKind, event: WebhookEvent) -> dict[str, tuple[WebhookEvent, ...]]:
    ended = (status for status in OperationStatus if status is not OperationStatus.IN_PROGRESS)
    return {f"{kind}_{status}": (event,) for status in ended}


_EVENTS: Mapping[str, tuple[WebhookEvent, ...]] = {
    **{f"job_{status}": (WebhookEvent.STATE_CHANGED,) for status in JobStatus},
    f"job_{JobStatus.RESTARTING}": (WebhookEvent.RESTART, WebhookEvent.STATE_CHANGED),
    f"job_{Health.STALLED}": (WebhookEvent.STALLED, WebhookEvent.STATE_CHANGED),
    f"job_{Health.DEGRADED}": (WebhookEvent.DEGRADED, WebhookEvent.STATE_CHANGED),
    f"job_{Health.HEALTHY}": (WebhookEvent.RECOVERED, WebhookEvent.STATE_CHANGED),
    "checkpoint_aborted": (WebhookEvent.CHECKPOINT_FAILED,),
    "savepoint_completed": (WebhookEvent.SAVEPOINT_COMPLETED,),
    **_endings(OperationKind.RESCALE, WebhookEvent.RESCALED),
    **_endings(OperationKind.UPGRADE, WebhookEvent.UPGRADED),
}
"""By the kind of a history entry: what it is to webhooks, the most specific event first."""


@dataclass(frozen=True, slots=True)
class Webhook:
    id: WebhookId
    name: str
    url: str = field(repr=False)
    """May contain `${secret:name}`, and a path that is a password itself. Never shown whole."""
    on: tuple[WebhookEvent, ...]
    secret: str = field(repr=False)
    """The key of the signature, or a reference to it: `${secret:name}`."""
    created_at: datetime
    job_pattern: str | None = None
    """A pattern of job names, as a shell has it, or the id of a job. None: all jobs."""
    told_up_to: int = 0
    """The id of the last history entry that the rules were applied to."""

    def event_for(self, job_id: JobId, job_name: str, kind: str) -> WebhookEvent | None:
        """Return the event that a history entry is to this webhook; None: it is not told of it."""
        found = next((event for event in events_of(kind) if event in self.on), None)
        return found if found is not None and self._is_about(job_id, job_name) else None

    def _is_about(self, job_id: JobId, job_name: str) -> bool:
        pattern = self.job_pattern
        if pattern is None or pattern in (job_id.hex, str(job_id)):
            return True
        return fnmatchcase(job_name, pattern)


def events_of(kind: str) -> tuple[WebhookEvent, ...]:
    """Return what a history entry of this kind is to webhooks, the most specific event first."""
    return _EVENTS.get(kind, ())


def rules_of(names: Sequence[str]) -> tuple[WebhookEvent, ...]:
    """Return the events of these names, each once. Raises `InvalidWebhook`."""
    known = {str(event): event for event in RULES}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InvalidWebhook(
            f"on: {unknown[0]!r} is no event that a webhook can be told of; there are "
            f"{', '.join(known)}"
        )
    return tuple(dict.fromkeys(known[name] for name in names))


def fault_of_name(name: str) -> str | None:
    """Return why a webhook cannot have this name; None: it can."""
    if _NAME.fullmatch(name) is None:
        return (
            f"a webhook cannot be named {name!r}: use 1 to 64 letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit"
        )
    return None


def state_after(kind: str) -> str | None:
    """Return the state that a job has after a history entry of this kind; None: the same as
    before.
    """
    if WebhookEvent.STATE_CHANGED not in events_of(kind):
        return None
    state = kind.removeprefix("job_")
    return JobStatus.RUNNING.value if state == Health.HEALTHY else state


def delivery_key(webhook_id: WebhookId, history_id: int) -> UUID:
    """Return the idempotency id: however often an entry is sent to a webhook, and by whichever
    leader, its id is the same.
    """
    return uuid5(webhook_id, f"history/{history_id}")


def body_of(
    key: UUID,
    event: WebhookEvent,
    job_id: JobId,
    job_name: str,
    entry: HistoryEntry,
    history_id: int | None,
) -> str:
    """Return the JSON text that is signed and sent."""
    said: dict[str, Any] = {
        "id": str(key),
        "event": event,
        "at": entry.at.isoformat(),
        "job": {"id": job_id.hex, "name": job_name},
        "state": state_after(entry.kind),
        "kind": entry.kind,
        "cause": entry.cause,
        "attempt": entry.attempt,
        "checkpoint": entry.checkpoint,
        "detail": dict(entry.detail),
        "sequence": history_id,
    }
    return json.dumps(said, ensure_ascii=False)
