"""`python -m taskrunner.archive_classes DIRECTORY`: creates the archive of Spark's classes.

On a server the first warm runner creates the archive. This command creates it in advance, for an
image or for tests: set `HEADGATE_CLASS_ARCHIVES` of the server to the same directory.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from taskrunner import logs
from taskrunner.spark.session import class_archive, java_options
from taskrunner.spark.session.session import primed_session


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write(__doc__ or "")
        return 2
    logs.configure()
    os.environ[class_archive.DIRECTORY] = str(Path(sys.argv[1]).resolve())
    if not class_archive.is_there():
        with TemporaryDirectory(prefix="headgate-", ignore_cleanup_errors=True) as temporary:
            os.environ[java_options.DIRECTORY] = os.environ["SPARK_LOCAL_DIRS"] = temporary
            primed_session("local[2]", is_wanted=lambda: False).close()
    return 0 if class_archive.is_there() else 1


if __name__ == "__main__":
    sys.exit(main())
