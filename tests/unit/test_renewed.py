"""What tests share is made anew after a failure; what cannot be made fails only who asked."""

import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """
from contextlib import contextmanager

import pytest

from tests.support.renewed import renewed

made = []


@contextmanager
def make():
    made.append("made")
    if FAILS_TO_START and len(made) == 1:
        raise OSError("not this time")
    yield len(made)
    made.append("ended")


@pytest.fixture(scope="module")
def shared():
    with renewed(make) as found:
        yield found


@pytest.fixture
def lent(shared, request):
    with shared.lent_to(request.node) as found:
        yield found


def test_first(lent):
    assert lent == 1


def test_second_fails(lent):
    assert False


def test_third(lent):
    assert made[-1] == "made"
    assert made.count("ended") == 1
"""
HOOK = "from tests.support.renewed import pytest_runtest_makereport"


@pytest.mark.parametrize(
    ("fails_to_start", "told"),
    [(False, "1 failed, 2 passed"), (True, "1 failed, 1 passed, 1 error")],
)
def test_a_failure_is_not_carried_on(tmp_path: Path, fails_to_start: bool, told: str) -> None:
    (tmp_path / "conftest.py").write_text(HOOK)
    (tmp_path / "test_it.py").write_text(f"FAILS_TO_START = {fails_to_start}\n{MODULE}")

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )

    assert f"{told} in" in ended.stdout, ended.stdout + ended.stderr
