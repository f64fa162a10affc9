"""A real schema registry, Apicurio, in a process of its own.

`python -m tests.support.apicurio` fetches its distribution (110 MB) from a Maven repository into
`.venv/apicurio`. Only long tests need it; `make chaos` calls this.
"""

import os
import signal
import socket
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from jobmanager.files.connector_shelf import repository_of_spark
from tests.support.server import eventually

REPOSITORY = Path(__file__).parents[2]
VERSION = "3.0.9"
"""The newest that runs on Java 17."""
_DIRECTORY = REPOSITORY / ".venv" / "apicurio" / VERSION
_ARCHIVE = f"io/apicurio/apicurio-registry-app/{VERSION}/apicurio-registry-app-{VERSION}-all.tar.gz"
_COMPLETE = _DIRECTORY / ".complete"


def is_installed() -> bool:
    return _COMPLETE.exists()


def fetch() -> None:
    """Fetches and unpacks the distribution, unless it is there."""
    if is_installed():
        return
    repository = os.environ.get("HEADGATE_MAVEN_REPOSITORY") or repository_of_spark()
    _DIRECTORY.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile() as archive:
        url = f"{repository.rstrip('/')}/{_ARCHIVE}"
        with httpx.stream("GET", url, timeout=60, follow_redirects=True) as answer:
            answer.raise_for_status()
            for part in answer.iter_bytes():
                archive.write(part)
        archive.seek(0)
        with tarfile.open(fileobj=archive) as opened:
            opened.extractall(_DIRECTORY, filter="data")
    _COMPLETE.touch()


@contextmanager
def a_registry() -> Iterator[str]:
    """The address of Confluent's interface of an empty registry. It ends with the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    with tempfile.NamedTemporaryFile("w+", suffix=".log") as log:
        process = _launch(port, log.fileno())
        try:
            eventually(
                lambda: process.poll() is not None or _answers(url),
                within=240,
                explain=lambda: Path(log.name).read_text()[-3000:],
            )
            assert process.poll() is None, Path(log.name).read_text()[-3000:]
            yield url
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _launch(port: int, log: int) -> subprocess.Popen[bytes]:
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"
    settings = {"quarkus.http.host": "127.0.0.1", "quarkus.http.port": str(port)}
    return subprocess.Popen(
        [
            *(java, "-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
            *(f"-D{name}={value}" for name, value in settings.items()),
            *("-jar", str(_DIRECTORY / f"apicurio-registry-app-{VERSION}-runner.jar")),
        ],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env={k: v for k, v in os.environ.items() if k != "JAVA_TOOL_OPTIONS"},
        start_new_session=True,
    )


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/subjects", timeout=5).is_success
    except httpx.HTTPError:
        return False


if __name__ == "__main__":
    fetch()
