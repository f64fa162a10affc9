"""The end of the process by force, with everything that it started: what cannot be stopped must
not go on writing.
"""

import os
from contextlib import suppress
from typing import NoReturn

import psutil

from taskrunner import logs

EXIT_CODE = 75
"""Of a process that ended itself: a temporary failure, in the words of sysexits.h."""
log = logs.get("main")


def end_process(why: str) -> NoReturn:
    """Kills Spark's JVM and its Python workers, then ends this process. Waits for nothing."""
    log.error("killed_itself", reason=why)
    with suppress(psutil.Error):
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # it has ended meanwhile
                child.kill()
    os._exit(EXIT_CODE)
