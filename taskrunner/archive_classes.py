"""`python -m taskrunner.archive_classes DIRECTORY`: creates the archive of Spark's classes.

On a server the first warm runner creates the archive. This command creates it in advance, for an
image or for tests: set `HEADGATE_CLASS_ARCHIVES` of the server to the same directory.
"""

import os
import sys
from pathlib import Path

from taskrunner import logs
from taskrunner.spark.session import class_archive
from taskrunner.spark.session.session import primed_session


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write(__doc__ or "")
        return 2
    logs.configure()
    os.environ[class_archive.DIRECTORY] = str(Path(sys.argv[1]).resolve())
    if not class_archive.is_there():
        primed_session("local[2]", is_wanted=lambda: False).close()
    return 0 if class_archive.is_there() else 1


if __name__ == "__main__":
    sys.exit(main())
