from jobmanager.core.ids import AttemptNumber, CheckpointNumber
from taskrunner.core.restore import (
    CompletedCheckpoint,
    FromAttempt,
    FromCheckpoint,
    FromSavepoint,
    FromScratch,
    PreviousAttempt,
    SavedRegion,
    batch_of,
    choose,
    last_kept_batch,
)


def previous(batch: int, pending: bool = False, fault: str | None = None) -> PreviousAttempt:
    return PreviousAttempt(AttemptNumber(2), batch, pending, fault)


def completed(batch: int | None) -> CompletedCheckpoint:
    return CompletedCheckpoint(CheckpointNumber(7), batch)


def saved(batch: int | None = 4, is_known: bool = True) -> SavedRegion:
    return SavedRegion("savepoint 3f2a", is_known, batch)


def test_a_job_with_nothing_of_its_own_starts_from_its_savepoint() -> None:
    choice = choose(None, None, saved(4))

    assert choice == FromSavepoint(
        4, "savepoint 3f2a is at batch 4; the job has committed nothing since"
    )
    assert (batch_of(choice), last_kept_batch(choice)) == (4, 4)


def test_a_job_that_has_gone_on_never_goes_back_to_its_savepoint() -> None:
    begun = PreviousAttempt(AttemptNumber(1), None, has_pending_batch=True)

    assert isinstance(choose(previous(4), None, saved(4)), FromAttempt)
    assert isinstance(choose(begun, None, saved(4)), FromAttempt)
    assert isinstance(choose(None, completed(5), saved(4)), FromCheckpoint)


def test_a_job_whose_only_attempt_is_damaged_goes_back_to_its_savepoint_and_says_so() -> None:
    choice = choose(previous(9, fault="MissingState: 3.zip"), None, saved(4))

    assert isinstance(choice, FromSavepoint)
    assert "attempt 2 is not usable: MissingState: 3.zip" in choice.why


def test_a_region_that_the_savepoint_has_not_starts_from_scratch_and_says_so() -> None:
    assert choose(None, None, saved(is_known=False)) == FromScratch(
        "savepoint 3f2a does not have this region"
    )
    assert choose(None, None, saved(None)) == FromScratch(
        "savepoint 3f2a was taken before the first batch"
    )


def test_the_last_batch_of_the_previous_attempt_wins_when_it_is_newer() -> None:
    choice = choose(previous(9), completed(5))

    assert choice == FromAttempt(
        AttemptNumber(2), 9, False, "attempt 2 committed batch 9, checkpoint 7 is at batch 5"
    )


def test_at_the_same_batch_the_attempt_wins_since_it_knows_the_batch_it_had_begun() -> None:
    choice = choose(previous(5, pending=True), completed(5))

    assert isinstance(choice, FromAttempt)
    assert choice.replays


def test_the_checkpoint_wins_when_it_is_newer() -> None:
    choice = choose(previous(3), completed(5))

    assert isinstance(choice, FromCheckpoint)
    assert choice.why == "checkpoint 7 is at batch 5, attempt 2 committed batch 3, which is older"


def test_a_directory_that_lacks_state_is_not_trusted_and_the_choice_says_so() -> None:
    choice = choose(previous(9, fault="MissingState: 3.zip"), completed(5))

    assert isinstance(choice, FromCheckpoint)
    assert choice.batch == 5
    assert "attempt 2 is not usable: MissingState: 3.zip" in choice.why


def test_with_nothing_at_all_the_region_starts_from_scratch() -> None:
    assert choose(None, None) == FromScratch("there is no checkpoint and no committed batch")


def test_a_checkpoint_before_the_first_batch_is_scratch() -> None:
    assert isinstance(choose(None, completed(None)), FromScratch)


def test_output_after_the_restored_batch_does_not_stay() -> None:
    assert last_kept_batch(choose(None, completed(5))) == 5
    assert last_kept_batch(choose(previous(9), None)) == 9
    assert last_kept_batch(choose(None, None)) == -1


def test_output_of_a_batch_that_is_replayed_with_the_same_range_stays() -> None:
    assert last_kept_batch(choose(previous(9, pending=True), None)) == 10


def test_a_first_batch_that_had_begun_is_replayed_with_the_same_range() -> None:
    previous = PreviousAttempt(AttemptNumber(1), None, has_pending_batch=True)

    choice = choose(previous, None)

    assert isinstance(choice, FromAttempt)
    assert choice.why == "attempt 1 had begun its first batch; there is no checkpoint"
    assert (batch_of(choice), last_kept_batch(choice)) == (None, 0)


def test_a_checkpoint_is_newer_than_a_first_batch_that_had_begun() -> None:
    previous = PreviousAttempt(AttemptNumber(3), None, has_pending_batch=True)

    choice = choose(previous, CompletedCheckpoint(CheckpointNumber(2), 5))

    assert isinstance(choice, FromCheckpoint)
    assert choice.batch == 5
