"""The inspector as a process: it starts when asked, ends when idle, and with whoever asked."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from jobmanager.core.errors import InspectorUnavailable
from jobmanager.launchers.inspector import LocalInspector
from jobmanager.protocol.inspection import ListStates, Place, Refusal

pytestmark = pytest.mark.anyio
MINUTE = timedelta(minutes=1)


@pytest.fixture
async def inspector(tmp_path: Path) -> AsyncIterator[LocalInspector]:
    made = LocalInspector(
        tmp_path / "home",
        tmp_path / "scratch",
        tmp_path / "classes",
        idle=timedelta(seconds=2),
        start_timeout=timedelta(minutes=2),
    )
    yield made
    await made.close()


def a_question(tmp_path: Path) -> ListStates:
    place = Place(root=(tmp_path / "nowhere").as_uri(), manifest="manifest.json", graph={})
    return ListStates(place=place)


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


async def test_it_answers_in_turn_and_ends_when_it_is_idle(
    inspector: LocalInspector, tmp_path: Path
) -> None:
    assert inspector.status().state == "stopped"
    asked = [inspector.ask(a_question(tmp_path), MINUTE) for _ in range(3)]
    for answer in await asyncio.gather(*asked):
        assert isinstance(answer, Refusal)
        assert answer.reason == "gone"
    status = inspector.status()
    assert (status.state, status.spark_version) == ("ready", "4.3.0")
    assert status.pid is not None
    processes = family(status.pid)
    assert len(processes) >= 2  # with its JVM
    await asyncio.to_thread(psutil.wait_procs, processes, timeout=60)
    assert alive(processes) == []
    await inspector.close()
    assert inspector.status().state == "stopped"
    assert list((tmp_path / "scratch").glob("*/")) == []


async def test_a_question_whose_time_is_over_before_its_turn_is_told_so(
    inspector: LocalInspector, tmp_path: Path
) -> None:
    first = asyncio.create_task(inspector.ask(a_question(tmp_path), MINUTE))
    await asyncio.sleep(0)
    with pytest.raises(InspectorUnavailable, match="other questions about state took more"):
        await inspector.ask(a_question(tmp_path), timedelta(seconds=0.1))
    first.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await first
    assert inspector.status().state == "stopped"


async def test_an_inspector_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "scratch").write_text("not a directory")
    broken = LocalInspector(
        tmp_path / "home", tmp_path / "scratch", tmp_path / "classes", MINUTE, MINUTE
    )
    with pytest.raises(InspectorUnavailable, match=r"exit code 1.*(Exists|NotADirectory)"):
        await broken.ask(a_question(tmp_path), MINUTE)
    await broken.close()


@pytest.mark.long
def test_it_ends_with_its_input_even_while_spark_starts(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "taskrunner.inspector", "--scratch", str(tmp_path)]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        )
    started = psutil.Process(process.pid)
    while not started.children():  # its JVM
        assert process.poll() is None, (tmp_path / "log").read_text()
    processes = family(process.pid)
    process.communicate(timeout=120)
    psutil.wait_procs(processes, timeout=60)
    assert alive(processes) == []
