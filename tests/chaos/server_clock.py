"""`headgate serve` with a wall clock that can be stepped: `python -m tests.chaos.server_clock`.

A test cannot set the clock of the machine. So this program puts a clock of its own in the places in
which a JobManager looks at the wall clock (`test_server_clock.py` finds any other place): the time
of the machine, and the seconds that the test has written to a file.
"""

import os
import time
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

from jobmanager.command import main
from jobmanager.services import clock

STEP_FILE = "HEADGATE_TEST_CLOCK_STEP"
"""A variable with the path of the file."""

_machine_time = time.time


def step(file: Path, by: timedelta) -> None:
    """Step the clock of the servers that use this file; they notice at their next look."""
    draft = file.with_suffix(".new")
    draft.write_text(str(by.total_seconds()))
    draft.replace(file)


def _stepped_by() -> float:
    try:
        return float(Path(os.environ[STEP_FILE]).read_text())
    except FileNotFoundError:
        return 0.0


class SteppedDatetime(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime.fromtimestamp(_machine_time() + _stepped_by(), tz or UTC)


def install() -> None:
    vars(clock)["datetime"] = SteppedDatetime
    time.time = lambda: _machine_time() + _stepped_by()


if __name__ == "__main__":
    install()
    main()
