from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core import durations


@given(st.integers(min_value=0, max_value=10**9))
def test_what_is_rendered_can_be_read_back(milliseconds: int) -> None:
    duration = timedelta(milliseconds=milliseconds)

    assert durations.parse(durations.render(duration)) == duration


@pytest.mark.parametrize("text", ["", "10", "s", "-1s", "1.5s", "1w", "1 s", "10 seconds"])
def test_anything_else_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(ValueError, match="write 500ms, 10s, 5m, 1h or 1d"):
        durations.parse(text)
