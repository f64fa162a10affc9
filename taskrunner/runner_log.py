"""The log of the runner that this process serves, one file for each runner.

The process, its JVM and its Python workers append to one open file, which none of them can exchange
for another. So the file moves instead: while a runner is served, the file is `runner.log` in the
home of that runner. When the runner has gone its log becomes a copy, and the open file is emptied
and gets its next name:

    served       <home of runner 1>/runner.log ─── the open file
    returned     <home of runner 1>/runner.log ─── a copy          (the open file has no name)
    served       <home of runner 2>/runner.log ─── the open file
"""

import os
import shutil
from pathlib import Path
from threading import Lock
from uuid import uuid4

_OPEN_FILE = Path("/proc/self/fd/2")
NAME = "runner.log"


class RunnerLog:
    """The log of this process. The process starts in the home of its first runner."""

    def __init__(self, home: Path) -> None:
        self._home: Path | None = home if _is_open(home / NAME) else None
        self.lock = Lock()
        """Held while the log is rotated."""
        self._spare = home / f".{uuid4().hex}.log"
        """Another name of the open file, so that the file can be given its next name."""

    @property
    def path(self) -> Path | None:
        """The path of the log; None: no runner is served, or standard error goes elsewhere."""
        return self._home / NAME if self._home is not None else None

    def leave(self) -> None:
        """Leaves what was logged so far to the runner that was served. Raises OSError if standard
        error does not go to that runner's log.
        """
        with self.lock:
            log = self.path
            if log is None or not _is_open(log):
                raise OSError(f"standard error does not go to {log}")
            part = log.with_name(f".{NAME}.part")
            os.link(log, self._spare)
            shutil.copyfile(log, part)
            part.replace(log)
            self._home = None
            os.truncate(self._spare, 0)

    def enter(self, home: Path) -> None:
        """Makes the open file, emptied, the log of the runner with this home. Raises OSError."""
        home.mkdir(parents=True, exist_ok=True)
        os.truncate(self._spare, 0)
        (home / NAME).unlink(missing_ok=True)
        os.link(self._spare, home / NAME)
        self._spare.unlink()
        self._spare = home / self._spare.name
        self._home = home


def _is_open(log: Path) -> bool:
    try:
        return _OPEN_FILE.samefile(log)
    except OSError:
        return False
