"""The lag of a Kafka source, partition by partition."""

import pytest

from jobmanager.core.progress import PartitionLag
from taskrunner.core.kafka_lag import UnreadRecords, lags, offsets_in, records_between

NOW = 1_000_000


def test_offsets_are_read_from_sparks_text_and_from_its_log() -> None:
    expected = {("bids", 0): 5, ("bids", 1): 7}

    assert offsets_in('{"bids":{"0":5,"1":7}}') == expected
    assert offsets_in({"bids": {"0": 5, "1": 7}}) == expected


@pytest.mark.parametrize("document", [None, "null", "", "17", "not json", 17, {"bids": 3}])
def test_what_is_no_offset_of_kafka_gives_no_lag(document: object) -> None:
    assert offsets_in(document) == {}


def test_the_lag_is_what_was_not_read_and_the_age_of_its_first_record() -> None:
    unread = UnreadRecords()
    unread.measured({("bids", 0): 5}, {("bids", 0): NOW - 2500})

    found = lags({("bids", 0): 5, ("bids", 1): 7}, {("bids", 0): 9, ("bids", 1): 7}, unread, NOW)

    assert found == [
        PartitionLag("bids-0", position=5, end=9, rows=4, seconds=2.5),
        PartitionLag("bids-1", position=7, end=7, rows=0, seconds=0.0),
    ]


def test_the_lag_in_seconds_grows_while_nothing_is_read() -> None:
    unread = UnreadRecords()
    unread.measured({("bids", 0): 0}, {("bids", 0): NOW})

    [later] = lags({("bids", 0): 0}, {("bids", 0): 1}, unread, NOW + 60_000)

    assert later.seconds == 60.0


def test_a_partition_that_was_not_measured_has_a_lag_in_rows_only() -> None:
    [new] = lags({}, {("bids", 4): 3}, UnreadRecords(), NOW)

    assert (new.rows, new.seconds) == (3, None)


def test_a_record_that_is_dated_in_the_future_is_not_behind() -> None:
    unread = UnreadRecords()
    unread.measured({("bids", 0): 0}, {("bids", 0): NOW + 5000})

    assert lags({("bids", 0): 0}, {("bids", 0): 1}, unread, NOW)[0].seconds == 0.0


def test_records_of_a_batch_are_counted_over_all_partitions_new_ones_included() -> None:
    start, end = {"bids": {"0": 5, "1": 7}}, {"bids": {"0": 9, "1": 7, "2": 3}}

    assert records_between(start, end) == 4 + 0 + 3


def test_a_topic_that_was_made_anew_counts_nothing_backwards() -> None:
    assert records_between({"bids": {"0": 500}}, {"bids": {"0": 2}}) == 0
