"""The previous version's code on this version's schema, and its messages."""

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobmanager.core import progress
from jobmanager.protocol import messages, versions
from tests.integration.upgrade.previous_version import ROOT, checked_out, environment_of

OWN_TESTS = (
    "tests/integration/store/test_restore_points.py",
    "tests/integration/api/test_lifecycle.py",
    "tests/integration/api/test_checkpoints.py",
)
"""Of the previous version: they write and read the tables that the life of a job needs."""
_FIELDS = """
import dataclasses, json, jobmanager
from jobmanager.core import progress
from jobmanager.protocol import messages
found = {}
for module in (progress, messages):
    for name, one in vars(module).items():
        if dataclasses.is_dataclass(one):
            found[name] = [field.name for field in dataclasses.fields(one)]
        elif isinstance(one, type) and issubclass(one, messages.Message):
            found[name] = list(one.model_fields)
print(json.dumps([jobmanager.__file__, messages.PROTOCOL_VERSION, found]))
"""


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checked_out(tmp_path_factory.mktemp("upgrade"))


def python(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=place,
        env=environment_of(place),
        capture_output=True,
        text=True,
    )


def fields_of(shape: type[object]) -> set[str]:
    if dataclasses.is_dataclass(shape):
        return {one.name for one in dataclasses.fields(shape)}
    return set(getattr(shape, "model_fields", ()))


def test_the_messages_of_the_previous_version_are_known_field_by_field(previous: Path) -> None:
    """What `versions.py` writes for version 1 is what version 1 reads; and no field is gone."""
    ran = python(previous, "-c", _FIELDS)
    assert ran.returncode == 0, ran.stderr
    place, version, found = json.loads(ran.stdout)
    assert place.startswith(str(previous)), "another version answered"
    assert versions.works_with(version)

    ours = {**vars(progress), **vars(messages)}
    for name, fields in found.items():
        assert name == "Message" or name in ours, f"{name} is gone"
        if name != "Message":
            assert set(fields) <= fields_of(ours[name]), f"a field of {name} is gone"
            if version == 1:
                assert versions.fields_in_version_1(ours[name]) == set(fields)


@pytest.mark.long
def test_the_previous_versions_code_works_on_this_versions_schema(previous: Path) -> None:
    """Its own tests of jobs, attempts, runners and checkpoints, on a database that has the
    migrations of this version: all of them, because its check of the revision finds them.
    """
    shutil.rmtree(previous / "migrations")
    shutil.copytree(ROOT / "migrations", previous / "migrations")

    ran = python(previous, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-x", *OWN_TESTS)

    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout
