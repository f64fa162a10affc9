"""What a server and a runner's process on the same machine say to each other.

Beside the protocol of runners: one line of JSON for each message, over a socket pair whose other
end is the standard input of the process. No other process can reach it.

    server ──▶ the first runner's secret, as plain text
           ◀── ProcessNews(returning)    its attempt has ended: the process cleans up
           ◀── ProcessNews(offered)      it is clean, and may serve another runner
           ──▶ HandOver                  the next runner
           ◀── ProcessNews(serving)      taken

When the server's end is closed, a process that serves no runner ends; a process that serves one
does not care.

A shared process (`python -m taskrunner --shared`) gets no first secret. It takes runners as they
come, and serves them at the same time:

    server ──▶ HandOver                  a runner
           ◀── ProcessNews(serving)      taken

Whatever has to be known after the server has ended stands in files: the next server has no channel.
They are in the home of the runner, and named by the process, because a runner whose launch is
repeated may have been given to two processes; only one of them can register.
"""

from pathlib import Path
from typing import Literal
from uuid import UUID

from jobmanager.protocol.messages import Message


class HandOver(Message):
    """The process is this runner from now on."""

    runner: UUID
    secret: str
    home: str
    """The runner's directory; its log is `runner.log` in it."""


class ProcessNews(Message):
    event: Literal["returning", "offered", "serving"]
    runner: UUID


def served_file(home: Path, process: UUID) -> Path:
    """Made by the process when it begins to serve the runner with this home."""
    return home / f"served-{process}"


def end_file(home: Path, process: UUID) -> Path:
    """Made by a server: the process is to end this runner, and no other."""
    return home / f"end-{process}"


def exit_file(home: Path, process: UUID) -> Path:
    """Made by the process when nothing of the runner runs any more, with a line that says why."""
    return home / f"exited-{process}"


def reason_file(process_home: Path) -> Path:
    """Made by whoever ends a whole shared process by force, with a line that says why."""
    return process_home / "ended"
