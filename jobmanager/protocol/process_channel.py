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
"""

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
