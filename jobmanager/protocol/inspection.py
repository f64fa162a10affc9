"""The wire between a JobManager and its inspector: one line of JSON a message.

The inspector is a child process with a small Spark session of its own. It reads the
state in checkpoints and savepoints, which the JobManager, without Spark, cannot.

    JobManager ── Question ──▶ standard input      one at a time, each with its id
    standard output ── Answer ──▶ JobManager       the same id; first `InspectorReady`, id 0

The end of its standard input is the end of the inspector.
"""

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from jobmanager.protocol.messages import Message, PathRoots

MOST_ROWS = 1000
"""That one answer may hold."""


class Place(Message):
    """A checkpoint or a savepoint, and the job graph it belongs to."""

    root: str
    """file: URI that the locations in its manifest are relative to."""
    manifest: str
    """The manifest, relative to `root`."""
    graph: dict[str, Any]
    """The job-graph document."""


# ── questions ─────────────────────────────────────────────────────────────────


class ListStates(Message):
    """Which states there are, and what is in them."""

    kind: Literal["list_states"] = "list_states"
    place: Place


class StateRef(Message):
    """One state of one vertex. A vertex that is in two regions has its state in each."""

    region: str
    vertex: str
    name: str


class ReadRows(Message):
    """Rows of a state in the order of subtask and key, those of one key or all."""

    kind: Literal["read_rows"] = "read_rows"
    place: Place
    state: StateRef
    key: str | None = None
    """The value of the only key column, or a JSON object of key columns; None: all keys."""
    subtask: int = 0
    """Where to go on: the subtask, and how many of its rows were seen already."""
    skip: int = 0
    limit: int = Field(100, ge=1, le=MOST_ROWS)


class CountKeyGroups(Message):
    """How many rows and bytes of a state are in each key group."""

    kind: Literal["count_key_groups"] = "count_key_groups"
    place: Place
    state: StateRef


class TryGraph(Message):
    """Whether Spark would go on from a snapshot with another job graph: tried on a copy, with a
    batch that reads nothing and writes nothing.
    """

    kind: Literal["try_graph"] = "try_graph"
    place: Place
    graph: dict[str, Any]
    """The job-graph document to try."""
    parallelism: int
    data_root: str
    """What relative paths in the graph are relative to."""
    storage: str | None = None
    """Where the graph's artifacts are, a file: URI."""
    allowed_paths: PathRoots | None = None
    """What the graph may name; None: anything."""


class AnalyseGraph(Message):
    """What Spark says to a job graph: every fault, and the physical plans."""

    kind: Literal["analyse_graph"] = "analyse_graph"
    graph: dict[str, Any]
    parallelism: int
    data_root: str
    """What relative paths in the graph are relative to."""
    storage: str | None = None
    """Where the graph's artifacts are, a file: URI."""
    allowed_paths: PathRoots | None = None
    """What the graph may name; None: anything."""


class AdoptCheckpoint(Message):
    """Make a savepoint of the checkpoint directory of a plain Spark query."""

    kind: Literal["adopt_checkpoint"] = "adopt_checkpoint"
    path: str
    """The checkpoint directory: a file: URI or an absolute path."""
    graph: dict[str, Any]
    """The job-graph document that is to go on from it."""
    parallelism: int
    data_root: str
    """What relative paths in the graph are relative to."""
    savepoint: UUID
    target: str
    """The directory of the savepoint, a file: URI. It does not exist yet."""
    storage: str | None = None
    """Where the graph's artifacts are, a file: URI."""
    allowed_paths: PathRoots | None = None
    """What the graph may name; None: anything."""


class DescribeScript(Message):
    """Run a script up to where it waits for its queries, and say what they are. None starts."""

    kind: Literal["describe_script"] = "describe_script"
    script: str
    """The artifact that is the script."""
    arguments: list[str]
    artifacts: list[str]
    parallelism: int
    spark: dict[str, str]
    data_root: str
    """What relative paths in the script are relative to."""
    storage: str
    """Where artifacts are, a file: URI."""


QuestionBody = Annotated[
    ListStates
    | ReadRows
    | CountKeyGroups
    | TryGraph
    | AnalyseGraph
    | AdoptCheckpoint
    | DescribeScript,
    Field(discriminator="kind"),
]


class Question(Message):
    id: int
    within_ms: int
    """An answer that takes longer is of no use any more."""
    body: QuestionBody


