"""The shapes of the answers, as far as the client reads them. The server may add fields."""

from typing import Any, NotRequired, TypedDict

JobSummary = TypedDict(
    "JobSummary",
    {
        "jid": str,
        "name": str,
        "state": str,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "last-modification": int,
        "tasks": dict[str, int],
        "headgate-state": NotRequired[str],
    },
)
"""One entry of `/jobs/overview`: Flink's names, times in epoch milliseconds."""

ClusterOverview = TypedDict(
    "ClusterOverview",
    {
        "taskmanagers": int,
        "slots-total": int,
        "slots-available": int,
        "jobs-running": int,
        "jobs-finished": int,
        "jobs-cancelled": int,
        "jobs-failed": int,
        "flink-version": str,
        "flink-commit": str,
    },
)


class RunnerRef(TypedDict):
    id: str
    host: str
    pid: int | None


class LastCheckpoint(TypedDict):
    number: int
    completed_at: str | None
    duration_ms: int
    bytes: int


class JobStatus(TypedDict):
    status: str
    """Flink's word."""
    desired: str
    observed: str
    state: str
    reason: str
    since: str
    running_since: str | None
    attempt: int
    runner: RunnerRef | None
    region_states: list[dict[str, Any]]
    restored: list[dict[str, Any]]
    last_checkpoint: LastCheckpoint | None
    restarts: int
    lag: int | None
    """Milliseconds the slowest watermark is behind."""


class JobGraphAnswer(TypedDict):
    graph: dict[str, Any]
    revision: int
    parallelism: int


class OwnedKeyGroups(TypedDict):
    subtask: int
    key_groups: list[int]


class VertexKeyGroups(TypedDict):
    vertex: str
    subtasks: list[OwnedKeyGroups]


class KeyGroups(TypedDict):
    max_parallelism: int
    parallelism: int
    vertices: list[VertexKeyGroups]


class CheckpointSummary(TypedDict):
    """One checkpoint of Flink's `/jobs/{id}/checkpoints`."""

    id: int
    status: str
    trigger_timestamp: int
    latest_ack_timestamp: int
    end_to_end_duration: int
    checkpointed_size: int
    state_size: int
    num_subtasks: int
    num_acknowledged_subtasks: int
    discarded: NotRequired[bool]
    failure_message: NotRequired[str]


class Checkpoints(TypedDict):
    counts: dict[str, int]
    latest: dict[str, Any]
    history: list[CheckpointSummary]


class Ack(TypedDict):
    region: str
    vertex: str
    subtask: int
    acked_at: str
    kind: str
    pointer: str | None
    version: int | None
    bytes: int
    key_groups: list[int]
    offsets: Any
    watermark: str | None


class Awaited(TypedDict):
    region: str
    vertex: str
    subtask: int


class CheckpointFailure(TypedDict):
    reason: str
    detail: str | None


class Checkpoint(TypedDict):
    number: int
    kind: str
    status: str
    attempt: int
    triggered_at: str
    completed_at: str | None
    batch: dict[str, int | None]
    bytes: int
    new_bytes: int
    manifest: str | None
    discarded_at: str | None
    failure: CheckpointFailure | None
    acks: list[Ack]
    awaited: list[Awaited]


class Verification(TypedDict):
    files: int
    bytes: int
    faults: list[str]


class StateColumn(TypedDict):
    name: str
    type: str
    spark_name: str


class State(TypedDict):
    region: str
    vertex: str
    name: str
    operator: str
    subtasks: int
    key_schema: str
    value_schema: str
    key: list[StateColumn]
    value: list[StateColumn]


class StateSource(TypedDict):
    """Where an answer about state is from."""

    checkpoint: int
    savepoint: str | None
    completed_at: str


class StateList(StateSource):
    items: list[State]
    next: str | None


class StateRow(TypedDict):
    checkpoint: int
    key: dict[str, Any]
    value: dict[str, Any]
    key_group: int | None
    subtask: int


class StatePage(StateSource):
    region: str
    vertex: str
    name: str
    items: list[StateRow]
    next: str | None


class StateOfKey(StatePage):
    """The rows of a key; where there is just one it is at the top, too."""

    key: dict[str, Any] | None
    value: dict[str, Any] | None
    key_group: int | None
    subtask: int | None


class KeyGroupCount(TypedDict):
    key_group: int | None
    subtask: int
    rows: int
    bytes: int


class Skew(TypedDict):
    rows: float | None
    bytes: float | None


class KeyGroupHistogram(StateSource):
    region: str
    vertex: str
    name: str
    max_parallelism: int
    groups: list[KeyGroupCount]
    empty_groups: int
    skew: Skew


class GarbageItem(TypedDict):
    path: str
    kind: str
    bytes: int
    why: str


class Garbage(TypedDict):
    dry_run: bool
    items: list[GarbageItem]
    bytes: int
    left: list[GarbageItem]
    kept: dict[str, int]


class Artifact(TypedDict):
    id: str
    name: str
    bytes: int
    modules: list[str]
    uploaded_at: str


class ArtifactDetails(Artifact):
    names: dict[str, list[str]]
    jobs: list[str]
