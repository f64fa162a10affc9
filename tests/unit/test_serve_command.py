"""What `headgate serve` says of a database URL before anything is started."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import jobmanager.command  # noqa: F401 - adds `serve` to the app
from jobmanager.client.cli import app, run


def test_a_password_in_the_command_line_is_refused_and_not_repeated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = run(app, ["serve", "--database-url", "postgresql://u:sw0rdfish@db/headgate"])

    said = capsys.readouterr().err
    assert code == 1
    assert said.startswith("headgate: --database-url holds a password")
    assert "--database-password-file" in said
    assert "sw0rdfish" not in said


def test_a_url_that_cannot_be_read_is_refused_and_not_repeated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = run(app, ["serve", "--database-url", "postgresql://u:sw0rdfish"])

    said = capsys.readouterr().err
    assert code == 1
    assert said.startswith("headgate: --database-url: it is not a valid URL: write postgresql://")
    assert "sw0rd" not in said


def test_faults_of_several_options_name_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_DATABASE_URL", "postgresql://u:sw0rdfish@db/headgate")

    code = run(app, ["serve", "--database-url-file", "/nowhere"])

    assert code == 1
    assert capsys.readouterr().err == (
        "headgate: the settings are not valid: database_url and database_url_file: "
        "give one of them\n"
    )


def test_a_database_that_cannot_be_reached_is_named_without_its_password(tmp_path: Path) -> None:
    url = "postgresql://u:sw0rdfish%2Fof%2Fpostgres@127.0.0.1:1/headgate"
    command = [sys.executable, "-m", "jobmanager", "serve", "--port", "0"]

    ended = subprocess.run(
        [*command, "--data-dir", str(tmp_path)],
        env={**os.environ, "HEADGATE_DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    said = ended.stdout + ended.stderr
    assert ended.returncode == 1
    assert "postgresql+psycopg://u:***@127.0.0.1:1/headgate cannot be used" in said
    assert "sw0rdfish" not in said
