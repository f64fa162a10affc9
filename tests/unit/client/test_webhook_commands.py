"""The commands about webhooks against a real HTTP server that gives the answers it was told."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jobmanager.client.webhook_commands  # noqa: F401 - adds its commands to the app
from jobmanager.client.cli import app, run
from tests.support.answering_server import Answers, an_answering_server

MADE: dict[str, Any] = {
    "name": "ops",
    "url": "https://hooks.example.com/…",
    "on": ["restart", "stalled"],
    "job": "orders-*",
    "secret": None,
    "created_at": "2026-11-18T10:00:00Z",
    "pending": 2,
    "given_up": 0,
    "last_delivered_at": None,
}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
    with an_answering_server() as given:
        monkeypatch.setenv("HEADGATE_URL", given.url)
        yield given


def test_create_sends_the_rule_and_shows_the_new_key_once(
    answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    answers.of["POST /v1/webhooks"] = (201, {**MADE, "made_secret": "new key"})
    hook = "https://hooks.example.com/x"
    rule = ["--url", hook, "--on", "restart, stalled", "--job", "orders-*"]

    assert run(app, ["webhooks", "create", "ops", *rule]) == 0
    assert "new key" in capsys.readouterr().out.splitlines()
    assert run(app, ["webhooks", "create", "ops", *rule, "-q", "--server", answers.url]) == 0
    assert capsys.readouterr().out == "new key\n"

    asked = {"name": "ops", "url": hook, "on": ["restart", "stalled"], "job": "orders-*"}
    assert answers.asked == [("POST /v1/webhooks", {**asked, "secret": None})] * 2


def test_a_key_comes_from_a_file_or_by_reference_and_never_from_the_command_line(
    answers: Answers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers.of["POST /v1/webhooks"] = (201, {**MADE, "made_secret": None})
    (tmp_path / "key").write_text("a key in a file\n")
    create = ["webhooks", "create", "ops", "--url", "https://h/x", "--on", "restart"]

    assert run(app, [*create, "--secret-file", str(tmp_path / "key")]) == 0
    assert run(app, [*create, "--secret", "${secret:hooks}"]) == 0
    assert run(app, [*create, "--secret", "plain text"]) == 1
    assert run(app, [*create, "--secret-file", str(tmp_path / "none")]) == 1
    assert run(app, [*create[:-1], "nothing"]) == 1

    sent = [body["secret"] for _, body in answers.asked]
    assert sent == ["a key in a file", "${secret:hooks}"]
    err = capsys.readouterr().err
    assert "plain text" not in err
    assert "nothing is no event; there are state_changed, restart" in err


def test_a_test_shows_the_answer_and_fails_if_it_was_not_delivered(
    answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"delivery": "x", "is_delivered": True, "status": 200, "error": None, "took_ms": 3}
    lost = {**found, "is_delivered": False, "status": None, "error": "Connection refused"}
    answers.of["POST /v1/webhooks/ops/test"] = [
        (200, {**found, "answer": "thanks"}),
        (200, {**lost, "answer": None}),
    ]

    assert run(app, ["webhooks", "test", "ops"]) == 0
    assert capsys.readouterr().out == "delivered: answered 200, in 3 ms\nthanks\n"
    assert run(app, ["webhooks", "test", "ops"]) == 1
    assert capsys.readouterr().out == "not delivered: Connection refused, in 3 ms\n"


def test_list_and_delete(answers: Answers, capsys: pytest.CaptureFixture[str]) -> None:
    answers.of["GET /v1/webhooks"] = (200, {"items": [MADE], "next": None})
    answers.of["DELETE /v1/webhooks/ops"] = (200, MADE)

    assert run(app, ["webhooks", "list"]) == 0
    assert "https://hooks.example.com/…" in capsys.readouterr().out
    assert run(app, ["webhooks", "delete", "ops"]) == 0
    assert capsys.readouterr().out == "the webhook ops is deleted\n"
