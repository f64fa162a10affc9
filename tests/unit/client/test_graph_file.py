import io
from pathlib import Path

import pytest

from jobmanager.client import graph_file
from jobmanager.client.errors import UnreadableGraph
from jobmanager.core.graph import graph_document

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))


def test_json_is_read_as_yaml_is(tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_text('{"name": "a", "parallelism": 2}')
    (tmp_path / "graph.yaml").write_text("name: a\nparallelism: 2\n")

    as_json = graph_file.read(str(tmp_path / "graph.json"))

    assert (
        as_json == graph_file.read(str(tmp_path / "graph.yaml")) == {"name": "a", "parallelism": 2}
    )


def test_a_dash_reads_the_standard_input() -> None:
    assert graph_file.read("-", io.StringIO("name: piped")) == {"name": "piped"}


def test_words_and_dates_stay_texts() -> None:
    text = "{on: [a], answer: no, day: 2026-11-16, at: 2026-11-16 10:00:00, bounded: true}"

    assert graph_file.read("-", io.StringIO(text)) == {
        "on": ["a"],
        "answer": "no",
        "day": "2026-11-16",
        "at": "2026-11-16 10:00:00",
        "bounded": True,
    }


def test_a_file_that_is_no_graph_is_refused_with_its_place() -> None:
    with pytest.raises(UnreadableGraph, match=r"^- is neither YAML nor JSON: .*line 2, column"):
        graph_file.read("-", io.StringIO("name: a\nvertices: [}\n"))
    with pytest.raises(UnreadableGraph, match="is not a job graph"):
        graph_file.read("-", io.StringIO("[1, 2]"))


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnreadableGraph, match=r"gone\.yaml cannot be read: No such file"):
        graph_file.read(str(tmp_path / "gone.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_a_graph_without_faults(path: Path) -> None:
    assert graph_document.parse(graph_file.read(str(path))).name == path.stem
