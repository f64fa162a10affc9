"""A real Spark standalone cluster, a master and a worker, from the PyPI package alone."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pyspark

from tests.support.server import eventually


@contextmanager
def a_standalone_cluster(
    directory: Path, cores: int = 2, unmounted: Path | None = None
) -> Iterator[str]:
    """The URL of a master with one worker. Both end with the block. The worker, and all it
    starts, finds an empty directory of its own where everybody else finds `unmounted`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    port, web = _free_port(), _free_port()
    url = f"spark://127.0.0.1:{port}"
    master = ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web)]
    worker = ["worker.Worker", "--host", "127.0.0.1", "--cores", str(cores), "--memory", "2g"]
    worker += ["--webui-port", str(_free_port()), "--work-dir", str(directory / "work"), url]
    started = []
    try:
        started.append(_start(master, directory))
        eventually(lambda: _workers(web) is not None, within=60)
        started.append(_start(worker, directory, unmounted))
        eventually(lambda: _workers(web) == 1, within=60, explain=lambda: _logs(directory))
        yield url
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def can_hide_directories() -> bool:
    """Whether this machine lets us give a process mounts of its own."""
    command = [*_HIDING, "/mnt", "true"]
    return bool(shutil.which("unshare")) and not subprocess.run(command, check=False).returncode


_HIDING = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"']
"""The directory and the command follow. The mounts go with the command's processes."""


def _start(
    arguments: list[str], directory: Path, unmounted: Path | None = None
) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    name, *options = arguments
    hiding = [*_HIDING, str(unmounted)] if unmounted else []
    with (directory / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            [
                *hiding,
                str(home / "bin" / "spark-class"),
                f"org.apache.spark.deploy.{name}",
                *options,
            ],
            cwd=directory,
            env={**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _workers(web: int) -> int | None:
    """How many workers the master has; None while it does not answer."""
    try:
        found = httpx.get(f"http://127.0.0.1:{web}/json/", timeout=5).json()
    except (httpx.HTTPError, ValueError):
        return None
    return len([worker for worker in found["workers"] if worker["state"] == "ALIVE"])


def _logs(directory: Path) -> str:
    return "\n".join(path.read_text()[-2000:] for path in directory.glob("*.log"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
