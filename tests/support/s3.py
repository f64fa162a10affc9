"""A real S3 server over HTTP, in a process of its own."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support.server import eventually

BUCKET = "headgate"
_SIGNED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=0"
}
"""Enough for a server that does not look at the signature itself."""


@dataclass(frozen=True)
class S3:
    """The server, as a plain client of its HTTP interface sees it."""

    url: str

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process needs to use it as S3."""
        return {
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def keys(self, below: str) -> set[str]:
        """The names of all objects below a prefix, without it."""
        return set(self.sizes(below))

    def sizes(self, below: str, bucket: str = BUCKET) -> dict[str, int]:
        """The same, with the size of each object."""
        found: dict[str, int] = {}
        more: dict[str, str] = {}
        while True:
            params = {"list-type": "2", "prefix": f"{below}/", **more}
            answer = httpx.get(
                f"{self.url}/{bucket}", params=params, headers=_SIGNED
            ).raise_for_status()
            page: dict[str, Any] = _parse(answer.text)
            found |= {key.removeprefix(f"{below}/"): size for key, size in page["sizes"]}
            if page["next"] is None:
                return found
            more = {"continuation-token": page["next"]}

    def get(self, key: str, bucket: str = BUCKET) -> bytes:
        answer = httpx.get(f"{self.url}/{bucket}/{key}", headers=_SIGNED)
        return answer.raise_for_status().content

    def put(self, key: str, content: bytes, bucket: str = BUCKET) -> None:
        answer = httpx.put(f"{self.url}/{bucket}/{key}", content=content, headers=_SIGNED)
        answer.raise_for_status()

    def make_bucket(self, name: str) -> None:
        httpx.put(f"{self.url}/{name}", headers=_SIGNED, timeout=30).raise_for_status()


@contextmanager
def an_s3_server(directory: Path) -> Iterator[S3]:
    directory.mkdir(parents=True, exist_ok=True)
    for _ in range(3):  # somebody may take the port before the server does
        port = _free_port()
        s3, process = S3(f"http://127.0.0.1:{port}"), _start(port, directory / "s3.log")
        try:
            if _until_ready(s3, process, directory / "s3.log"):
                yield s3
                return
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    raise AssertionError((directory / "s3.log").read_text()[-2000:])


def _start(port: int, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "MOTO_DOCKER_CONFIG_FILE": os.devnull},
            start_new_session=True,
        )


def _until_ready(s3: S3, process: subprocess.Popen[bytes], log: Path) -> bool:
    """Waits until the server answers; False: it ended before."""
    eventually(
        lambda: process.poll() is not None or _make_bucket(s3),
        within=60,
        explain=lambda: log.read_text()[-2000:],
    )
    return process.poll() is None


def _make_bucket(s3: S3) -> bool:
    try:
        return httpx.put(f"{s3.url}/{BUCKET}", headers=_SIGNED, timeout=30).is_success
    except httpx.TransportError:
        return False


def _parse(listing: str) -> dict[str, Any]:
    token = re.search(r"<NextContinuationToken>([^<]+)<", listing)
    keys = re.findall(r"<Key>([^<]+)</Key>", listing)
    sizes = map(int, re.findall(r"<Size>(\d+)</Size>", listing))
    return {"sizes": list(zip(keys, sizes, strict=True)), "next": token and token[1]}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
