"""The end of the process by force, with everything that it started: what cannot be stopped must
not go on writing.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import psutil

from taskrunner import logs

EXIT_CODE = 75
"""Of a process that ended itself: a temporary failure, in the words of sysexits.h."""
_reason_files: list[Path] = []
log = logs.get("main")


def tell_in(file: Path) -> None:
    """The reason is written to this file: the process serves several runners, and the log of one of
    them does not tell the others.
    """
    _reason_files.append(file)


def end_process(why: str) -> NoReturn:
    """Kills Spark's JVM and its Python workers, then ends this process. Waits for nothing."""
    log.error("killed_itself", reason=why)
    for file in _reason_files:
        with suppress(OSError):
            file.write_text(f"it ended itself: {why}\n")
    with suppress(psutil.Error):
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # it has ended meanwhile
                child.kill()
    os._exit(EXIT_CODE)
