"""Where links lead: a link inside of an allowed root that points out is no way out."""

from pathlib import Path

import pytest

from jobmanager.core.errors import PathNotAllowed
from jobmanager.core.graph import graph_document
from jobmanager.core.paths.allowed_paths import AllowedPaths
from jobmanager.files.resolved_places import graph_faults, path_rules, place_fault
from taskrunner.snapshots.layout import JobLayout
from taskrunner.spark.run.job_paths import JobPaths


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    data = tmp_path / "data"
    data.mkdir()
    return data


def rule_of(data: Path) -> AllowedPaths:
    return path_rules([str(data)], [str(data)], str(data)).graphs


def test_a_link_that_points_out_is_refused_and_one_that_stays_inside_is_not(data: Path) -> None:
    (data / "out").symlink_to(data.parent / "outside")
    (data / "deep").mkdir()
    (data / "inside").symlink_to(data / "deep")

    rule = rule_of(data)

    assert place_fault(rule, "inside/new") is None
    told = place_fault(rule, "out/new")
    assert told is not None
    assert f"leads to {data.parent}/outside/new through a symbolic link" in told
    assert place_fault(rule, f"file://{data}/out") is not None


def test_a_step_back_behind_a_link_counts_as_the_kernel_takes_it(data: Path) -> None:
    """By name `link/..` is where the link is; for the kernel the parent of where it leads to."""
    (data.parent / "outside" / "deep").mkdir()
    (data / "link").symlink_to(data.parent / "outside" / "deep")

    rule = rule_of(data)

    for text in ("link/../x", f"{data}/link/../x", f"file://{data}/link/%2e%2e/x"):
        told = place_fault(rule, text)
        assert told is not None
        assert f"leads to {data.parent}/outside/x" in told


def test_a_root_that_is_a_link_itself_allows_what_it_leads_to(data: Path, tmp_path: Path) -> None:
    (tmp_path / "named").symlink_to(data)

    rule = rule_of(tmp_path / "named")

    assert place_fault(rule, f"{tmp_path}/named/x") is None
    assert place_fault(rule, f"{data}/x") is None
    assert place_fault(rule, f"{tmp_path}/outside") is not None


def test_every_fault_of_a_graph_is_told_at_once(data: Path) -> None:
    (data / "link").symlink_to("/etc")
    document = {
        "name": "g",
        "spark": {"spark.jars": "/tmp/evil.jar"},
        "vertices": [
            {"id": "a", "op": "source", "connector": "files", "format": "text", "path": "/etc"},
            {"id": "b", "op": "source", "connector": "files", "format": "text", "path": "link/x"},
            {"id": "c", "op": "source", "connector": "files", "format": "text", "path": "fine",
             "options": {"path": "/etc"}},
            {"id": "all", "op": "union", "inputs": ["a", "b", "c"]},
            {"id": "out", "op": "sink", "inputs": ["all"], "connector": "files", "format": "text",
             "path": "../out"},
        ],
    }  # fmt: skip

    faults = graph_faults(rule_of(data), graph_document.parse(document))

    assert [(one.vertex, one.field) for one in faults] == [
        ("c", "options.path"),
        ("a", "path"),
        ("b", "path"),
        ("c", "options.path"),
        ("out", "path"),
        (None, "spark.spark.jars"),
    ]
    assert all(str(data) in one.message for one in faults if one.field != "options.path")


def test_the_runner_refuses_a_link_that_was_made_after_the_submission(data: Path) -> None:
    rules = path_rules([str(data)], [str(data)], str(data))
    paths = JobPaths(JobLayout(data.parent / "job"), data, rules=rules)
    assert paths.resolve("in") == data / "in"

    (data / "in").symlink_to("/etc")

    for text in ("in", "in/passwd", f"file://{data}/in", " file:///etc/passwd", "../outside"):
        with pytest.raises(PathNotAllowed, match="not allowed"):
            paths.resolve(text)


def test_without_rules_the_runner_takes_any_path(data: Path) -> None:
    paths = JobPaths(JobLayout(data.parent / "job"), data)

    assert paths.resolve("/etc") == Path("/etc")


def test_the_runner_refuses_a_link_among_the_files_that_it_is_to_read(data: Path) -> None:
    (data / "in" / "k=1").mkdir(parents=True)
    (data / "in" / "k=1" / "a").write_text("1")
    (data / "in" / "k=1" / "b").symlink_to(data / "in" / "k=1" / "a")
    rules = path_rules([str(data)], [str(data)], str(data))
    paths = JobPaths(JobLayout(data.parent / "job"), data, rules=rules)
    assert paths.resolve_input("in") == data / "in"

    (data / "in" / "k=2").symlink_to(data.parent / "outside")

    with pytest.raises(PathNotAllowed, match="through a symbolic link"):
        paths.resolve_input("in")
    assert JobPaths(paths.layout, data).resolve_input("in") == data / "in"
