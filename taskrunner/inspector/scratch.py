"""A directory for one question, which nobody keeps."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from taskrunner.spark import rehearsal
from taskrunner.spark.session import Session


@contextmanager
def scratch_in(home: Path, spark: Session) -> Iterator[Path]:
    """A new directory below `home`, deleted when Spark has let go of it."""
    scratch = home / uuid4().hex
    scratch.mkdir(parents=True)
    try:
        yield scratch
    finally:
        rehearsal.unload_state(spark)
        shutil.rmtree(scratch, ignore_errors=True)
