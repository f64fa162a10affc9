from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.ids import CheckpointNumber
from jobmanager.core.life.retention import superfluous


@given(st.sets(st.integers(min_value=1, max_value=100)), st.integers(min_value=0, max_value=10))
def test_the_newest_are_kept_and_never_none(numbers: set[int], retained: int) -> None:
    completed = [CheckpointNumber(n) for n in numbers]

    gone = set(superfluous(completed, retained))
    kept = numbers - gone

    assert len(kept) == min(len(numbers), max(retained, 1))
    assert not gone or max(gone) < min(kept)
