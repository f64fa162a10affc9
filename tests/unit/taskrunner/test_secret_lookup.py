"""Secrets in the runner: found in files, the environment or by a command, and hidden."""

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

from jobmanager.core.graph.connectors.generator import GeneratorSource
from jobmanager.core.graph.connectors.sink_connector import SinkConnector
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.graph.sources import Source
from jobmanager.core.ids import VertexId
from taskrunner import logs, secret_lookup
from taskrunner.core.secret_fields import with_secrets
from taskrunner.reports import failure_of
from taskrunner.secret_lookup import SecretLookup, SecretMissing, take_environment

PRINTS = f"{sys.executable} -c 'import sys; print(sys.argv[1] + \"-printed\")' {{name}}"


@pytest.fixture(autouse=True)
def _nothing_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_lookup.HIDDEN, "_passwords", [])


def test_a_file_comes_before_the_environment_and_that_before_a_command(tmp_path: Path) -> None:
    environment = {"HEADGATE_SECRET_DB_PW": "from-the-environment"}
    lookup = SecretLookup(tmp_path, PRINTS, environment)
    (tmp_path / "db-pw").write_text("from-the-file\n")

    assert lookup("db-pw") == "from-the-file"
    assert replace(lookup, directory=None)("db-pw") == "from-the-environment"
    assert replace(lookup, directory=None, environment={})("db-pw") == "db-pw-printed"


def test_without_a_place_for_it_the_name_comes_last() -> None:
    lookup = SecretLookup(command=f"{sys.executable} -c 'import sys; print(sys.argv[-1])' get")

    assert lookup("pw; ls") == "pw; ls"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (f"{sys.executable} -c 'raise SystemExit(3)'", "(it ended with 3)"),
        (f"{sys.executable} -c pass", "(it printed nothing)"),
        ("/no/such/program", "(FileNotFoundError)"),
        ("'unbalanced", "(ValueError)"),
        (None, "HEADGATE_SECRET_PW"),
    ],
)
def test_a_secret_that_is_nowhere_is_told_with_all_places(
    tmp_path: Path, command: str | None, told: str
) -> None:
    with pytest.raises(SecretMissing) as missing:
        SecretLookup(tmp_path, command, {})("pw")

    said = str(missing.value)
    assert said.startswith("there is no secret 'pw'; looked for: ")
    assert f"the file {tmp_path / 'pw'} (FileNotFoundError)" in said
    assert "the variable HEADGATE_SECRET_PW of the server" in said
    assert told in said


def test_a_missing_secret_fails_the_job_at_once() -> None:
    with pytest.raises(SecretMissing) as missing:
        SecretLookup(environment={})("pw")

    failure = failure_of(missing.value)

    assert (failure.kind, failure.is_restartable) == ("invalid_job", False)
    assert "there is no secret 'pw'" in failure.message


def test_processes_that_a_runner_starts_do_not_get_the_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held: dict[str, str] = {}
    monkeypatch.setattr(secret_lookup, "_environment", held)
    environment = {"HEADGATE_SECRET_PW": "sw0rd", "HEADGATE_SECRETS_DIR": "/x", "JAVA_HOME": "/j"}

    take_environment(environment)

    assert environment == {"HEADGATE_SECRETS_DIR": "/x", "JAVA_HOME": "/j"}
    assert SecretLookup()("pw") == "sw0rd"


def test_a_secret_is_in_no_failure_and_no_line_of_the_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    secret = SecretLookup(environment={"HEADGATE_SECRET_PW": "sw0rd"})("pw")
    logs.configure()

    try:
        raise RuntimeError(f"cannot sign in with {secret} at db?p={secret}")
    except RuntimeError as error:
        failure = failure_of(error)
        logs.get("test").error("sign_in", exc_info=error, url=f"db?p={secret}")

    said = capsys.readouterr().err
    assert "cannot sign in with ***" in failure.message
    assert "cannot sign in with ***" in failure.stack
    assert all(json.loads(line) for line in said.splitlines())
    assert "sign_in" in said
    assert "sw0rd" not in failure.message + failure.stack + said


@dataclass(frozen=True, slots=True)
class LoftSink(SinkConnector):
    name: ClassVar[str] = "loft"
    secret_fields: ClassVar[tuple[str, ...]] = ("door",)
    door: str


def test_a_vertex_gets_secrets_in_its_options_and_where_its_connector_takes_them() -> None:
    sink = Sink(VertexId("out"), (), LoftSink("${secret:key}"), {"a": "${secret:b}", "c": "d"})
    columns = {"x": "'${secret:key}'"}
    source = Source(VertexId("in"), (), GeneratorSource(1, None, columns), None)

    found = with_secrets(sink, str.upper)

    assert found.connector == LoftSink("KEY")
    assert found.options == {"a": "B", "c": "d"}
    assert sink.connector == LoftSink("${secret:key}")
    assert with_secrets(source, str.upper) is source
