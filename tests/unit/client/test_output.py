"""What commands print in the forms that programs read, and the codes they end with."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import jobmanager.command  # noqa: F401 - all commands
from jobmanager.client import completion, display, errors, exit_codes
from jobmanager.client.cli import app, run
from jobmanager.client.output import names_of
from tests.support.answering_server import Answers, an_answering_server

JOB, OTHER = "3f" * 16, "4a" * 16
LINES = [
    {"jid": JOB, "name": "revenue", "state": "RUNNING", "start-time": 2, "duration": 5},
    {"jid": OTHER, "name": "costs", "state": "FAILED", "start-time": 1, "duration": 5},
]
ROOT = Path(__file__).parents[3]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
    with an_answering_server() as given:
        monkeypatch.setenv("HEADGATE_URL", given.url)
        given.of["GET /v1/jobs/overview"] = (200, {"jobs": LINES})
        yield given


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (LINES, [JOB, OTHER]),
        ({"jobid": "7", "state": "running"}, ["7"]),
        ({"id": "op", "result": {"savepoint": "9c", "path": "file:///x"}}, ["9c"]),
        ({"id": "op", "result": None}, ["op"]),
        ({"counts": {}, "history": [{"id": 3}, {"id": 2}]}, ["3", "2"]),
        ([{"name": "ci", "role": "viewer"}], ["ci"]),
        ({"dry_run": True}, []),
    ],
)
def test_the_names_in_an_answer(value: Any, names: list[str]) -> None:
    assert list(names_of(value)) == names


def test_the_same_answer_in_every_form(
    answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    def printed(*options: str) -> str:
        assert run(app, ["list", *options]) == 0
        return capsys.readouterr().out

    assert json.loads(printed("-o", "json")) == json.loads(printed("--json")) == LINES
    assert yaml.safe_load(printed("-o", "yaml")) == LINES
    assert printed("-o", "name").split() == [JOB, OTHER]
    assert printed("-o", "table") == printed()
    assert run(app, ["list", "--json", "-o", "yaml"]) == 1


def test_stop_prints_only_the_savepoint_for_a_script(
    answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    phases = [{"name": "savepoint", "started_at": "2026-11-16T12:00:00Z", "ended_at": None}]
    made = {"savepoint": "9c", "path": "file:///x"}
    done = {"id": "7", "kind": "stop", "status": "completed", "phases": phases, "result": made}
    answers.of[f"POST /v1/jobs/{JOB}/stop"] = (202, {"request-id": "7"})
    answers.of["GET /v1/operations/7"] = (200, done)

    assert run(app, ["stop", "revenue", "-q"]) == 0
    assert capsys.readouterr().out == "9c\n"
    answers.of["GET /v1/operations/7"] = (200, {**done, "status": "in_progress", "result": None})
    assert run(app, ["stop", JOB, "-q", "--wait", "0.01"]) == exit_codes.TIME_IS_UP
    assert capsys.readouterr().out == ""


def test_a_watch_prints_what_has_changed_until_it_is_interrupted(
    answers: Answers, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = [{**LINES[0], "state": "FINISHED"}]
    answers.of["GET /v1/jobs/overview"] = [
        (200, {"jobs": LINES}),
        (200, {"jobs": LINES}),
        (503, {"title": "No server leads", "type": "/problems/NoLeader"}),
        (200, {"jobs": changed}),
    ]
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr("jobmanager.client.client_typer.time.sleep", sleep)

    assert run(app, ["list", "--watch", "-o", "name"]) == exit_codes.INTERRUPTED

    out, err = capsys.readouterr()
    assert out.split() == [JOB, OTHER, JOB]
    assert "No server leads" in err
    assert pauses == [2.0] * 4


def test_no_colour_where_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")

    with display.console().capture() as shown:
        display.console().print("[green]RUNNING[/]")

    assert "\x1b" not in shown.get()


def test_live_jobs_are_completed_and_silence_is_no_error(answers: Answers) -> None:
    class Pressed:
        params: dict[str, Any] = {"url": answers.url}  # noqa: RUF012 - as Typer's context has it

    assert completion.job_names(Pressed(), "re") == ["revenue"]  # type: ignore[arg-type]
    assert completion.job_names(Pressed(), "3f") == [JOB]  # type: ignore[arg-type]
    Pressed.params = {"url": "http://127.0.0.1:1"}
    assert completion.job_names(Pressed(), "") == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.HeadgateError("x"), 1),
        (errors.InvalidRequest(422, "x"), 1),
        (errors.ServerNotReady(503, "x"), 3),
        (errors.UnknownJob("x"), 4),
        (errors.AmbiguousJob("x"), 1),
        (errors.MissingResource(404, "x"), 4),
        (errors.ConflictingRequest(409, "x"), 5),
        (errors.JobEnded("x", "failed"), 6),
        (errors.NotPermitted(403, "x"), 7),
        (errors.WaitTimeout("x"), 124),
    ],
)
def test_each_error_has_its_code(error: errors.HeadgateError, code: int) -> None:
    assert exit_codes.code_of(error) == code


def test_the_codes_are_documented() -> None:
    text = (ROOT / "docs" / "command-line.md").read_text()
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    names = [name for name in vars(exit_codes) if re.fullmatch("[A-Z][A-Z_]+", name)]
    codes = {getattr(exit_codes, name) for name in names}

    assert told == {0, *codes}


def test_a_command_line_of_diff_that_is_not_understood_is_no_difference() -> None:
    assert run(app, ["diff", "--nonsense"]) == 1
    assert run(app, ["apply", "--nonsense"]) == 2
