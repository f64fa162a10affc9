from hypothesis import given
from hypothesis import strategies as st

from taskrunner.core.stall_detector import QueryObservation, StallDetector

BUSY = QueryObservation(
    committed=3, reported="12:00:00", message="Processing new data", has_data=True
)
IDLE = QueryObservation(
    committed=3, reported="12:00:00", message="Waiting for data to arrive", has_data=False
)
ASKS = QueryObservation(3, "12:00:00", "Getting offsets from KafkaV2[…]", has_data=False)


def watched(*sights: tuple[float, QueryObservation]) -> float:
    stall_detector, unmoved = StallDetector(0), 0.0
    for now, sight in sights:
        unmoved = stall_detector.see(sight, now)
    return unmoved


def test_a_batch_that_runs_on_stands_still() -> None:
    assert watched((1, BUSY), (50, BUSY), (101, BUSY)) == 100


def test_a_commit_is_motion() -> None:
    committed = QueryObservation(4, BUSY.reported, BUSY.message, has_data=True)

    assert watched((1, BUSY), (100, committed), (101, committed)) == 1


def test_a_query_without_input_is_not_stuck() -> None:
    assert watched((1, IDLE), (1000, IDLE)) == 0


def test_a_source_that_does_not_answer_is_stuck() -> None:
    assert watched((1, IDLE), (2, ASKS), (90, ASKS)) == 89


def test_a_source_that_is_slow_to_list_is_not_stuck_as_long_as_spark_reports() -> None:
    later = QueryObservation(3, "12:00:30", ASKS.message, has_data=False)

    assert watched((1, ASKS), (30, later)) == 0


def test_a_batch_that_only_cleans_up_state_is_a_batch() -> None:
    cleans = QueryObservation(3, "", "No new data but cleaning up state", has_data=False)

    assert cleans.runs_batch
    assert watched((1, cleans), (100, cleans)) == 99


SIGHTS = st.sampled_from(
    [BUSY, IDLE, ASKS, QueryObservation(4, "12:00:10", "Processing new data", True)]
)


@given(st.lists(SIGHTS, min_size=1))
def test_it_never_counts_from_before_the_last_motion(sights: list[QueryObservation]) -> None:
    stall_detector, moved_at = StallDetector(0), 0
    before = None
    for now, sight in enumerate(sights, start=1):
        if before is None or sight == IDLE or sight.committed != before.committed:
            moved_at = now
        before = sight
        assert stall_detector.see(sight, now) <= now - moved_at
