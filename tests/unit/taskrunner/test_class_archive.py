"""Which archive of classes a session starts with: one that fits, or none."""

from pathlib import Path

import pytest

from taskrunner.spark.session import class_archive
from taskrunner.spark.session.class_archive import fingerprint, with_archive
from taskrunner.spark.session.java_options import JAVA_OPTIONS


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(class_archive.DIRECTORY, str(tmp_path / "classes"))
    return tmp_path / "classes"


def test_another_java_or_another_jar_is_another_archive(tmp_path: Path) -> None:
    java, one, two = (tmp_path / name for name in ("java", "one.jar", "two.jar"))
    for path in (java, one, two):
        path.write_text("x")
    before = fingerprint(java, [one, two])

    assert fingerprint(java, [two, one]) == before
    assert fingerprint(java, [one]) != before
    two.write_text("xy")
    assert fingerprint(java, [one, two]) != before
    after = fingerprint(java, [one, two])
    java.write_text("another")
    assert fingerprint(java, [one, two]) != after


def test_without_a_directory_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(class_archive.DIRECTORY, raising=False)

    assert with_archive({"a": "b"}, records=True) == {"a": "b"}


@pytest.mark.needs_java
def test_only_who_is_to_records_what_would_be_in_an_archive(archives: Path) -> None:
    assert with_archive({"a": "b"}) == {"a": "b"}
    assert "RecordDynamicDumpInfo" in with_archive({"a": "b"}, records=True)[JAVA_OPTIONS]


@pytest.mark.needs_java
def test_an_archive_that_fits_is_used_beside_the_jobs_own_options(archives: Path) -> None:
    archives.mkdir()
    (archives / "of-another-java.jsa").touch()
    assert with_archive({}) == {}
    fits = class_archive.path()
    assert fits is not None
    fits.touch()

    chosen = with_archive({JAVA_OPTIONS: "-Dmine=1"}, records=True)

    assert f"-XX:SharedArchiveFile={fits} " in chosen[JAVA_OPTIONS]
    assert chosen[JAVA_OPTIONS].endswith(" -Dmine=1")
