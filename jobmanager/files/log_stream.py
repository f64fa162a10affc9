"""A stream for logs that never fails: on a full disk lines are lost, and the process goes on.

Without it, one line that cannot be written ends a runner in the middle of its report of what is
wrong, or a loop of the server.
"""

from contextlib import suppress
from io import TextIOBase
from typing import TextIO


class LogStream(TextIOBase):
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str, /) -> int:
        # the stream keeps a few kilobytes that it could not write, and tries them again
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()
