from pathlib import Path

import pytest

from taskrunner.snapshots.layout import JobLayout


@pytest.fixture
def layout(tmp_path: Path) -> JobLayout:
    directory = tmp_path / "jobs" / "job"
    directory.mkdir(parents=True)
    return JobLayout(directory)
