"""Versions of the runner protocol: which of them work together, and what each can read.

A JobManager and its runners may be one version apart (ADR 19). Since version 2 a message is read
tolerantly, so it is written in the same way for every such version. Version 1 refuses a message
that has a field it does not know, so a message for version 1 has only the fields of `_VERSION_1`.
"""

import dataclasses
import json
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from jobmanager.protocol.messages import PROTOCOL_VERSION, Directive, Message, RunnerHello

TOLERANT_SINCE = 2
"""The first version that ignores fields which it does not know."""
ATTEMPT_TOKENS_SINCE = 2
"""The first version whose runners take a token with `Run`, and send it with their messages."""


def works_with(version: int) -> bool:
    """Whether this program can speak with a program of this version of the protocol."""
    return version >= 1 and abs(version - PROTOCOL_VERSION) <= 1


def version_in(header: str | None) -> int:
    """Read the header `Headgate-Protocol` of a call or an answer. Version 1 does not send it."""
    return int(header) if header is not None and header.isascii() and header.isdigit() else 1


def written_for(version: int, message: Message) -> str:
    """Write a message, as JSON, so that a program of this version can read it. A hello names the
    version that the runner then speaks.
    """
    if isinstance(message, RunnerHello):
        spoken = min(message.protocol, version)
        message = message.model_copy(update={"protocol": spoken})
    if version >= TOLERANT_SINCE:
        try:
            return message.model_dump_json()
        except PydanticSerializationError:  # a text that is no Unicode, as of an undecodable path
            return json.dumps(message.model_dump(mode="json"))
    return json.dumps(_for_version_1(message, message.model_dump(mode="json")))


def _for_version_1(value: Any, written: Any) -> Any:
    """Return `written`, the JSON of `value`, without what version 1 does not know."""
    match value:
        case BaseModel():
            return _fields(value, written)
        case list() | tuple():
            both = zip(value, written, strict=True)
            return [_for_version_1(one, said) for one, said in both if not _is_unknown(one)]
        case dict():
            both = zip(value.values(), written.items(), strict=True)
            return {name: _for_version_1(one, said) for one, (name, said) in both}
        case _ if dataclasses.is_dataclass(value):
            return _fields(value, written)
        case _:
            return written


def _fields(value: Any, written: dict[str, Any]) -> dict[str, Any]:
    known = fields_in_version_1(type(value)) or written.keys()
    return {
        name: _for_version_1(getattr(value, name), said)
        for name, said in written.items()
        if name in known
    }


def _is_unknown(value: Any) -> bool:
    """Whether `value` is a directive that version 1 does not have: it would refuse the whole
    answer. The runner does without it.
    """
    return isinstance(value, Directive) and not fields_in_version_1(type(value.body))


def fields_in_version_1(shape: type[Any]) -> frozenset[str]:
    """Return the fields that a message, or a part of a message, has in version 1; none if version
    1 does not have it at all.
    """
    return frozenset(_VERSION_1.get(shape.__name__, "").split())


_VERSION_1 = {
    "AccumulatorValue": "merge value",
    "AttemptCancelledReport": "detail event",
    "AttemptFailedReport": "event failure",
    "AttemptFinishedReport": "event",
    "AttemptPrepared": "event repartitioned",
    "AttemptReply": "superseded",
    "AttemptReport": "at attempt body job",
    "AttemptRunning": "event restored",
    "AttemptStoppedReport": "event savepoint",
    "Barrier": "checkpoint expires_at kind savepoint",
    "BarrierAcks": "acks attempt batches bytes checkpoint job manifest new_bytes",
    "BarrierDecline": "attempt checkpoint detail job reason region",
    "BarrierReply": "outcome",
    "Cancel": "grace_ms kind",
    "CheckpointAborted": "checkpoint kind reason",
    "CheckpointCompleted": "checkpoint kind",
    "CheckpointRef": "manifest number",
    "Directive": "attempt body id job",
    "Directives": "directives",
    "Exit": "kind reason",
    "FailureReport": "is_restartable kind message region stack",
    "Heartbeat": "attempt job memory regions",
    "HeartbeatReply": "heartbeat_interval_ms superseded urls",
    "LoopProgress": "duration_ms is_converged is_running iteration max_iterations rows vertex",
    "OperatorProgress": (
        "commit_ms dropped_rows operator state_bytes state_rows updated_rows vertex"
    ),
    "RegionProgress": (
        "accumulators activity batch batch_duration_ms batch_started_at batches busy_ms "
        "input_rows input_rows_per_second input_waiting is_active is_idle loops "
        "measured_batches median_batch_ms offsets operators output_rows phases_ms "
        "processed_rows_per_second progressed_at region sources state_bytes state_rows "
        "unmoved_ms watermark"
    ),
    "RepartitionedRegion": "batch duration_ms from_parallelism region to_parallelism",
    "RestorePointMessage": "allow_non_restored_state manifest name root",
    "RestoredRegion": "batch origin region source why",
    "Run": (
        "base_attempt checkpoint checkpoints data_root graph kind parallelism restore_point "
        "spark_master storage"
    ),
    "RunnerHello": "headgate_version host pid protocol python_version spark_version",
    "RunnerMemory": "heap_max_bytes heap_used_bytes java_version resident_bytes slots",
    "RunnerWelcome": "heartbeat_interval_ms poll_wait_ms urls",
    "SavepointTarget": "directory id",
    "SourceProgress": "backlog_rows input_rows_per_second processed_rows_per_second vertex",
    "Stop": "checkpoint drain expires_at keep_runner kind savepoint",
    "SubtaskAck": "bytes key_groups kind offsets pointer region subtask version vertex watermark",
}
"""By class, the fields of version 1. This never changes, and goes with version 3."""
