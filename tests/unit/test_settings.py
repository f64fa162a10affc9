"""How a server is told of its database, and that no password shows up on the way."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from jobmanager.settings import Settings

PASSWORD = "sw0rdfish/9@x"
QUOTED = "sw0rdfish%2F9%40x"
URL = f"postgresql://u:{QUOTED}@db:5432/headgate"


def password_of(settings: Settings) -> str | None:
    assert settings.database is not None
    return settings.database.password


def test_without_a_database_there_is_the_embedded_one() -> None:
    assert Settings().database is None


def test_a_url_comes_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_DATABASE_URL", URL)

    settings = Settings()

    assert password_of(settings) == PASSWORD
    assert "sw0rdfish" not in repr(settings)
    assert str(settings.database) == "postgresql+psycopg://u:***@db:5432/headgate"


def test_a_url_comes_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "url").write_text(f"{URL}\n")

    assert password_of(Settings(database_url_file=tmp_path / "url")) == PASSWORD


def test_a_password_comes_by_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_DATABASE_URL", "postgresql://u@db/headgate")
    (tmp_path / "password").write_text(f"{PASSWORD}\n")

    settings = Settings(database_password_file=tmp_path / "password")

    assert password_of(settings) == PASSWORD
    assert str(settings.database) == "postgresql+psycopg://u:***@db/headgate"


def test_a_password_among_the_options_of_a_url_is_hidden_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADGATE_DATABASE_URL", f"postgresql://u@db/headgate?password={QUOTED}")

    settings = Settings()

    assert password_of(settings) == PASSWORD
    assert "sw0rdfish" not in str(settings.database)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:sw0rdfish",
        "mysql://u:sw0rdfish@db/headgate",
        "sw0rdfish",
    ],
)
def test_a_url_that_cannot_be_read_is_not_repeated(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_DATABASE_URL", url)

    with pytest.raises(ValidationError) as refused:
        Settings()

    [fault] = refused.value.errors(include_input=False)
    assert "the database URL: " in fault["msg"]
    assert "sw0rdfish" not in fault["msg"]
    assert refused.value.__cause__ is None


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"

    with pytest.raises(ValidationError, match=f"{missing} cannot be read: FileNotFoundError"):
        Settings(database_url_file=missing)


def test_a_file_with_more_than_a_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "url").write_text(f"{URL}\n{URL}\n")

    with pytest.raises(ValidationError, match="has to hold one line"):
        Settings(database_url_file=tmp_path / "url")


def test_a_url_is_given_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_DATABASE_URL", URL)
    (tmp_path / "url").write_text(URL)

    with pytest.raises(ValidationError, match="give one of them"):
        Settings(database_url_file=tmp_path / "url")


def test_a_password_needs_a_url(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(PASSWORD)

    with pytest.raises(ValidationError, match="needs a database_url"):
        Settings(database_password_file=tmp_path / "password")


def test_secrets_are_not_where_jobs_can_read(tmp_path: Path) -> None:
    inside, outside = tmp_path / "data" / "data" / "secrets", tmp_path / "secrets"
    for one in (inside, outside):
        one.mkdir(parents=True)

    with pytest.raises(ValueError, match="which jobs can read"):
        Settings(data_dir=tmp_path / "data", secrets_dir=inside)
    with pytest.raises(ValueError, match="is not a directory"):
        Settings(data_dir=tmp_path / "data", secrets_dir=tmp_path / "nothing")

    assert Settings(data_dir=tmp_path / "data", secrets_dir=outside).secrets_directory == outside


def test_connectors_of_warm_runners_are_names_with_commas_or_one_by_one() -> None:
    assert Settings(connectors="kafka, jdbc").connectors == ("kafka", "jdbc")
    assert Settings(connectors=["kafka,jdbc", "kafka"]).connectors == ("kafka", "jdbc")
    with pytest.raises(ValueError, match="not the name of a connector package"):
        Settings(connectors="Kafka!")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("2x", "'2x' is not the size of a heap: write 1500m or 4g"),
        ("300m", "300m is too small: Spark needs 512m at least"),
    ],
)
def test_the_heap_of_shared_processes_has_to_be_large_enough(given: str, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        Settings(shared_memory=given)
    assert Settings(shared_memory="1500m").shared_memory == "1500m"
