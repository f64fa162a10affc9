"""What an installed Headgate holds, and what a fresh machine is told to install."""

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    directory = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    with zipfile.ZipFile(next(directory.glob("headgate-*.whl"))) as built:
        yield built


@pytest.mark.needs_node
def test_a_wheel_holds_both_packages_and_their_types(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()

    assert "jobmanager/core/life/checkpoint.py" in names
    assert "jobmanager/py.typed" in names
    assert "taskrunner/__init__.py" in names
    assert not [name for name in names if name.startswith(("tests/", "migrations/", "examples/"))]


@pytest.mark.needs_node
def test_a_wheel_holds_every_migration_and_the_quickstart(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    migrations = {
        f"jobmanager/{path.relative_to(ROOT)}" for path in (ROOT / "migrations").rglob("*.py")
    }

    assert migrations
    assert migrations <= names
    assert "jobmanager/examples/quickstart.yaml" in names


@pytest.mark.needs_node
def test_a_wheel_holds_the_dashboard_and_not_its_sources(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    page = wheel.read("jobmanager/dashboard/index.html").decode()
    wanted = re.findall(r'"\./(assets/[^"]+)"', page)

    assert len(wanted) >= 2
    assert {f"jobmanager/dashboard/{one}" for one in wanted} <= set(names)
    assert not [name for name in names if name.startswith("web/") or "node_modules" in name]


def test_the_lock_of_npm_packages_names_no_place_to_fetch_from() -> None:
    lock = json.loads((ROOT / "web" / "package-lock.json").read_text())

    assert lock["packages"]
    assert not [name for name, one in lock["packages"].items() if "resolved" in one]


@pytest.mark.needs_node
def test_a_wheel_brings_the_headgate_command(wheel: zipfile.ZipFile) -> None:
    entry_points = next(name for name in wheel.namelist() if name.endswith("entry_points.txt"))

    assert b"headgate = jobmanager.command:main" in wheel.read(entry_points)


def test_every_direct_dependency_has_an_exact_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {re.split(r"[\[<>=]", one, maxsplit=1)[0].lower() for one in wanted}

    pinned = set(re.findall(r"^([a-z0-9._-]+)==", _constraints(), flags=re.MULTILINE))

    assert names <= pinned


def test_constraints_name_no_place_to_fetch_from() -> None:
    assert "://" not in _constraints()
    assert not re.findall(r"^\s*-", _constraints(), flags=re.MULTILINE)


def _constraints() -> str:
    return (ROOT / "constraints.txt").read_text()
