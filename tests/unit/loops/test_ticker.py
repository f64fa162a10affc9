"""How often a loop goes round."""

import pytest

from jobmanager.loops.ticker import pause_after


@pytest.mark.parametrize(
    ("took", "share", "pause"),
    [
        (0.01, 0.1, 1.0),  # quick: as often as it is to be
        (0.5, 0.1, 4.5),  # half a second in five
        (30.0, 1.0, 1.0),  # all the time it wants
    ],
)
def test_a_round_has_its_share_of_the_time(took: float, share: float, pause: float) -> None:
    assert pause_after(took, every=1.0, share=share) == pytest.approx(pause)
