"""A log that cannot be written harms nobody. `/dev/full` is a disk without space."""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

import pytest
import structlog

from jobmanager import server_parts
from jobmanager.core.redaction import Secrets
from jobmanager.files.log_stream import LogStream
from taskrunner import logs


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@contextmanager
def stderr_on_a_full_disk() -> Iterator[None]:
    with Path("/dev/full").open("w", buffering=1) as stream, Path("/dev/null").open("w") as null:
        with redirect_stderr(stream):
            yield
        os.dup2(null.fileno(), stream.fileno())  # what it still holds can be written now


def test_a_runner_whose_log_is_on_a_full_disk_goes_on() -> None:
    with stderr_on_a_full_disk():
        logs.configure()
        for _ in range(3):
            logs.get("runner").error("failed", message="x" * 10_000)


def test_a_server_whose_log_is_on_a_full_disk_goes_on() -> None:
    with stderr_on_a_full_disk():
        server_parts.configure_logs(Secrets())
        for _ in range(3):
            structlog.get_logger("loop").warning("loop failed", error="x" * 10_000)


def test_what_can_be_written_is_written() -> None:
    target = io.StringIO()
    stream = LogStream(target)
    stream.write("one\n")
    stream.flush()
    assert target.getvalue() == "one\n"
