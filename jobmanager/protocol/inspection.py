"""The protocol between a JobManager and its inspector: each message is a line of JSON.

The inspector is a child process with a small Spark session of its own. It reads the state in
checkpoints and savepoints and the rows of sinks, which the JobManager cannot do without Spark.

    JobManager ── Question ──▶ standard input      one at a time, each with its id
    standard output ── Answer ──▶ JobManager       the same id; first `InspectorReady`, id 0

The end of its standard input is the end of the inspector.
"""

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from jobmanager.protocol.messages import Message, PathRoots

MOST_ROWS = 1000
"""The most rows in one answer."""
MOST_SINK_ROWS = 100


class Place(Message):
    """A checkpoint or a savepoint, and the job graph it belongs to."""

    root: str
    """The file: URI that the locations in its manifest are relative to."""
    manifest: str
    """The manifest, relative to `root`."""
    graph: dict[str, Any]
    """The job-graph document."""


# ── questions ─────────────────────────────────────────────────────────────────


class ListStates(Message):
    """List the states, with their columns."""

    kind: Literal["list_states"] = "list_states"
    place: Place


class StateRef(Message):
    """One state of one vertex. A vertex that is in two regions has its state in each."""

    region: str
    vertex: str
    name: str


class ReadRows(Message):
    """Read rows of a state, ordered by subtask and key: the rows of one key, or all."""

    kind: Literal["read_rows"] = "read_rows"
    place: Place
    state: StateRef
    key: str | None = None
    """The value of the only key column, or a JSON object of key columns; None: all keys."""
    subtask: int = 0
    """Where to continue: the subtask, and how many of its rows were read already."""
    skip: int = 0
    limit: int = Field(100, ge=1, le=MOST_ROWS)


class CountKeyGroups(Message):
    """Count the rows and bytes of a state in each key group."""

    kind: Literal["count_key_groups"] = "count_key_groups"
    place: Place
    state: StateRef


class TryGraph(Message):
    """Try whether Spark can continue from a snapshot with another job graph: on a copy, with a
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
    """Let Spark analyse a job graph, for its faults and physical plans."""

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
    """The job-graph document that shall continue from it."""
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


class ReadSinkRows(Message):
    """Read the newest rows that a job has written to a sink."""

    kind: Literal["read_sink_rows"] = "read_sink_rows"
    graph: dict[str, Any]
    job: UUID
    vertex: str
    limit: int = Field(20, ge=1, le=MOST_SINK_ROWS)
    parallelism: int
    data_root: str
    """What relative paths in the graph are relative to."""
    storage: str | None = None
    """Where the graph's artifacts are, a file: URI."""
    allowed_paths: PathRoots | None = None
    """What the graph may name; None: anything."""


class DescribeScript(Message):
    """Run a script up to where it waits for its queries, and describe them. No query is started."""

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
    | ReadSinkRows
    | DescribeScript,
    Field(discriminator="kind"),
]


class Question(Message):
    id: int
    within_ms: int
    """Time limit: a later answer is not used."""
    body: QuestionBody


# ── answers ───────────────────────────────────────────────────────────────────


class InspectorReady(Message):
    """The Spark session is open."""

    kind: Literal["ready"] = "ready"
    spark_version: str


class StateColumn(Message):
    name: str
    type: str
    """The type in Spark's DDL."""
    spark_name: str
    """Spark's name of the column in its state."""


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
    """None: the vertex has no key, or Spark does not partition this state by key."""
    subtask: int
    """The state partition in which Spark found the row."""


class Rows(Message):
    kind: Literal["rows"] = "rows"
    rows: list[StateRow]
    next_subtask: int | None
    """None: there are no more rows."""
    next_skip: int = 0


class KeyGroupCount(Message):
    key_group: int | None
    subtask: int
    rows: int
    bytes: int
    """Size of keys and values as Spark serialises them."""


class KeyGroupCounts(Message):
    kind: Literal["key_group_counts"] = "key_group_counts"
    max_parallelism: int
    groups: list[KeyGroupCount]
    """The key groups that have rows."""


class StateSchema(Message):
    """The columns that Spark keeps, as DDL, with Spark's names."""

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
    """The snapshot has no state of the region, so it was only planned."""
    drops_state: bool = False
    """The snapshot has keyed state of the region, but the graph has no keyed vertex in it any more:
    it was tried without that state.
    """
    accepted: bool
    error: str | None = None
    """Spark's reason, in one line."""
    vertex: str | None = None
    """The vertex that the error is about, if known."""
    states: list[StateChange]


class Tried(Message):
    """The results for every region of the graph, in the order of its sinks."""

    kind: Literal["tried"] = "tried"
    regions: list[TriedRegion]


class AnalysisFault(Message):
    vertex: str | None
    field: str
    """Empty: the fault is in the vertex as a whole."""
    message: str


class SparkPlan(Message):
    region: str
    text: str


class Analysed(Message):
    kind: Literal["analysed"] = "analysed"
    faults: list[AnalysisFault]
    plans: list[SparkPlan]
    """The plans of the regions without a fault."""


class Adopted(Message):
    """The savepoint is complete."""

    kind: Literal["adopted"] = "adopted"
    batch: int
    """The last committed batch of the query."""
    provider: str
    """The state store provider of the query."""
    partitions: int | None
    """The number of state partitions of the query."""
    was_rewritten: bool
    """Whether the state was rewritten; False: it already had the right form, and was copied."""


class SinkColumn(Message):
    name: str
    type: str
    """The type in Spark's DDL."""


class SinkRows(Message):
    kind: Literal["sink_rows"] = "sink_rows"
    columns: list[SinkColumn]
    rows: list[dict[str, Any]]
    """Of each row its columns; a column that is NULL is None."""
    origin: str
    """What was read, for users."""


class ScriptQuerySink(Message):
    """What a query writes to, in Spark's terms."""

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
    "not_readable",
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
    | SinkRows
    | ScriptDescribed
    | Refusal,
    Field(discriminator="kind"),
]


class Answer(Message):
    id: int
    body: AnswerBody
