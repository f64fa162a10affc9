"""Recognises failures of Kafka sources and sinks, and says what to do."""

import re
from collections.abc import Iterator, Sequence

from jobmanager.core.life.failure import FailureKind
from taskrunner.core.failures import Cause, Explanation

UNREADABLE = "HEADGATE_UNREADABLE_RECORD"
"""Begins the message with which a query fails at a record that cannot be decoded."""
_RECORD = re.compile(rf"{UNREADABLE} (\S+) (\S+) (\d+) (\d+) ?([^\n]*)")
_PARTITION = re.compile(r"\b([A-Za-z0-9._-]+)-(\d+)\b")
_LOST = re.compile(
    r"KAFKA_DATA_LOSS|data may have been lost|OffsetOutOfRangeException|Offsets? out of range",
    re.IGNORECASE,
)
_GONE = re.compile(
    r"UnknownTopicOrPartition|does not host this topic-partition"
    r"|Topic\(?s?\)? \S* ?(?:is|are) not present in metadata|topic.*(?:was|were|is) deleted"
    r"|partitions? .* (?:are|is) gone|NoOffsetForPartition",
    re.IGNORECASE,
)
_OURS = ("RewindRefused", "MarkerLost")


def explain(causes: Sequence[Cause]) -> Explanation | None:
    """What a chain of causes, the outermost first, means; None: Kafka is not the reason."""
    return next(_explanations(causes), None)


def _explanations(causes: Sequence[Cause]) -> Iterator[Explanation]:
    for cause in causes:
        if cause.name in _OURS:
            yield Explanation(FailureKind.INVALID_JOB, cause.message, is_restartable=False)
    text = "\n".join(f"{cause.name}: {cause.message}" for cause in causes)
    if found := _RECORD.search(text):
        yield _unreadable(*found.groups())
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
