"""Who may write to an output whose rows carry versions: the rules, without a store."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from taskrunner.core import writer_record
from taskrunner.core.writer_record import (
    AlreadyWritten,
    BatchOver,
    RecordLost,
    Refusal,
    WriterRecord,
    WriterReplaced,
)

JOB, OTHER, SINK = "job", "other", "out"
RECORD = WriterRecord(JOB, SINK, 3, "token", version=70, batch=8, done=7)


def test_the_first_attempt_finds_no_record_and_makes_it() -> None:
    assert writer_record.take_over(None, JOB, SINK, 1, "a") == WriterRecord(JOB, SINK, 1, "a")


def test_a_later_attempt_takes_over_and_keeps_what_is_written_and_the_version() -> None:
    assert writer_record.take_over(RECORD, JOB, SINK, 4, "b") == WriterRecord(
        JOB, SINK, 4, "b", version=70, batch=None, done=7
    )


def test_an_earlier_attempt_is_refused() -> None:
    assert writer_record.take_over(RECORD, JOB, SINK, 2, "b") == WriterReplaced(JOB, 3)


def test_another_job_takes_over_at_its_first_attempt_and_has_written_nothing() -> None:
    assert writer_record.take_over(RECORD, OTHER, SINK, 1, "b") == WriterRecord(
        OTHER, SINK, 1, "b", version=70
    )


def test_a_batch_gets_the_time_as_version_or_more_than_the_last() -> None:
    ahead = writer_record.begin(RECORD, "token", 9, clock=1000)
    behind = writer_record.begin(RECORD, "token", 9, clock=5)

    assert isinstance(ahead, WriterRecord)
    assert isinstance(behind, WriterRecord)
    assert (ahead.version, ahead.batch) == (1000, 9)
    assert behind.version == 71


def test_a_batch_that_was_written_is_not_opened_until_the_job_goes_back() -> None:
    assert writer_record.begin(RECORD, "token", 7, 0) == AlreadyWritten()

    gone_back = writer_record.go_back(RECORD, "token", 4)
    assert isinstance(gone_back, WriterRecord)
    assert isinstance(writer_record.begin(gone_back, "token", 5, 0), WriterRecord)
    assert writer_record.go_back(RECORD, "token", 7) == RECORD


def test_an_end_may_be_repeated_and_only_the_open_batch_ends() -> None:
    ended = writer_record.end(RECORD, "token", 8, 70)
    assert ended == WriterRecord(JOB, SINK, 3, "token", version=70, batch=None, done=8)
    assert writer_record.end(ended, "token", 8, 70) == ended
    assert writer_record.end(RECORD, "token", 9, 70) == BatchOver()
    assert writer_record.end(RECORD, "token", 8, 69) == BatchOver()


def test_a_lost_record_and_another_token_are_told_apart() -> None:
    for found, refused in ((None, RecordLost()), (RECORD, WriterReplaced(JOB, 3))):
        assert writer_record.begin(found, "mine", 9, 0) == refused
        assert writer_record.end(found, "mine", 8, 70) == refused
        assert writer_record.go_back(found, "mine", 0) == refused
        assert writer_record.refusal(found, "mine", 70) == refused


def test_rows_are_written_only_with_the_version_of_the_open_batch() -> None:
    assert writer_record.refusal(RECORD, "token", 70) is None
    assert writer_record.refusal(RECORD, "token", 69) == BatchOver()
    ended = writer_record.end(RECORD, "token", 8, 70)
    assert isinstance(ended, WriterRecord)
    assert writer_record.refusal(ended, "token", 70) == BatchOver()


@dataclass
class Store:
    """A store with one key, which keeps the row with the greater version."""

    version: int = 0
    value: int = -1

    def put(self, version: int, value: int) -> None:
        if version >= self.version:
            self.version, self.value = version, value


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["take over", "go back", "begin", "begin", "write", "write", "end"]),
        st.integers(0, 4),  # which batch, or the rows of which opened batch
        st.integers(0, 30),  # what the clock of the attempt says
        st.sampled_from([False, False, False, True]),  # whether a replaced attempt acts
    ),
    min_size=20,
    max_size=40,
)


def decide(
    step: str, now: WriterRecord, token: str, batch: int, clock: int
) -> WriterRecord | AlreadyWritten | Refusal:
    match step:
        case "go back":
            return writer_record.go_back(now, token, batch - 1)
        case "begin":
            return writer_record.begin(now, token, batch, clock)
        case _:
            return writer_record.end(now, token, batch, now.version)


@settings(max_examples=400)
@given(STEPS)
def test_a_row_never_replaces_a_row_of_a_batch_that_was_opened_later(
    steps: list[tuple[str, int, int, bool]],
) -> None:
    """Any order of what attempts may do, with clocks that say anything, and with rows that come at
    any time after their batch was opened.
    """
    store, attempt = Store(), 1
    record = writer_record.take_over(None, JOB, SINK, attempt, "1")
    assert isinstance(record, WriterRecord)
    opened: list[int] = []
    latest = -1
    for step, number, clock, is_stale in steps:
        if step == "take over":
            attempt += 1
            taken = writer_record.take_over(record, JOB, SINK, attempt, str(attempt))
            assert isinstance(taken, WriterRecord)
            record = taken
        elif step == "write":
            if opened:
                which = number % len(opened)
                store.put(opened[which], which)
                latest = max(latest, which)
        elif is_stale:
            refused = decide(step, record, str(attempt - 1), number, clock)
            assert refused == WriterReplaced(JOB, attempt)
        else:
            decided = decide(step, record, str(attempt), number, clock)
            if isinstance(decided, WriterRecord):
                if step == "begin":
                    opened.append(decided.version)
                record = decided
        # of the batches that have written the key, the batch that was opened last
        assert store.value == latest
