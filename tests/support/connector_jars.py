"""The jars that `make jars` has installed for the tests."""

import os
from pathlib import Path

from tests.support import s3a
from tests.support.maven_jars import jars_of

VARIABLE = "HEADGATE_CONNECTOR_JARS"
"""Where they are; `make test` and `make chaos` set it."""


def installed_jars() -> list[str]:
    """None where a test is run by hand without the variable. With the variable they must be there:
    a test that is skipped in `make test` would prove nothing.
    """
    shelf = os.environ.get(VARIABLE)
    if not shelf:
        return []
    found = sorted(map(str, Path(shelf).glob("*/*/*.jar")))
    assert found, f"{VARIABLE} is {shelf}, and no jar is there: run make jars"
    return [*found, *(map(str, jars_of("s3a")) if s3a.is_wanted() else ())]
