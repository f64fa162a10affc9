"""Where an installation keeps the archive of Spark's classes that all its servers use."""

import os
import sys
from pathlib import Path

IN_INSTALLATION = Path(sys.prefix) / "share" / "headgate" / "classes"
"""Made by `python -m taskrunner.archive_classes`."""


def installed_archives() -> Path | None:
    """The directory, if this installation has one that is of use: with an archive, or with room for
    the archive that fits after Java was updated.
    """
    there = IN_INSTALLATION
    if there.is_dir() and (os.access(there, os.W_OK) or any(there.glob("*.jsa"))):
        return there
    return None
