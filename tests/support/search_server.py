"""Real servers of Elasticsearch and OpenSearch, each in a process of its own.

`python -m tests.support.search_server` fetches their distributions (107 and 57 MB), which the
projects publish for integration tests, from a Maven repository into `.venv/server-jars`. They have
no modules beside the network and, for Elasticsearch, security. Only long tests need them;
`make chaos` calls this.

The servers refuse to run as root: then they run as the user `nobody`.
"""

import json
import os
import pwd
import shutil
import signal
import ssl
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from jobmanager.files.connector_shelf import repository_of_spark
from tests.support.certificates import Authority
from tests.support.redis_server import free_port
from tests.support.server import eventually

REPOSITORY = Path(__file__).parents[2]
VERSIONS = {"elasticsearch": "8.19.21", "opensearch": "2.19.6"}
"""The newest that are published so, and run on Java 17."""
PASSWORDS = {"writer": "geheim-1", "reader": "leser-1", "elastic-admin": "alles-1"}
"""The users of an Elasticsearch server with security."""
_COMPLETE = ".complete"
_ROLES = """
writer:
  cluster: []
  indices:
    - {names: [orders], privileges: [index, delete, view_index_metadata]}
    - {names: [headgate-sinks], privileges: [create_index, index, read, view_index_metadata]}
reader:
  indices: [{names: ['*'], privileges: [read, view_index_metadata]}]
"""


def home_of(product: str) -> Path:
    version = VERSIONS[product]
    return REPOSITORY / ".venv" / "server-jars" / f"{product}-{version}"


def is_installed(product: str) -> bool:
    return (home_of(product) / _COMPLETE).exists()


def fetch(product: str) -> None:
    """Fetches and unpacks a distribution, unless it is there."""
    if is_installed(product):
        return
    repository = os.environ.get("HEADGATE_MAVEN_REPOSITORY") or repository_of_spark()
    home, version, group = home_of(product), VERSIONS[product], f"org/{product}"
    path = f"{group}/distribution/integ-test-zip/{product}/{version}/{product}-{version}.zip"
    with tempfile.TemporaryFile() as archive:
        url = f"{repository.rstrip('/')}/{path}"
        with httpx.stream("GET", url, timeout=60, follow_redirects=True) as answer:
            answer.raise_for_status()
            for part in answer.iter_bytes():
                archive.write(part)
        home.parent.mkdir(parents=True, exist_ok=True)
        zipfile.ZipFile(archive).extractall(home.parent)
    (home / _COMPLETE).touch()


