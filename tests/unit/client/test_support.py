"""The doctor's findings, and the bundle for support, from which no secret may be read."""

import json
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import jobmanager.command  # noqa: F401 - all commands
from jobmanager.client import machine_checks, support_bundle
from jobmanager.client.cli import app, run
from jobmanager.client.machine_checks import CheckResult
from jobmanager.client.secrets_in_text import HIDDEN, text_without_secrets, without_secrets
from tests.support.answering_server import Answers, an_answering_server

JOB = "3f" * 16
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
SECRET = "Tr0ub4dor-and-3"


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
    with an_answering_server() as given:
        monkeypatch.setenv("HEADGATE_URL", given.url)
        given.of["GET /readyz"] = (200, {"leader_url": given.url})
        given.of["GET /v1/jobmanagers"] = (200, {"items": [{"version": "0.0.1"}]})
        yield given


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.12" 2024-07-16', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("no java here", None),
    ],
)
def test_the_version_of_java(said: str, version: int | None) -> None:
    assert machine_checks.java_version(said) == version


def test_java_that_is_old_or_missing_is_told_with_what_to_do() -> None:
    old = machine_checks.java({}, lambda command: 'java version "11.0.1"')
    missing = machine_checks.java({"JAVA_HOME": "/nowhere"})

    assert (old.health, missing.health) == (CheckResult.BAD, CheckResult.BAD)
    assert "17 or newer" in old.advice
    assert "JAVA_HOME is /nowhere" in missing.advice


def test_clocks_and_versions_that_differ_are_doubtful() -> None:
    near = machine_checks.clock("Mon, 16 Nov 2026 11:59:58 GMT", NOW)
    far = machine_checks.clock("Mon, 16 Nov 2026 11:58:00 GMT", NOW)

    assert (near.health, far.health) == (CheckResult.GOOD, CheckResult.DOUBTFUL)
    assert machine_checks.version("1", {"1"}).health is CheckResult.GOOD
    assert machine_checks.version("1", {"1", "2"}).health is CheckResult.DOUBTFUL


def test_the_disk_is_that_of_a_directory_to_come(tmp_path: Path) -> None:
    found = machine_checks.disk(tmp_path / "not" / "yet")

    assert str(tmp_path) in found.found


def test_the_doctor_looks_at_the_server(
    answers: Answers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(app, ["doctor", "--json", "--data-dir", str(tmp_path)])
    found = {one["subject"]: one for one in json.loads(capsys.readouterr().out)}

    assert found["Server"]["health"] == "good"
    assert found["Versions"]["health"] == "doubtful"
    assert found["Python"]["health"] == "good"


def test_a_port_that_somebody_else_has_is_told_from_a_free_one(answers: Answers) -> None:
    answers.of["GET /readyz"] = (0, None)
    [taken] = machine_checks.server(answers.url)
    [free] = machine_checks.server("http://127.0.0.1:1")

    assert taken.health is CheckResult.BAD
    assert "something else" in taken.found
    assert free.health is CheckResult.DOUBTFUL


@pytest.mark.parametrize(
    "text",
    [
        f"jdbc:postgresql://me:{SECRET}@db/x",
        f"connecting to kafka with password={SECRET}, retrying",
        f'"sasl.password": "{SECRET}"',
        f"fs.s3a.secret.key = {SECRET}",
        f"Authorization: Bearer {SECRET}",
        f"token: {SECRET}",
        f"X-Api-Key: {SECRET}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}",
    ],
)
def test_a_secret_in_a_text_is_hidden(text: str) -> None:
    assert SECRET not in text_without_secrets(text)
    assert HIDDEN in text_without_secrets(text)


def test_our_tokens_and_access_keys_are_hidden_wherever_they_stand() -> None:
    text = "used hg_abcDEF12345 and AKIAIOSFODNN7EXAMPLE"

    assert text_without_secrets(text) == "used *** and ***"


@pytest.mark.parametrize(
    "text",
    [
        "job 3f is RUNNING since 12:00:00, key group 5 of 8",
        "http://127.0.0.1:8081/v1/jobs says 3 tokens",
        "revenue: window(tumbling 2s, key: auction, revenue = sum(price))",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert text_without_secrets(text) == text


def test_fields_are_hidden_by_their_names() -> None:
    document = {
        "key": ["auction"],
        "spark": {"spark.hadoop.fs.s3a.secret.key": SECRET, "spark.sql.shuffle.partitions": "4"},
        "options": {"user": "me", "password": SECRET, "sasl_jaas_config": SECRET},
        "nested": [{"apiKey": SECRET, "tokens": 3}],
    }

    found = without_secrets(document)

    assert SECRET not in json.dumps(found)
    assert found["key"] == ["auction"]
    assert found["spark"]["spark.sql.shuffle.partitions"] == "4"
    assert found["nested"][0]["tokens"] == 3


def test_the_bundle_has_what_there_is_and_says_what_is_missing(
    answers: Answers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sink: dict[str, Any] = {"id": "out", "op": "sink", "connector": "jdbc", "password": SECRET}
    graph = {"graph": {"name": "revenue", "vertices": [sink]}, "revision": 1}
    answers.of[f"GET /v1/jobs/{JOB}/graph"] = (200, graph)
    answers.of[f"GET /v1/jobs/{JOB}/logs?tail=10"] = (200, f"url=jdbc:x://me:{SECRET}@db\nfine\n")
    target = tmp_path / "help.zip"

    arguments = ["--file", str(target), "--log-lines", "10", "--data-dir", str(tmp_path)]
    code = run(app, ["support-bundle", JOB, *arguments, "-o", "name"])

    assert code == 0
    assert capsys.readouterr().out == f"{target}\n"
    with zipfile.ZipFile(target) as bundle:
        texts = {name: bundle.read(name).decode() for name in bundle.namelist()}
    assert json.loads(texts[f"jobs/{JOB}/graph.json"])["graph"]["vertices"][0]["password"] == "***"
    assert texts[f"jobs/{JOB}/runner.log"] == "url=jdbc:x://me:***@db\nfine\n"
    assert "not there: server/metrics.txt" in texts["README.txt"]
    assert not any(SECRET in text for text in texts.values())
    assert target.stat().st_mode & 0o077 == 0


def test_jobs_of_interest_are_those_that_live_and_those_that_ended_last() -> None:
    jobs: Any = [{"jid": "live", "state": "RUNNING", "end-time": -1}]
    jobs += [{"jid": str(n), "state": "FAILED", "end-time": n} for n in range(20)]

    assert support_bundle.jobs_of_interest(jobs) == ["live", *map(str, range(19, 9, -1))]
