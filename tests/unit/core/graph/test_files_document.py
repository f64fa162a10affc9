"""What the connector `files` takes: paths on remote file systems, and the size of files."""

from typing import Any

import pytest

from jobmanager.core.access.graph_rules import role_of_graph
from jobmanager.core.access.roles import Role
from jobmanager.core.errors import InvalidJobGraph
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.connector_requirements import requirements
from jobmanager.core.graph.connectors.files import FilesSink
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.paths.allowed_paths import AllowedPaths, Root
from jobmanager.core.paths.location import location_of
from jobmanager.core.runner_reuse import obstacle
from jobmanager.files.resolved_places import graph_faults

READ = {"connector": "files", "format": "json", "path": "in", "schema": "a INT"}
WRITE = {"connector": "files", "format": "parquet", "path": "out"}


def a_document(source: dict[str, Any] | None = None, sink: dict[str, Any] | None = None) -> Any:
    vertices = [
        {"id": "in", "op": "source", **READ, **(source or {})},
        {"id": "out", "op": "sink", "inputs": ["in"], **WRITE, **(sink or {})},
    ]
    return {"name": "x", "vertices": vertices}


def parsed(source: dict[str, Any] | None = None, sink: dict[str, Any] | None = None) -> JobGraph:
    return graph_document.parse(a_document(source, sink))


def faults_of(document: Any) -> list[tuple[str | None, str, str]]:
    with pytest.raises(InvalidJobGraph) as refused:
        graph_document.parse(document)
    return [(one.vertex, one.field, one.message) for one in refused.value.faults]


def sink_of(graph: JobGraph) -> FilesSink:
    sink = graph.vertex(graph.vertices[-1].id)
    assert isinstance(sink, Sink)
    assert isinstance(sink.connector, FilesSink)
    return sink.connector


def test_files_on_s3_need_the_connector_package_and_files_on_hdfs_do_not() -> None:
    on_hdfs = {"path": "hdfs://nn:8020/in"}
    on_s3 = {"path": "s3a://bucket/out", "format": "avro"}

    assert list(requirements(parsed(on_hdfs))) == []
    assert list(requirements(parsed(on_hdfs, on_s3))) == [("out", "avro"), ("out", "s3")]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("s3://bucket/x", "files on s3: cannot be read or written: write s3a://"),
        ("S3A://bucket/x", "write s3a://"),
        ("gs://bucket/x", "name a path or a URI (file://, hdfs://, s3a://)"),
        ("hdfs:///x", "does not name a bucket or host"),
        ("hdfs:/x", "is neither a path nor a URI"),
        ("s3a://key@bucket/x", "does not name a bucket or host, or names a user in it"),
        ("s3a://bucket/a/../b", "has '..'"),
    ],
)
def test_a_path_that_leads_nowhere_is_a_fault_of_source_and_sink(path: str, message: str) -> None:
    found = faults_of(a_document({"path": path}, {"path": path}))

    assert [(vertex, field) for vertex, field, _ in found] == [("in", "path"), ("out", "path")]
    assert all(message in told for _, _, told in found)


def test_a_colon_in_a_relative_path_is_no_scheme() -> None:
    assert sink_of(parsed(sink={"path": "out:2026"})).path == "out:2026"


@pytest.mark.parametrize("path", ["s3a://bucket", "hdfs://nn:8020/"])
def test_a_sink_is_a_directory_below_the_root(path: str) -> None:
    assert [one[:2] for one in faults_of(a_document(sink={"path": path}))] == [("out", "path")]
    parsed({"path": path})


def test_two_spellings_of_a_remote_directory_are_one_output() -> None:
    ours = sink_of(parsed(sink={"path": "hdfs://nn:8020/a//b/"}))
    other = sink_of(parsed(sink={"path": "hdfs://nn:8020/a/./b"}))

    assert ours.exclusive_output(str) == other.exclusive_output(str) == "hdfs://nn:8020/a/b"


def test_remote_paths_have_to_be_below_an_allowed_path() -> None:
    roots = [location_of(one, "/") for one in ("/data", "s3a://bucket/jobs")]
    rule = AllowedPaths("/data", tuple(Root(one, one) for one in roots))

    def fields(source: str, sink: str) -> list[tuple[str | None, str]]:
        found = graph_faults(rule, parsed({"path": source}, {"path": sink}))
        return [(one.vertex, one.field) for one in found]

    assert fields("s3a://bucket/jobs/in", "s3a://bucket/jobs/out") == []
    assert fields("s3a://bucket/other", "hdfs://nn/jobs/x") == [("in", "path"), ("out", "path")]


def test_settings_of_a_file_system_are_for_developers_and_end_with_the_process() -> None:
    options = {"fs.s3a.secret.key": "${secret:key}"}
    document = a_document({"options": options})
    graph = graph_document.parse(document)

    assert role_of_graph(document, graph)[0] is Role.DEVELOPER
    assert obstacle(document, graph) is not None
    plain = a_document({"options": {"multiLine": "true"}})
    assert role_of_graph(plain, graph_document.parse(plain))[0] is Role.OPERATOR


def test_a_sink_has_a_target_for_the_size_of_its_files() -> None:
    assert sink_of(parsed(sink={"target_file_size": "128MB"})).target_file_size == 128 << 20
    assert sink_of(parsed()).target_file_size is None


@pytest.mark.parametrize("size", [128, "128", "1B", "0KB", "5000TB", ["1MB"], True])
def test_a_size_that_is_none_is_a_fault(size: Any) -> None:
    found = faults_of(a_document({"path": "gs://x"}, {"target_file_size": size}))

    assert [one[:2] for one in found] == [("in", "path"), ("out", "target_file_size")]