@dataclass
class SearchUnderTest:
    """The server as a plain HTTP client sees it."""

    product: str
    port: int
    directory: Path
    ca: Path | None = None
    """With security: the certificate of the authority that the server's certificate is from."""
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"http{'s' if self.ca else ''}://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        login = ("elastic-admin", PASSWORDS["elastic-admin"]) if self.ca else None
        verify = ssl.create_default_context(cafile=str(self.ca)) if self.ca else True
        with httpx.Client(auth=login, verify=verify, timeout=60) as http:
            return http.request(method, f"{self.url}{path}", json=body)

    def done(self, method: str, path: str, body: object = None) -> Any:
        answer = self.ask(method, path, body)
        assert answer.is_success, answer.text
        return answer.json()

    def empty(self) -> None:
        """Deletes all indexes."""
        found = self.done("GET", "/_cat/indices?format=json&expand_wildcards=all")
        for one in found:
            if not one["index"].startswith("."):
                self.done("DELETE", f"/{one['index']}")

    def documents(self, index: str) -> dict[str, dict[str, Any]]:
        """All documents, by their ids."""
        self.done("POST", f"/{index}/_refresh")
        found = self.done("POST", f"/{index}/_search", {"size": 10_000, "version": True})
        return {one["_id"]: one["_source"] for one in found["hits"]["hits"]}

    def start(self) -> None:
        log = self.directory / "server.log"
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                self._command(),
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment(),
                start_new_session=True,
                user=_unprivileged(),
            )
        process = self.process
        eventually(
            lambda: process.poll() is not None or self._answers(),
            within=240,
            explain=lambda: log.read_text()[-3000:],
        )
        assert process.poll() is None, log.read_text()[-3000:]

    def kill(self) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def configure(self, secured: bool, more: Mapping[str, str]) -> None:
        """Writes the configuration; with security also certificates, users and roles."""
        config = self.directory / "config"
        shutil.copytree(home_of(self.product) / "config", config)
        (self.directory / "tmp").mkdir()
        settings = {
            "cluster.name": "tests",
            "node.name": "node",
            "path.data": str(self.directory / "data"),
            "path.logs": str(self.directory / "logs"),
            "network.host": "127.0.0.1",
            "http.port": str(self.port),
            "transport.port": str(free_port()),
            "discovery.type": "single-node",
            "cluster.routing.allocation.disk.threshold_enabled": "false",
            **more,
        }
        if self.product == "elasticsearch":
            settings["xpack.security.enabled"] = str(secured).lower()
        if secured:
            assert self.product == "elasticsearch", "its distribution has no security"
            authority = Authority(config)
            issued = authority.issue("127.0.0.1")
            self.ca = authority.certificate
            settings["xpack.security.http.ssl.enabled"] = "true"
            settings["xpack.security.http.ssl.certificate"] = str(issued.certificate)
            settings["xpack.security.http.ssl.key"] = str(issued.key)
            (config / "roles.yml").write_text(_ROLES)
        lines = [f"{name}: {json.dumps(value)}" for name, value in settings.items()]
        (config / f"{self.product}.yml").write_text("\n".join(lines))
        _give_away(self.directory)
        for user, password in PASSWORDS.items() if secured else ():
            self._add_user(user, password, "superuser" if user == "elastic-admin" else user)

    def _add_user(self, user: str, password: str, role: str) -> None:
        program = home_of(self.product) / "bin" / "elasticsearch-users"
        subprocess.run(
            ["bash", str(program), "useradd", user, "-p", password, "-r", role],
            env=self._environment(),
            cwd=self.directory,
            check=True,
            capture_output=True,
            user=_unprivileged(),
        )

    def _command(self) -> list[str]:
        home = home_of(self.product)
        if self.product == "elasticsearch":
            return ["bash", str(home / "bin" / "elasticsearch")]
        properties = {
            "java.io.tmpdir": str(self.directory / "tmp"),
            "java.security.manager": "allow",
            "opensearch.path.home": str(home),
            "opensearch.path.conf": str(self.directory / "config"),
            "opensearch.distribution.type": "zip",
            "opensearch.bundled_jdk": "false",
        }
        return [
            *(str(_java_home() / "bin" / "java"), "-Xmx512m", "-XX:TieredStopAtLevel=1"),
            *("-XX:+UseSerialGC", *(f"-D{one}={value}" for one, value in properties.items())),
            *("-cp", f"{home}/lib/*", "org.opensearch.bootstrap.OpenSearch"),
        ]

    def _environment(self) -> dict[str, str]:
        given = {k: v for k, v in os.environ.items() if k not in ("JAVA_TOOL_OPTIONS", "HOME")}
        return {
            **given,
            "ES_PATH_CONF": str(self.directory / "config"),
            "ES_JAVA_HOME": str(_java_home()),
            "ES_JAVA_OPTS": "-Xms512m -Xmx512m -XX:TieredStopAtLevel=1",
            "ES_TMPDIR": str(self.directory / "tmp"),
        }

    def _answers(self) -> bool:
        try:
            return self.ask("GET", "/_cluster/health?wait_for_status=yellow").is_success
        except httpx.HTTPError:
            return False


@contextmanager
def a_search_server(
    product: str, *, secured: bool = False, settings: Mapping[str, str] | None = None
) -> Iterator[SearchUnderTest]:
    """An empty server, with settings of its own. Without its distribution the test is skipped, and
    says so.
    """
    if not is_installed(product):
        pytest.skip(f"nothing about {product} was tested: make chaos fetches its server")
    with ExitStack() as at_end:
        directory = Path(tempfile.mkdtemp(prefix=f"{product}-"))
        at_end.callback(shutil.rmtree, directory, ignore_errors=True)
        server = SearchUnderTest(product, free_port(), directory)
        server.configure(secured, settings or {})
        at_end.callback(server.kill)
        server.start()
        yield server


def _give_away(directory: Path) -> None:
    user = _unprivileged()
    if user is not None:
        for one in (directory, *directory.rglob("*")):
            os.chown(one, user, -1)


def _unprivileged() -> int | None:
    return pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None


def _java_home() -> Path:
    if home := os.environ.get("JAVA_HOME"):
        return Path(home)
    program = shutil.which("java")
    assert program is not None, "there is no Java"
    return Path(program).resolve().parents[1]


if __name__ == "__main__":
    for each in VERSIONS:
        fetch(each)
