"""The version of Headgate before this one: a commit of this repository, named in `PREVIOUS`.

A release moves `PREVIOUS` to the commit of the release before it.
"""

import io
import os
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PREVIOUS = Path(__file__).with_name("PREVIOUS")


def checked_out(directory: Path) -> Path:
    """The files of the previous version, below `directory`. Fails, and never skips, if the
    history of the repository is not there: an upgrade that nobody tried is not tested.
    """
    commit = PREVIOUS.read_text().strip()
    found = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "--format=tar", commit], capture_output=True
    )
    if found.returncode != 0:
        pytest.fail(
            f"the previous version, commit {commit}, is not in {ROOT}, so NO UPGRADE WAS TESTED. "
            "These tests need a git clone with its history: git fetch --unshallow. "
            f"git says: {found.stderr.decode(errors='replace').strip()}"
        )
    place = directory / "previous"
    # Python 3.11.2, which Debian has, knows no filters
    safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(fileobj=io.BytesIO(found.stdout)) as archive:
        archive.extractall(place, **safely)
    return place


def environment_of(place: Path) -> Mapping[str, str]:
    """Lets Python find the packages of the previous version before those of this version."""
    return {**os.environ, "PYTHONPATH": str(place), "PYTHONSAFEPATH": "1"}
