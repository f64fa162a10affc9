"""Failures of Kafka get a name, and say what to do."""

import pytest

from jobmanager.core.life.failure import FailureKind
from taskrunner.core.failures import Cause
from taskrunner.core.kafka_failures import NULL_IN_AVRO, UNREADABLE, explain


def test_a_record_that_cannot_be_decoded_is_named_by_its_offset() -> None:
    found = explain(
        [Cause("SparkRuntimeException", f"[USER_RAISED] {UNREADABLE} bids orders 3 17 {{not json")]
    )

    assert found is not None
    assert found.kind is FailureKind.DATA
    assert not found.is_restartable
    assert "offset 17 of partition 3 of topic orders" in found.message
    assert "'{not json'" in found.message
    assert "on_error: skip" in found.message


@pytest.mark.parametrize(
    "message",
    [
        "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may have been lost",
        "OffsetOutOfRangeException: Fetch position 5 is out of range for partition orders-0",
    ],
)
def test_records_that_expired_are_a_failure_of_their_own(message: str) -> None:
    found = explain([Cause("StreamingQueryException", "org.apache.kafka"), Cause("X", message)])

    assert found is not None
    assert "no longer in Kafka" in found.message
    assert "failOnDataLoss" in found.message
    assert not found.is_restartable


def test_a_topic_that_is_gone_is_a_failure_of_its_own() -> None:
    causes = [
        Cause("ExecutionException", "org.apache.kafka.common.errors"),
        Cause("UnknownTopicOrPartitionException", "This server does not host this topic-partition"),
    ]

    found = explain(causes)

    assert found is not None
    assert "does not exist" in found.message
    assert "Create the topic" in found.message


@pytest.mark.parametrize("name", ["RewindRefused", "MarkerLost"])
def test_output_that_cannot_be_taken_back_ends_the_job(name: str) -> None:
    found = explain([Cause("RegionFailed", "region out failed"), Cause(name, "what to do")])

    assert found is not None
    assert found.kind is FailureKind.INVALID_JOB
    assert found.message == "what to do"
    assert not found.is_restartable


def test_other_failures_are_left_alone() -> None:
    assert explain([Cause("ArithmeticException", "[DIVIDE_BY_ZERO] topic")]) is None


def test_a_null_in_a_field_of_avro_that_has_none_is_named() -> None:
    found = explain([Cause("SparkRuntimeException", f"[USER_RAISED] {NULL_IN_AVRO} out price")])

    assert found is not None
    assert found.kind is FailureKind.DATA
    assert not found.is_restartable
    assert "sink out: a row has a null in 'price'" in found.message
