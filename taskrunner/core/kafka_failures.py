"""Recognises failures of Kafka sources and sinks, and says what to do."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jobmanager.core.life.failure import FailureKind
from taskrunner.core.failures import Cause, Explanation

UNREADABLE = "HEADGATE_UNREADABLE_RECORD"
"""Begins the message with which a query fails at a record that cannot be decoded."""
NULL_IN_AVRO = "HEADGATE_NULL_IN_AVRO"
"""Begins the message with which a query fails at a null in a field of an Avro schema without
nulls.
"""
UNKNOWN_SCHEMA = "HEADGATE_UNKNOWN_SCHEMA"
"""Begins the message with which a query fails at a record of an unknown schema."""
_UNKNOWN = re.compile(rf"{UNKNOWN_SCHEMA} (\S+) (\S+) (\d+) (\d+) (\d+)")
_NULL = re.compile(rf"{NULL_IN_AVRO} (\S+) (\w+)")
_RECORD = re.compile(rf"{UNREADABLE} (\S+) (\S+) (\d+) (\d+) ?([^\n]*)")
_PARTITION = re.compile(r"\b([A-Za-z0-9._-]+)-(\d+)\b")
_LOST = re.compile(
    r"KAFKA_DATA_LOSS|data may have been (?:lost|missed)|OffsetOutOfRangeException"
    r"|Offsets? out of range",
    re.IGNORECASE,
)
_GONE = re.compile(
    r"UnknownTopicOrPartition|does not host this topic-partition"
    r"|Topic\(?s?\)? \S* ?(?:is|are) not present in metadata|topic.*(?:was|were|is) deleted"
    r"|partitions? .* (?:are|is) gone|NoOffsetForPartition",
    re.IGNORECASE,
)
_OURS = ("RewindRefused", "MarkerLost")


@dataclass(frozen=True, slots=True)
class UnknownSchema:
    """A record was met whose schema has an id that the attempt does not know."""

    vertex: str
    topic: str
    partition: int
    offset: int
    schema: int


def unknown_schema(causes: Sequence[Cause]) -> UnknownSchema | None:
    found = _UNKNOWN.search("\n".join(cause.message for cause in causes))
    if found is None:
        return None
    vertex, topic, partition, offset, schema = found.groups()
    return UnknownSchema(vertex, topic, int(partition), int(offset), int(schema))


def explain(causes: Sequence[Cause]) -> Explanation | None:
    """What a chain of causes, the outermost first, means; None: Kafka is not the reason."""
    return next(_explanations(causes), None)


def _explanations(causes: Sequence[Cause]) -> Iterator[Explanation]:
    for cause in causes:
        if cause.name in _OURS:
            yield Explanation(FailureKind.INVALID_JOB, cause.message, is_restartable=False)
        if cause.name == "RegistryRefused":
            yield Explanation(FailureKind.INFRASTRUCTURE, cause.message, is_restartable=True)
    if met := unknown_schema(causes):
        yield _of_unknown_schema(met)
    text = "\n".join(f"{cause.name}: {cause.message}" for cause in causes)
    if found := _RECORD.search(text):
        yield _unreadable(*found.groups())
    if found := _NULL.search(text):
        yield _null_in_avro(*found.groups())
    if "kafka" not in text.lower():
        return
    if _GONE.search(text):
        yield _gone(text)
    if _LOST.search(text):
        yield _lost(text)


def _unreadable(vertex: str, topic: str, partition: str, offset: str, value: str) -> Explanation:
    return Explanation(
        FailureKind.DATA,
        f"source {vertex}: the record at offset {offset} of partition {partition} of topic {topic} "
        f"is not as the source's format and schema say: {value!r}. Correct the schema and upgrade "
        "the job, or leave such records out with on_error: skip",
        is_restartable=False,
    )


def _of_unknown_schema(met: UnknownSchema) -> Explanation:
    return Explanation(
        FailureKind.DATA,
        f"source {met.vertex}: the record at offset {met.offset} of partition {met.partition} of "
        f"topic {met.topic} was written with schema {met.schema}, which was not known when the "
        "attempt began. The next attempt asks the registry for it",
        is_restartable=True,
    )


def _null_in_avro(vertex: str, field: str) -> Explanation:
    return Explanation(
        FailureKind.DATA,
        f"sink {vertex}: a row has a null in {field!r}, and the Avro schema has no null there. "
        f"Filter such rows or replace the null before the sink, or allow it in the schema "
        f'(["null", …]), and upgrade the job',
        is_restartable=False,
    )


def _lost(text: str) -> Explanation:
    return Explanation(
        FailureKind.DATA,
        f"records that were not read yet are no longer in Kafka{_where(text)}: they expired by the "
        "topic's retention, or were deleted. Start the job from a newer savepoint or without "
        "state, or let it continue after the gap with options: {failOnDataLoss: false}",
        is_restartable=False,
    )


def _gone(text: str) -> Explanation:
    return Explanation(
        FailureKind.DATA,
        f"a topic or partition does not exist{_where(text)}: it was deleted, or never created, or "
        "its name is misspelt. Create the topic; if a topic that was read before was created anew, "
        "start the job without state, since its offsets begin again",
        is_restartable=True,
    )


def _where(text: str) -> str:
    """The first line that names a partition, as far as it can be found."""
    found = _PARTITION.search(text)
    return f" ({found[0]})" if found else ""
