"""The clock of `server_clock.py` is the one that JobManagers look at."""

import ast
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jobmanager.services import clock
from tests.chaos import server_clock

ROOT = Path(clock.__file__).parents[1]
NOT_OF_SERVERS = {"client", "demo.py", "demo_server.py", "demo_view.py"}
LOOKS = {"services/clock.py": "now", "launchers/local.py": "time", "launchers/temporary.py": "time"}
"""Where a JobManager looks at the wall clock, and by what: `datetime.now` or `time.time`."""


def wall_clock_calls(file: Path) -> set[str]:
    calls = [one.func for one in ast.walk(ast.parse(file.read_text())) if isinstance(one, ast.Call)]
    named = {(ast.unparse(one.value), one.attr) for one in calls if isinstance(one, ast.Attribute)}
    of_datetime = {"now", "utcnow", "today"}
    return {name for owner, name in named if owner.endswith("datetime") and name in of_datetime} | {
        name for owner, name in named if owner == "time" and name in ("time", "time_ns")
    }


def test_a_jobmanager_looks_at_the_wall_clock_only_where_it_can_be_stepped() -> None:
    found = {
        str(file.relative_to(ROOT)): calls
        for file in ROOT.rglob("*.py")
        if file.relative_to(ROOT).parts[0] not in NOT_OF_SERVERS
        if (calls := wall_clock_calls(file))
    }
    assert found == {name: {look} for name, look in LOOKS.items()}


def test_a_stepped_clock_is_wrong_by_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "step"
    monkeypatch.setenv(server_clock.STEP_FILE, str(file))
    monkeypatch.setattr(time, "time", time.time)  # put back afterwards, as is the other
    monkeypatch.setitem(vars(clock), "datetime", datetime)
    server_clock.install()

    for hours in (0, 5, -5):
        if hours:
            server_clock.step(file, timedelta(hours=hours))
        wrong_by = clock.utc_now() - datetime.now(UTC)
        assert abs(wrong_by - timedelta(hours=hours)) < timedelta(minutes=5)
        assert abs(time.time() - time.clock_gettime(time.CLOCK_REALTIME) - hours * 3600) < 300
