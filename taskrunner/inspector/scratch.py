"""A temporary directory for one question."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from taskrunner import logs
from taskrunner.spark.run import trial_run
from taskrunner.spark.session.session import Session

_PATIENCE = 10.0
"""Seconds that Spark's maintenance of state stores gets to finish its writes."""
_PAUSE = 0.05
log = logs.get("inspector")


@contextmanager
def scratch_in(home: Path, spark: Session) -> Iterator[Path]:
    """A new directory below `home`, deleted when Spark no longer uses it. Files that Spark wrote
    for an earlier question after its directory was deleted are deleted too.
    """
    for left in home.glob("*"):
        delete(left)
    scratch = home / uuid4().hex
    scratch.mkdir(parents=True)
    try:
        yield scratch
    finally:
        trial_run.unload_state(spark)
        delete(scratch)


def delete(directory: Path) -> None:
    """Deletes a directory into which Spark may still write a last file."""
    until = time.monotonic() + _PATIENCE
    while directory.exists():
        shutil.rmtree(directory, ignore_errors=True)
        if time.monotonic() > until:
            log.warning("scratch_left", directory=str(directory))
            return
        time.sleep(_PAUSE)
