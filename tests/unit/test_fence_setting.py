"""Settings of a server that do not fit together are refused at its start, with what to do."""

from datetime import timedelta

import pytest
from pydantic import ValidationError

from jobmanager.settings import Settings


@pytest.mark.parametrize(
    "given",
    [{}, {"fence_after": "15s"}, {"fence_after": "PT2M"}, {"fence_after": timedelta(minutes=5)}],
)
def test_a_fence_time_of_half_the_heartbeat_timeout_will_do(given: dict[str, object]) -> None:
    assert Settings(**given).fence_after >= timedelta(seconds=15)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "least"),
    [
        ({"fence_after": "14s"}, "15 s"),
        ({"heartbeat_timeout": timedelta(minutes=5)}, "150 s"),
        ({"heartbeat_interval": timedelta(seconds=20)}, "100 s"),
    ],
)
def test_a_fence_time_that_a_few_lost_heartbeats_would_use_up_is_refused(
    given: dict[str, object], least: str
) -> None:
    with pytest.raises(ValidationError, match=f"has to be at least {least}: half of heartbeat"):
        Settings(**given)  # type: ignore[arg-type]


def test_what_is_no_duration_is_refused_with_an_example() -> None:
    with pytest.raises(ValidationError, match="'soon' is not a duration: write 500ms, 10s"):
        Settings(fence_after="soon")
