"""The connector packages of a data directory: fetched as a whole, with checksums, or not at all."""

import hashlib
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from jobmanager.core.connector_packages import (
    ConnectorPackage,
    Coordinates,
    JarChoice,
    PythonRequirement,
    UnusableCatalogue,
    parse_coordinates,
)
from jobmanager.files.connector_shelf import (
    ConnectorShelf,
    open_shelf,
    python_state,
    repository_of_spark,
)
from jobmanager.files.jar_sources import (
    JarDirectory,
    JarNotFetched,
    JarNotPublished,
    JarRepository,
    JarSource,
    OnBytes,
)

NEW, OLD = parse_coordinates("org.example:thing:2"), parse_coordinates("org.example:thing:1")
OTHER = parse_coordinates("org.example:other:7")


class QuietFiles(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def published(tmp_path: Path) -> Path:
    directory = tmp_path / "published"
    directory.mkdir()
    return directory


@pytest.fixture
def repository(published: Path) -> Iterator[JarRepository]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietFiles, directory=str(published)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield JarRepository(f"http://127.0.0.1:{server.server_port}/")
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def shelf(tmp_path: Path) -> ConnectorShelf:
    return open_shelf(tmp_path / "data")


def publish(root: Path, jar: Coordinates, content: bytes, sha1: str | None = None) -> None:
    file = root / jar.path
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    named = sha1 or hashlib.sha1(content).hexdigest()
    file.with_name(f"{file.name}.sha1").write_text(f"{named}  {file.name}\n")


def install(
    shelf: ConnectorShelf, source: JarSource, *choices: JarChoice, told: list[str] | None = None
) -> None:
    def on_bytes(jar: Coordinates) -> OnBytes:
        return lambda so_far, expected: None

    shelf.install("thing", choices, source, (told if told is not None else []).append, on_bytes)


def test_an_installed_jar_has_its_checksum(
    shelf: ConnectorShelf, published: Path, repository: JarRepository
) -> None:
    publish(published, NEW, b"new")

    install(shelf, repository, JarChoice((NEW,)))

    [jar] = shelf.jars("thing") or ()
    assert (jar.coordinates, jar.path.read_bytes()) == ("org.example:thing:2", b"new")
    assert jar.sha256 == hashlib.sha256(b"new").hexdigest()
    assert jar.damage() is None
    assert shelf.installed() == ["thing"]
    assert open_shelf(shelf.data_dir).jars("thing") == [jar]


def test_if_a_jar_is_not_published_the_next_choice_is_taken_as_a_whole_and_told(
    shelf: ConnectorShelf, published: Path, repository: JarRepository
) -> None:
    publish(published, OTHER, b"other")
    publish(published, OLD, b"old")
    told: list[str] = []

    fallback = JarChoice((OTHER, OLD), "1 was seen to work")
    install(shelf, repository, JarChoice((OTHER, NEW)), fallback, told=told)

    assert [one.coordinates for one in shelf.jars("thing") or ()] == [str(OTHER), str(OLD)]
    assert len(told) == 1
    assert "org.example:thing:2 is not in" in told[0]
    assert "1 was seen to work" in told[0]


def test_if_nothing_is_published_nothing_is_installed(
    shelf: ConnectorShelf, published: Path, repository: JarRepository
) -> None:
    publish(published, OTHER, b"other")

    with pytest.raises(JarNotPublished, match="thing:2 is not in"):
        install(shelf, repository, JarChoice((OTHER, NEW)))

    assert shelf.jars("thing") is None
    assert not [one for one in shelf.directory.rglob("*") if one.is_file()]


def test_a_jar_that_does_not_have_its_published_checksum_is_not_installed(
    shelf: ConnectorShelf, published: Path, repository: JarRepository
) -> None:
    publish(published, NEW, b"new", sha1="0" * 40)

    with pytest.raises(JarNotFetched, match="published checksum"):
        install(shelf, repository, JarChoice((NEW,)))

    assert shelf.jars("thing") is None


def test_a_repository_that_does_not_answer_is_named(shelf: ConnectorShelf) -> None:
    with pytest.raises(JarNotFetched, match=r"http://127\.0\.0\.1:9/org/example/thing"):
        install(shelf, JarRepository("http://127.0.0.1:9"), JarChoice((NEW,)))


@pytest.mark.parametrize("is_plain", [True, False])
def test_without_a_network_jars_come_from_a_directory(
    shelf: ConnectorShelf, published: Path, is_plain: bool
) -> None:
    if is_plain:
        (published / NEW.file_name).write_bytes(b"new")
    else:
        publish(published, NEW, b"new")

    install(shelf, JarDirectory(published), JarChoice((NEW,)))

    assert [one.path.read_bytes() for one in shelf.jars("thing") or ()] == [b"new"]


def test_a_package_is_replaced_as_a_whole_and_removed_as_a_whole(
    shelf: ConnectorShelf, published: Path
) -> None:
    for jar in (OLD, NEW, OTHER):
        publish(published, jar, str(jar).encode())
    install(shelf, JarDirectory(published), JarChoice((OLD, OTHER)))

    install(shelf, JarDirectory(published), JarChoice((NEW,)))

    assert [one.coordinates for one in shelf.jars("thing") or ()] == [str(NEW)]
    home = shelf.directory / shelf.spark_version
    assert [one.name for one in home.iterdir()] == ["thing"]
    assert shelf.remove("thing")
    assert not shelf.remove("thing")
    assert not list(home.iterdir())


@pytest.mark.parametrize("harm", ["changed", "gone"])
def test_a_jar_that_was_changed_is_damaged(
    shelf: ConnectorShelf, published: Path, harm: str
) -> None:
    publish(published, NEW, b"new")
    install(shelf, JarDirectory(published), JarChoice((NEW,)))
    [jar] = shelf.jars("thing") or ()

    jar.path.write_bytes(b"bad") if harm == "changed" else jar.path.unlink()

    assert str(jar.path) in (jar.damage() or "")


def test_the_jars_of_another_spark_are_not_used(shelf: ConnectorShelf, published: Path) -> None:
    publish(published, NEW, b"new")
    install(shelf, JarDirectory(published), JarChoice((NEW,)))

    assert replace(shelf, spark_version="9.9.9").jars("thing") is None


def test_a_jar_that_two_packages_have_is_given_once(shelf: ConnectorShelf, published: Path) -> None:
    publish(published, NEW, b"new")
    install(shelf, JarDirectory(published), JarChoice((NEW,)))
    shelf.install(
        "twin", [JarChoice((NEW,))], JarDirectory(published), print, lambda jar: lambda *_: None
    )

    assert len(shelf.jars_of(["thing", "twin", "nothing"])) == 1


def test_what_is_missing_is_told_with_the_command(shelf: ConnectorShelf) -> None:
    mine = {
        "thing": ConnectorPackage("thing", "", (NEW,)),
        "snake": ConnectorPackage("snake", "", python=(PythonRequirement("no-such-snake", "2"),)),
        "here": ConnectorPackage("here", "", python=(PythonRequirement("pyspark", "4"),)),
    }
    ours = replace(shelf, packages=mine)

    command = f"run headgate connectors install thing --data-dir {shelf.data_dir}"
    assert command in (ours.fault("thing") or "")
    assert "-m pip install 'no-such-snake>=2'" in (ours.fault("snake") or "")
    assert "there is no connector package 'pigeons'" in (ours.fault("pigeons") or "")
    assert "there is no connector package '../x'" in (ours.fault("../x") or "")
    assert ours.fault("here") is None


def test_a_python_package_that_is_too_old_is_told() -> None:
    assert "is too old" in (python_state(PythonRequirement("pyspark", "99")) or "")


def test_a_site_has_its_own_catalogue_and_repository(tmp_path: Path) -> None:
    (tmp_path / "connectors.toml").write_text(
        'repository = "https://mirror.example.com/maven"\n'
        '[packages.jdbc]\njars = ["com.example:driver:3"]\n'
    )

    shelf = open_shelf(tmp_path)

    assert shelf.repository == "https://mirror.example.com/maven"
    assert list(map(str, shelf.packages["jdbc"].jars)) == ["com.example:driver:3"]


@pytest.mark.parametrize("text", ["packages = 3", "[packages", '[packages.x]\njars = "a:b:1"'])
def test_a_site_file_that_is_not_right_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "connectors.toml").write_text(text)

    with pytest.raises(UnusableCatalogue, match=r"connectors\.toml: "):
        open_shelf(tmp_path)


def test_without_a_repository_of_its_own_a_site_asks_the_one_that_spark_would_ask() -> None:
    assert re.fullmatch(r"https://[\w.-]+/maven2", repository_of_spark())
