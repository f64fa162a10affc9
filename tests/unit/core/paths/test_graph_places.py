"""Everything in a graph that names a place is found, also in loops, options and settings."""

from typing import Any

import pytest

from jobmanager.core.graph import graph_document
from jobmanager.core.paths.graph_places import NamedPlace, option_faults, places_in

ROWS = {"id": "rows", "op": "source", "connector": "files", "format": "text", "path": "in"}
SINK = {"id": "out", "op": "sink", "inputs": ["rows"], "connector": "files", "format": "csv"}


def graph_of(*vertices: dict[str, Any], **fields: Any) -> Any:
    return graph_document.parse({"name": "g", "vertices": list(vertices), **fields})


def places(*vertices: dict[str, Any], **fields: Any) -> list[tuple[str | None, str, str]]:
    found = places_in(graph_of(*vertices, **fields))
    return [(one.vertex, one.field, one.text) for one in found]


def test_sources_sinks_and_models_tell_their_places() -> None:
    socket = {"id": "lines", "op": "source", "connector": "socket", "host": "h", "port": 9}
    model = {"id": "scored", "op": "ml", "inputs": ["lines"], "model": "s3://b/model"}
    union = {"id": "both", "op": "union", "inputs": ["rows", "scored"]}
    sink = {**SINK, "inputs": ["both"], "path": "/data/out"}

    assert places(ROWS, socket, model, union, sink) == [
        ("rows", "path", "in"),
        ("lines", "host", "socket://h:9"),
        ("scored", "model", "s3://b/model"),
        ("out", "path", "/data/out"),
    ]


def test_a_model_inside_of_a_loop_is_told_with_the_loop() -> None:
    scored = {"id": "scored", "op": "ml", "inputs": ["rows"], "model": "/models/m"}
    loop = {
        "id": "loop",
        "op": "iterate",
        "inputs": ["rows"],
        "body": [scored],
        "max_iterations": 2,
    }
    sink = {**SINK, "inputs": ["loop"], "path": "out"}

    assert ("loop/scored", "model", "/models/m") in places(ROWS, loop, sink, mode="batch")


@pytest.mark.parametrize(
    ("setting", "value", "found"),
    [
        ("spark.jars", "/a/x.jar,s3://b/y.jar", ["/a/x.jar", "s3://b/y.jar"]),
        ("spark.sql.warehouse.dir", "file:/srv/w", ["file:/srv/w"]),
        ("spark.driver.extraJavaOptions", "-Dx=1 -javaagent:/tmp/evil.jar", ["/tmp/evil.jar"]),
        ("spark.driver.extraJavaOptions", "-Dlog4j=/etc/l.xml", ["/etc/l.xml"]),
        ("spark.driver.extraClassPath", "/data/x:/etc", ["/data/x", "/etc"]),
        ("spark.jars.packages", "org.x:y:1.0", []),
        ("spark.eventLog.dir", "../up", ["../up"]),
        ("spark.sql.session.timeZone", "Europe/Berlin", []),
        ("spark.executor.memory", "2g", []),
        ("spark.sql.files.maxPartitionBytes", "128m", []),
    ],
)
def test_settings_of_spark_that_look_like_places_are_places(
    setting: str, value: str, found: list[str]
) -> None:
    sink = {**SINK, "path": "out"}
    named = places_in(graph_of(ROWS, sink, spark={setting: value}))

    expected = [NamedPlace(None, f"spark.{setting}", one) for one in found]
    assert [one for one in named if one.vertex is None] == expected


def test_options_that_look_like_places_are_places() -> None:
    options = {"cleanSource": "archive", "sourceArchiveDir": "/etc/archive", "sep": "/"}
    found = places({**ROWS, "options": options}, {**SINK, "path": "out"})

    assert found == [
        ("rows", "path", "in"),
        ("rows", "options.sourceArchiveDir", "/etc/archive"),
        ("out", "path", "out"),
    ]


@pytest.mark.parametrize("option", ["path", "PATHS", "__paths__", "fs.s3a.endpoint"])
def test_options_that_lead_spark_elsewhere_are_faults(option: str) -> None:
    graph = graph_of({**ROWS, "options": {option: "x"}}, {**SINK, "path": "out"})

    [fault] = option_faults(graph)

    assert (fault.vertex, fault.field) == ("rows", f"options.{option}")


def test_an_archive_of_input_files_is_named_in_full() -> None:
    for value, count in (("archive", 1), ("/data/archive", 0)):
        options = {"cleanSource": "archive", "sourceArchiveDir": value}
        graph = graph_of({**ROWS, "options": options}, {**SINK, "path": "out"})
        assert len(option_faults(graph)) == count


def test_what_options_mean_to_a_connector_of_the_user_is_left_to_it() -> None:
    source = {"id": "rows", "op": "source", "connector": "python", "class": "mine:Source"}
    options = {"path": "/data/in", "fs.x": "y"}
    graph = graph_of({**source, "options": options}, {**SINK, "path": "out"})

    assert option_faults(graph) == []
    assert NamedPlace("rows", "options.path", "/data/in") in places_in(graph)


def test_options_of_formats_are_fine() -> None:
    sink = {**SINK, "path": "out", "options": {"parquet.block.size": "1024", "header": "true"}}

    assert option_faults(graph_of(ROWS, sink)) == []
