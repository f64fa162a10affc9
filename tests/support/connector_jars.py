"""The jars that `make jars` has installed for the tests."""

import os
from pathlib import Path

VARIABLE = "HEADGATE_CONNECTOR_JARS"
"""Where they are; `make test` and `make chaos` set it."""


def installed_jars() -> list[str]:
    """None where a test is run by hand without the variable."""
    shelf = os.environ.get(VARIABLE)
    return sorted(map(str, Path(shelf).glob("*/*/*.jar"))) if shelf else []
