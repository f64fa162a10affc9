"""Jars: names, arguments, and settings of Flink."""

import pytest

from jobmanager.core.errors import InvalidArtifact, MalformedRequest
from jobmanager.core.flink_configuration import whole, with_configuration
from jobmanager.core.graph.parallelism import nearest_parallelism
from jobmanager.core.jar import arguments_in, artifact_name, check_name, is_graph


@pytest.mark.parametrize("name", ["job.json", "job.yaml", "a-1.2.jar", "work.py", "x_1.whl"])
def test_what_can_be_run_can_be_uploaded(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", "job", "a/b.json", "..json", ".py", "a\n.py", "x.exe"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidArtifact, match="upload a job graph"):
        check_name(name)


def test_a_jar_is_a_zip() -> None:
    assert artifact_name("flink-job.jar") == "flink-job.zip"
    assert artifact_name("work.py") == "work.py"
    assert is_graph("job.yml")
    assert not is_graph("job.zip")


def test_arguments_are_split_at_spaces_outside_of_quotes() -> None:
    text = """--in  "a b" --out 'c d' --n 3 "" """

    assert arguments_in(text) == ["--in", "a b", "--out", "c d", "--n", "3", ""]


def test_settings_of_flink_change_the_graph() -> None:
    graph = {"name": "a", "checkpointing": {"retained": 5}, "spark": {"spark.x": "1"}}
    changed = with_configuration(
        graph,
        {
            "pipeline.name": "b",
            "pipeline.max-parallelism": "64",
            "execution.checkpointing.interval": "30 s",
            "execution.checkpointing.timeout": "90000",
            "spark.sql.ansi.enabled": "false",
            "kubernetes.cluster-id": "ignored",
        },
    )

    assert changed == {
        "name": "b",
        "max_parallelism": 64,
        "checkpointing": {"retained": 5, "interval": "30s", "timeout": "90s"},
        "spark": {"spark.x": "1", "spark.sql.ansi.enabled": "false"},
    }
    assert with_configuration(graph, {}) == graph


@pytest.mark.parametrize(
    "wrong",
    [
        {"execution.checkpointing.interval": "soon"},
        {"execution.checkpointing.interval": "999999999999 d"},
        {"pipeline.max-parallelism": "-1"},
    ],
)
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(MalformedRequest):
        with_configuration({"name": "a"}, wrong)


def test_whole_numbers_may_be_left_out() -> None:
    assert whole({}, "parallelism.default") is None
    assert whole({"parallelism.default": " 4 "}, "parallelism.default") == 4


@pytest.mark.parametrize(
    ("least", "most", "found"), [(1, 8, 8), (1, 7, 4), (1, 1, 1), (3, 3, 4), (9, 9, 8), (5, 100, 8)]
)
def test_a_parallelism_is_rounded_to_what_divides(least: int, most: int, found: int) -> None:
    assert nearest_parallelism(8, least, most) == found