# ── answers ───────────────────────────────────────────────────────────────────


class InspectorReady(Message):
    """The Spark session is there."""

    kind: Literal["ready"] = "ready"
    spark_version: str


class StateColumn(Message):
    name: str
    type: str
    """As Spark's DDL has it."""
    spark_name: str
    """What Spark calls it in its state."""


class StateDescription(StateRef):
    operator: str
    """Spark's name of the stateful operator."""
    subtasks: int
    key: list[StateColumn]
    value: list[StateColumn]


class States(Message):
    kind: Literal["states"] = "states"
    states: list[StateDescription]


class StateRow(Message):
    key: dict[str, Any]
    value: dict[str, Any]
    key_group: int | None
    """None: the vertex has no key, or Spark does not spread this state by one."""
    subtask: int
    """The state partition that Spark found it in."""


class Rows(Message):
    kind: Literal["rows"] = "rows"
    rows: list[StateRow]
    next_subtask: int | None
    """None: there are no more."""
    next_skip: int = 0


class KeyGroupCount(Message):
    key_group: int | None
    subtask: int
    rows: int
    bytes: int
    """Of the keys and values as Spark serialises them."""


class KeyGroupCounts(Message):
    kind: Literal["key_group_counts"] = "key_group_counts"
    max_parallelism: int
    groups: list[KeyGroupCount]
    """Those that have rows."""


class StateSchema(Message):
    """What Spark keeps, as DDL, under the names that Spark gives."""

    key: str
    value: str


class StateChange(Message):
    vertex: str
    name: str
    old: StateSchema | None
    """None: the snapshot has no such state."""
    new: StateSchema | None
    """None: the graph has no such state, or Spark could not plan it."""


class TriedRegion(Message):
    region: str
    is_new: bool
    """The snapshot has nothing of it: it was planned, and there was nothing to go on from."""
    drops_state: bool = False
    """The snapshot has keyed state of it, and the graph has no keyed vertex in it any more: it
    was tried without that state."""
    accepted: bool
    error: str | None = None
    """Spark's reason, in one line."""
    vertex: str | None = None
    """The vertex that the error is about, where that is known."""
    states: list[StateChange]


class Tried(Message):
    """Every region of the graph, in the order of its sinks."""

    kind: Literal["tried"] = "tried"
    regions: list[TriedRegion]


class AnalysisFault(Message):
    vertex: str | None
    field: str
    """Empty: the whole vertex."""
    message: str


class SparkPlan(Message):
    region: str
    text: str


class Analysed(Message):
    kind: Literal["analysed"] = "analysed"
    faults: list[AnalysisFault]
    plans: list[SparkPlan]
    """Of the regions without a fault."""


class Adopted(Message):
    """The savepoint is complete."""

    kind: Literal["adopted"] = "adopted"
    batch: int
    """The last committed one of the query."""
    provider: str
    """The class that kept its state."""
    partitions: int | None
    """State partitions it had."""
    was_rewritten: bool
    """False: its state was as ours is, and was copied."""


class ScriptQuerySink(Message):
    """What a query writes to, in Spark's words."""

    format: str
    path: str | None
    options: dict[str, str]
    partition_by: list[str]
    table: str | None
    function: str | None
    """`foreachBatch` or `foreach`."""


class ScriptQuery(Message):
    name: str
    sources: list[str]
    state: list[str]
    output_mode: str
    trigger: dict[str, Any]
    sink: ScriptQuerySink


class ScriptDescribed(Message):
    """The queries of a script, in the order in which it starts them."""

    kind: Literal["script_described"] = "script_described"
    queries: list[ScriptQuery]


RefusalReason = Literal[
    "bad_script",
    "gone",
    "unknown_state",
    "bad_key",
    "bad_graph",
    "not_adoptable",
    "unreadable",
    "not_in_time",
    "internal",
]


class Refusal(Message):
    kind: Literal["refusal"] = "refusal"
    reason: RefusalReason
    message: str
    """One line."""


AnswerBody = Annotated[
    InspectorReady
    | States
    | Rows
    | KeyGroupCounts
    | Tried
    | Analysed
    | Adopted
    | ScriptDescribed
    | Refusal,
    Field(discriminator="kind"),
]


class Answer(Message):
    id: int
    body: AnswerBody
