"""`python -m taskrunner.archive_classes [DIRECTORY]`: creates the archive of Spark's classes.

On a server the first warm runner creates the archive. This command creates it in advance, for all
servers of this installation, so that the first job does not have to wait for it; or in another
directory, which servers use that have it in `HEADGATE_CLASS_ARCHIVES`.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from jobmanager.files.class_archives import IN_INSTALLATION
from taskrunner import logs
from taskrunner.spark.session import class_archive, java_options
from taskrunner.spark.session.session import prime_session, spare_session


def main() -> int:
    if len(sys.argv) > 2 or sys.argv[1:] in (["-h"], ["--help"]):
        sys.stderr.write(__doc__ or "")
        return 2
    logs.configure()
    directory = Path(sys.argv[1]) if sys.argv[1:] else IN_INSTALLATION
    os.environ[class_archive.DIRECTORY] = str(directory.resolve())
    if not class_archive.is_there():
        with TemporaryDirectory(prefix="headgate-", ignore_cleanup_errors=True) as temporary:
            os.environ[java_options.DIRECTORY] = os.environ["SPARK_LOCAL_DIRS"] = temporary
            session = spare_session("local[2]")
            prime_session(session, is_wanted=lambda: False)
            session.close()
    return 0 if class_archive.is_there() else 1


if __name__ == "__main__":
    sys.exit(main())
