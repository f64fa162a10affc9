"""`headgate connectors`: without a server, from a directory of jars."""

import json
from pathlib import Path

import pytest

import jobmanager.connector_commands  # noqa: F401 - adds `connectors` to the app
from jobmanager.client.cli import app, run


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADGATE_CONNECTOR_JARS", raising=False)


def installed(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    capsys.readouterr()
    assert run(app, ["connectors", "list", "--data-dir", str(data_dir), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    return {one["name"]: one["state"] for one in found["packages"]}


def test_a_package_is_installed_once_listed_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, jars = tmp_path / "data", tmp_path / "jars"
    jars.mkdir()
    (jars / "postgresql-42.7.7.jar").write_bytes(b"driver")
    where = ["--data-dir", str(data), "--from-directory", str(jars)]
    assert installed(data, capsys)["jdbc"] == "missing"

    assert run(app, ["connectors", "install", "jdbc", *where]) == 0
    first = capsys.readouterr().out
    (jars / "postgresql-42.7.7.jar").unlink()
    assert run(app, ["connectors", "install", "jdbc", *where]) == 0
    second = capsys.readouterr().out

    assert "jdbc: org.postgresql:postgresql:42.7.7\n" in first
    assert "jdbc: installed for Spark" in first
    assert "jdbc: already installed (1 jar, 0.0 MB)" in second
    assert installed(data, capsys)["jdbc"] == "installed"
    [jar] = data.glob("connectors/*/jdbc/*.jar")
    jar.write_bytes(b"other")
    assert installed(data, capsys)["jdbc"] == "damaged"
    assert run(app, ["connectors", "remove", "jdbc", "--data-dir", str(data)]) == 0
    assert installed(data, capsys)["jdbc"] == "missing"


def test_a_package_of_ones_own_is_named_by_its_coordinates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mydb-1.jar").write_bytes(b"driver")
    where = ["--data-dir", str(tmp_path), "--from-directory", str(tmp_path)]

    assert run(app, ["connectors", "install", "mydb", *where, "--coordinates", "org.x:mydb:1"]) == 0

    assert installed(tmp_path, capsys)["mydb"] == "installed"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["pigeons"], "there is no connector package 'pigeons': known are kafka"),
        (["jdbc"], "postgresql-42.7.7.jar is not in"),
        (["kafka", "jdbc", "--coordinates", "a:b:1"], "--coordinates are those of one package"),
        (["jdbc", "--coordinates", "a:b"], "'a:b' is not of the form"),
        (["jdbc", "--catalogue", "/no/such/file"], "/no/such/file does not exist"),
    ],
)
def test_what_cannot_be_installed_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    where = ["--data-dir", str(tmp_path / "data"), "--from-directory", str(tmp_path)]

    assert run(app, ["connectors", "install", *arguments, *where]) == 1

    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1
