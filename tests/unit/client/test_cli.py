"""The command line against a real HTTP server that gives the answers it was told to give."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jobmanager.client.adopt_command  # adds its command to the app, as do
import jobmanager.client.artifact_commands
import jobmanager.client.gc_command
import jobmanager.client.pause_commands
import jobmanager.client.script_command
import jobmanager.client.sql_command
import jobmanager.client.state_commands  # noqa: F401
from jobmanager.client.cli import app, run
from tests.support.answering_server import Answers, an_answering_server

JOB = "3f" * 16
GRAPH = "name: revenue\nvertices: []\n"


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
    with an_answering_server() as given:
        monkeypatch.setenv("HEADGATE_URL", given.url)
        yield given


def a_job(state: str = "RUNNING") -> dict[str, Any]:
    return {
        "jid": JOB,
        "name": "revenue",
        "state": state,
        "start-time": 1_794_793_562_780,
        "end-time": -1,
        "duration": 61_000,
        "last-modification": 0,
        "tasks": {},
    }


def test_submit_sends_the_graph_and_says_the_job(
    answers: Answers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "graph.yaml").write_text(GRAPH)
    answers.of["POST /v1/jobs?parallelism=4"] = (202, {"jobid": JOB})

    code = run(app, ["submit", str(tmp_path / "graph.yaml"), "--parallelism", "4"])

    assert code == 0
    assert capsys.readouterr().out == f"submitted revenue as job {JOB}\n"
    assert answers.asked == [("POST /v1/jobs?parallelism=4", {"name": "revenue", "vertices": []})]


def test_faults_of_a_graph_come_one_a_line_after_the_summary(
    answers: Answers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "graph.yaml").write_text(GRAPH)
    faults = [
        {"vertex": None, "field": "vertices", "message": "missing"},
        {"vertex": "big", "field": "where", "message": "missing"},
    ]
    answers.of["POST /v1/jobs"] = (422, {"title": "The job graph has faults", "faults": faults})

    code = run(app, ["submit", str(tmp_path / "graph.yaml"), "--json"])

    out, err = capsys.readouterr()
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        "headgate: The job graph has faults (2 faults)",
        "  vertices: missing",
        "  big.where: missing",
    ]


def test_list_shows_a_table_or_json_and_nothing_else(
    answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    answers.of["GET /v1/jobs/overview"] = (200, {"jobs": [a_job()]})

    assert run(app, ["list"]) == 0
    table = capsys.readouterr().out
    assert run(app, ["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)

    assert JOB in table
    assert "1 m 1 s" in table
    assert listed == [a_job()]


def test_cancel_finds_the_job_by_its_beginning_and_waits(
    answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    answers.of["GET /v1/jobs/overview"] = (200, {"jobs": [a_job()]})
    answers.of[f"PATCH /v1/jobs/{JOB}?mode=cancel"] = (202, {})
    answers.of[f"GET /v1/jobs/{JOB}"] = (200, a_job("CANCELED"))

    code = run(app, ["cancel", "3f3f", "--wait", "--json"])

    assert code == 0
    assert json.loads(capsys.readouterr().out) == {"jobid": JOB, "state": "CANCELED"}


def test_cancel_that_waits_in_vain_says_so(
    answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    answers.of[f"PATCH /v1/jobs/{JOB}?mode=cancel"] = (202, {})
    answers.of[f"GET /v1/jobs/{JOB}"] = (200, a_job("CANCELLING"))

    code = run(app, ["cancel", JOB, "--wait", "--timeout", "0"])

    assert code == 124
    assert f"job {JOB} has not ended within 0 s" in capsys.readouterr().err


@pytest.mark.parametrize(("verb", "reached"), [("pause", "paused"), ("resume", "stalled")])
def test_pause_and_resume_wait_for_the_job(
    verb: str, reached: str, answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    answers.of[f"POST /v1/jobs/{JOB}/{verb}"] = (202, {"jobid": JOB, "state": "starting"})
    answers.of[f"GET /v1/jobs/{JOB}/status"] = (200, {"state": reached, "reason": "asked for"})

    assert run(app, [verb, JOB]) == 0

    assert capsys.readouterr().out == f"job {JOB} is {reached}\n"


def test_a_pause_of_a_job_that_ends_meanwhile_says_so(
    answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    answers.of[f"POST /v1/jobs/{JOB}/pause"] = (202, {"jobid": JOB, "state": "pausing"})
    ended = {"state": "finished", "reason": "all input was processed"}
    answers.of[f"GET /v1/jobs/{JOB}/status"] = (200, ended)

    assert run(app, ["pause", JOB]) == 6

    assert "finished: all input was processed" in capsys.readouterr().err


def test_logs_are_printed_line_by_line(
    answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    answers.of[f"GET /v1/jobs/{JOB}/logs"] = (200, "first\nsecond\n")

    assert run(app, ["logs", JOB]) == 0
    plain = capsys.readouterr().out
    assert run(app, ["logs", JOB, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert plain == "first\nsecond\n"
    assert lines == [{"line": "first"}, {"line": "second"}]


def test_a_checkpoint_with_damaged_files_is_an_error(
    answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"files": 2, "bytes": 10, "faults": ["pool/a: missing"]}
    answers.of[f"POST /v1/jobs/{JOB}/checkpoints/7/verify"] = (200, found)

    code = run(app, ["checkpoints", JOB, "7", "--verify"])

    assert code == 1
    assert capsys.readouterr().err.splitlines() == [
        "headgate: checkpoint 7 has faults (1)",
        "  pool/a: missing",
    ]


def a_page(**more: Any) -> dict[str, Any]:
    row = {"checkpoint": 7, "key": {"k": "[b]"}, "value": {"n": 3}, "key_group": 5, "subtask": 1}
    source = {"checkpoint": 7, "savepoint": None, "completed_at": "2026-11-16T12:00:00Z"}
    return {**source, "items": [row], "next": None, **more}


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ([JOB, "sums"], f"/v1/jobs/{JOB}/state/sums/default?limit=20"),
        ([JOB, "sums", "seen", "--key", "a/b"], f"/v1/jobs/{JOB}/state/sums/seen/a%2Fb?limit=20"),
        (
            ["--savepoint", "9c", "sums", "--limit", "1"],
            "/v1/savepoints/9c/state/sums/default?limit=1",
        ),
    ],
)
def test_state_is_asked_of_a_job_or_a_savepoint_and_says_what_takes_long(
    answers: Answers, capsys: pytest.CaptureFixture[str], arguments: list[str], path: str
) -> None:
    answers.of["GET /v1/inspector"] = (200, {"state": "stopped"})
    answers.of[f"GET {path}"] = (200, a_page(next="7.1.1"))

    assert run(app, ["state", *arguments]) == 0

    out, err = capsys.readouterr()
    assert err == "starting a Spark session to read the state…\n"
    assert out.startswith("from checkpoint 7, completed 2026-11-16T12:00:00Z\n")
    assert "[b]" in out
    assert out.endswith("there is more: --cursor 7.1.1\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "no job was given"),
        ([JOB, "sums", "--key", "5", "--key-groups"], "use only one of --key"),
        ([JOB, "sums", "default", "more"], "'more' is not expected here"),
    ],
)
def test_a_question_about_state_that_is_none(
    answers: Answers, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert run(app, ["state", *arguments]) == 1
    assert told in capsys.readouterr().err


def test_adopt_sends_the_directory_and_the_graph_and_says_how_to_go_on(
    answers: Answers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "graph.yaml").write_text(GRAPH)
    made = {"id": "9c", "path": "file:///x", "bytes": 2000}
    answers.of["GET /v1/inspector"] = (200, {"state": "ready"})
    answers.of["POST /v1/savepoints/adopt"] = (201, made)

    code = run(app, ["adopt", "/data/cp", "--graph", str(tmp_path / "graph.yaml")])

    assert code == 0
    _, sent = answers.asked[-1]
    assert (sent["path"], sent["graph"]["name"]) == ("/data/cp", "revenue")
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines() == [
        "savepoint 9c is at file:///x, 2.0 KB",
        f"start a job from it: headgate submit {tmp_path}/graph.yaml --from-savepoint 9c",
    ]


def test_an_error_of_the_server_is_one_line(
    answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    answers.of[f"POST /v1/jobs/{JOB}/checkpoints"] = (
        409,
        {"title": "The job is not running", "detail": f"job {JOB} is starting"},
    )

    assert run(app, ["checkpoint", JOB]) == 5

    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"headgate: The job is not running: job {JOB} is starting\n"


def test_a_server_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(app, ["list", "--url", "http://127.0.0.1:1"]) == 3

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("headgate: no server answers at http://127.0.0.1:1: is it running")
    assert err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["submit"], ["frobnicate"], ["list", "--port", "1"]])
def test_a_command_line_that_is_not_understood_is_one_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(app, arguments) == 2

    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        "submit",
        "list",
        "show",
        "cancel",
        "pause",
        "resume",
        "logs",
        "checkpoints",
        "checkpoint",
        "state",
        "adopt",
    ]
    + ["sql", "submit-script", "artifacts upload", "artifacts list", "artifacts show"]
    + ["artifacts delete"],
)
def test_every_command_has_help_with_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(app, [*command.split(), "--help"]) == 0

    shown = capsys.readouterr().out
    assert f"headgate {command}" in shown.split("Example:")[1]
    assert "--json" in shown


GARBAGE = {
    "dry_run": True,
    "items": [
        {
            "path": "s3://bucket/jobs/3f/pool/out/1.zip",
            "kind": "pool_file",
            "bytes": 2_500_000,
            "why": "no retained checkpoint refers to this file",
        }
    ],
    "bytes": 2_500_000,
    "left": [{"path": "file:///x", "kind": "unknown_job", "bytes": 10, "why": "no such job"}],
    "kept": {"checkpoints": 3, "pool_files": 12},
}


def test_gc_explains_in_a_table(answers: Answers, capsys: pytest.CaptureFixture[str]) -> None:
    answers.of["POST /v1/gc?dry_run=true&older_than_ms=604800000"] = (200, GARBAGE)

    assert run(app, ["gc", "--dry-run", "--older-than", "7d"]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert lines[1].split()[:4] == ["pool", "file", "2.5", "MB"]
    assert lines[1].rstrip().endswith("no retained checkpoint refers to this file")
    assert lines[2] == "left alone:"
    assert lines[-2:] == [
        "1 thing would be deleted, 2.5 MB",
        "kept: 3 checkpoints, 12 pool files",
    ]


def test_gc_as_json_is_the_answer(answers: Answers, capsys: pytest.CaptureFixture[str]) -> None:
    answers.of["POST /v1/gc?unknown_jobs=true"] = (200, GARBAGE)

    assert run(app, ["gc", "--unknown-jobs", "--json"]) == 0

    assert json.loads(capsys.readouterr().out) == GARBAGE


def test_gc_wants_an_age_it_can_read(answers: Answers, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(app, ["gc", "--older-than", "a week"]) == 1

    assert "--older-than: 'a week' is not a duration" in capsys.readouterr().err
    assert answers.asked == []


ARTIFACT = {
    "id": "ab" * 32,
    "name": "mine.py",
    "bytes": 7,
    "modules": ["mine"],
    "uploaded_at": "2026-11-16T12:00:00Z",
}


def test_submit_uploads_artifacts_that_are_files_here_and_leaves_the_others(
    answers: Answers, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text("A = 1\n")
    graph = "name: revenue\nartifacts: [mine.py, there.py]\nvertices: []\n"
    (tmp_path / "graph.yaml").write_text(graph)
    answers.of["POST /v1/artifacts?name=mine.py"] = (201, ARTIFACT)
    answers.of["POST /v1/jobs"] = (202, {"jobid": JOB})

    assert run(app, ["submit", str(tmp_path / "graph.yaml")]) == 0

    assert answers.asked[0] == ("POST /v1/artifacts?name=mine.py", b"A = 1\n")
    assert answers.asked[1][1]["artifacts"] == [ARTIFACT["id"], "there.py"]


def test_artifacts_are_shown_by_name_or_the_beginning_of_the_id(
    answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    details = {**ARTIFACT, "names": {"mine": ["work"]}, "jobs": [JOB]}
    answers.of["GET /v1/artifacts?limit=1000"] = (200, {"items": [ARTIFACT], "next": None})
    answers.of[f"GET /v1/artifacts/{ARTIFACT['id']}"] = (200, details)

    assert run(app, ["artifacts", "show", "mine.py"]) == 0
    assert run(app, ["artifacts", "show", "abab"]) == 0
    assert run(app, ["artifacts", "show", "cd"]) == 1

    shown = capsys.readouterr()
    assert shown.out.count("mine: work") == 2
    assert JOB in shown.out
    assert "no artifact is called 'cd'" in shown.err


def test_sql_is_submitted_as_a_graph(
    answers: Answers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.sql").write_text(
        "CREATE TABLE n WITH ('connector' = 'generator', 'rows_per_second' = '1', "
        "'columns.n' = 'id'); CREATE TABLE out WITH ('connector' = 'blackhole');"
        "INSERT INTO out SELECT n FROM n"
    )
    answers.of["POST /v1/jobs?parallelism=2"] = (202, {"jobid": JOB})

    code = run(app, ["sql", "-f", str(tmp_path / "job.sql"), "--name", "n", "--parallelism", "2"])

    assert code == 0
    assert capsys.readouterr().out == f"submitted n as job {JOB}\n"
    assert [one["id"] for one in answers.asked[0][1]["vertices"]] == ["n", "out_select", "out"]
    assert run(app, ["sql", "SELECT 1"]) == 1
    assert "is not a statement of a job" in capsys.readouterr().err
