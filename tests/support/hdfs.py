"""A real HDFS, with a NameNode and a DataNode in one process, and a plain client of WebHDFS."""

import getpass
import os
import re
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pyspark

from tests.support.maven_jars import jars_of
from tests.support.server import eventually

_MAIN = "org.apache.hadoop.test.MiniDFSClusterManager"
_SHIPPED_WITH_SPARK = ("hadoop-client-", "slf4j-api-", "jcl-over-slf4j-", "log4j-")
_WEB = re.compile(r"<name>dfs\.namenode\.http-address</name><value>([^<]+)</value>")


class Hdfs:
    """The file system, as a client of its HTTP interface sees it: no code of Headgate or Spark."""

    def __init__(self, port: int, web: str) -> None:
        self.uri = f"hdfs://127.0.0.1:{port}"
        self._http = httpx.Client(
            base_url=f"http://{web}/webhdfs/v1", params={"user.name": _user()}, timeout=60
        )

    def files(self, below: str) -> dict[str, int]:
        """Every file below a directory: its path inside, and its size; also hidden files."""
        answer = self._http.get(below, params={"op": "LISTSTATUS"})
        if answer.status_code == httpx.codes.NOT_FOUND:
            return {}
        found: dict[str, int] = {}
        for one in _json(answer)["FileStatuses"]["FileStatus"]:
            name = one["pathSuffix"]
            if one["type"] == "FILE":
                found[name] = one["length"]
            else:
                inner = self.files(f"{below}/{name}")
                found |= {f"{name}/{path}": size for path, size in inner.items()}
        return found

    def get(self, path: str) -> bytes:
        answer = self._http.get(path, params={"op": "OPEN"}, follow_redirects=True)
        return answer.raise_for_status().content

    def put(self, path: str, content: bytes, *, modified_ms: int | None = None) -> None:
        """Writes a file, which appears under its name when it is complete."""
        parent, _, name = path.rpartition("/")
        hidden = f"{parent}/.{name}"
        asked = self._http.put(hidden, params={"op": "CREATE", "overwrite": "true"})
        httpx.put(asked.headers["Location"], content=content, timeout=60).raise_for_status()
        if modified_ms is not None:
            times = {"op": "SETTIMES", "modificationtime": str(modified_ms)}
            self._http.put(hidden, params=times).raise_for_status()
        renamed = self._http.put(hidden, params={"op": "RENAME", "destination": path})
        assert _json(renamed) == {"boolean": True}, renamed.text

    def make_directory(self, path: str, permission: str = "755") -> None:
        self._http.put(path, params={"op": "MKDIRS", "permission": permission}).raise_for_status()

    def close(self) -> None:
        self._http.close()


@contextmanager
def an_hdfs() -> Iterator[Hdfs]:
    """An HDFS with an empty directory of its own. It ends with the block."""
    with tempfile.TemporaryDirectory(prefix="hgh", ignore_cleanup_errors=True) as name:
        root = Path(name)
        for _ in range(3):  # somebody may take the port before the server does
            port = _free_port()
            process = _start(root, port)
            try:
                web = _web_address(root, process)
                if web is not None:
                    hdfs = Hdfs(port, web)
                    try:
                        yield hdfs
                    finally:
                        hdfs.close()
                    return
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        raise AssertionError((root / "hdfs.log").read_text()[-3000:])


def _start(root: Path, port: int) -> subprocess.Popen[bytes]:
    (root / "conf.xml").unlink(missing_ok=True)
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    if home := os.environ.get("JAVA_HOME"):
        command[0] = f"{home}/bin/java"
    settings = {"hdfs.minidfs.basedir": root / "data", "dfs.namenode.fs-limits.min-block-size": 0}
    with (root / "hdfs.log").open("ab") as log:
        return subprocess.Popen(
            [
                *(*command, "-cp", _class_path(), _MAIN),
                *("-format", "-datanodes", "1", "-nnport", str(port)),
                *("-writeConfig", str(root / "conf.xml")),
                *(part for key, value in settings.items() for part in ("-D", f"{key}={value}")),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=root,
            env={k: v for k, v in os.environ.items() if k != "JAVA_TOOL_OPTIONS"},
            start_new_session=True,
        )


def _web_address(root: Path, process: subprocess.Popen[bytes]) -> str | None:
    """Waits until the file system runs; None: the process ended before."""

    def written() -> str | None:
        text = (root / "conf.xml").read_text() if (root / "conf.xml").exists() else ""
        found = _WEB.search(text) if text.rstrip().endswith("</configuration>") else None
        return found[1] if found else None

    eventually(
        lambda: process.poll() is not None or written() is not None,
        within=120,
        explain=lambda: (root / "hdfs.log").read_text()[-3000:],
    )
    return None if process.poll() is not None else written()


def _class_path() -> str:
    shipped = Path(pyspark.__file__).parent / "jars"
    needed = [
        one for one in sorted(shipped.glob("*.jar")) if one.name.startswith(_SHIPPED_WITH_SPARK)
    ]
    return os.pathsep.join(map(str, [*jars_of("hdfs-minicluster"), *needed]))


def _json(answer: httpx.Response) -> Any:
    return answer.raise_for_status().json()


def _user() -> str:
    return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
