"""In a shared process each runner has a log, whichever of its threads says something."""

import json
from contextvars import copy_context
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from jobmanager.files.log_rotation import LogLimits
from taskrunner import log_rotation, logs
from taskrunner.context_thread import ContextThread
from taskrunner.runner_log import RunnerLog


class Speaker(ContextThread):
    def __init__(self, text: str) -> None:
        super().__init__("speaker")
        self._text = text

    def work(self) -> None:
        logs.get("test").info(self._text)


@pytest.fixture(autouse=True)
def _configured() -> None:
    logs.configure()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def serve(path: Path, runner: str) -> None:
    """As a runner's own thread: it speaks, makes threads that speak, and is called by others."""
    with logs.into(path, runner=runner):
        logs.get("test").info("first")
        speaker = Speaker("second")
        speaker.start()
        speaker.join()
        context = copy_context()
        caller = Thread(target=context.run, args=(logs.get("test").info, "third"))
        caller.start()
        caller.join()


def test_each_runner_has_its_lines_and_its_name_in_them(tmp_path: Path) -> None:
    runners = [Thread(target=serve, args=(tmp_path / name, name)) for name in ("one", "other")]
    for one in runners:
        one.start()
    for one in runners:
        one.join()

    for name in ("one", "other"):
        found = lines(tmp_path / name)
        assert [one["event"] for one in found] == ["first", "second", "third"]
        assert {one["runner"] for one in found} == {name}


def test_outside_of_runners_lines_go_to_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(tmp_path / "one", "one")
    logs.get("test").info("of the process")

    assert "of the process" in capsys.readouterr().err
    assert len(lines(tmp_path / "one")) == 3


def test_a_full_log_of_a_runner_is_rotated_while_it_is_written(tmp_path: Path) -> None:
    log = tmp_path / "runner.log"
    with logs.into(log, runner="one"):
        logs.get("test").info("before", text="x" * 2000)

        log_rotation.rotate_all(RunnerLog(tmp_path / "nowhere"), LogLimits(1000, 1), [log])
        logs.get("test").info("after")

    assert [one["event"] for one in lines(log)] == ["after"]
    assert [one["event"] for one in lines(tmp_path / "runner.log.1")] == ["before"]
