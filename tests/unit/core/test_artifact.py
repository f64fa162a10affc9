"""What is read from an uploaded file, and what is wrong with the functions a graph names."""

import io
import zipfile
from dataclasses import replace

import pytest

from jobmanager.core import artifact
from jobmanager.core.errors import InvalidArtifact
from jobmanager.core.graph import function_references, graph_document
from jobmanager.core.graph.inputs import Input
from jobmanager.core.graph.iterations import Iterate
from jobmanager.core.graph.module_names import ModuleNames, names_in
from jobmanager.core.graph.process_functions import Python
from jobmanager.core.graph.sources import PythonSource, Source
from jobmanager.core.ids import VertexId
from tests.support.builders import a_document

_MODULE = b"""
import os, json as j
import a.b
from x import y as z, w
LIMIT: int = 3
first, (second, *rest) = 1, (2, 3)
if LIMIT:
    def conditional(): inner = 1
else:
    class Other: attribute = 1
try:
    import fast
except ImportError:
    fast = None
with open("x") as handle:
    pass
for index in range(3):
    last = index
async def later(): pass
match LIMIT:
    case 3: matched = True
"""


def test_the_names_of_a_module_are_those_its_import_would_bind() -> None:
    found = names_in(_MODULE)

    assert found.names == {
        *("os", "j", "a", "z", "w", "LIMIT", "first", "second", "rest", "conditional", "Other"),
        *("fast", "handle", "index", "last", "later", "matched"),
    }
    assert not found.is_open


@pytest.mark.parametrize("text", ["from x import *", "def __getattr__(name): ..."])
def test_a_module_that_can_have_any_name_has_any_name(text: str) -> None:
    assert names_in(text).has("whatever")


def test_a_module_is_only_read_never_run() -> None:
    assert names_in("raise SystemExit('it was run')").error is None


def test_a_text_that_is_no_python_says_where() -> None:
    assert names_in("x = 1\ndef (") == ModuleNames(error="line 2: invalid syntax")


def test_modules_of_a_zip_have_dotted_names() -> None:
    content = _zip({"top.py": "A = 1", "pkg/__init__.py": "", "pkg/sub.py": "def f(): ..."})

    found = artifact.read("lib.zip", content)

    assert set(found) == {"top", "pkg", "pkg.sub"}
    assert found["pkg.sub"].names == {"f"}


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.tar", b"x", "is not the name of an artifact"),
        ("../a.py", b"x", "is not the name of an artifact"),
        ("a-b.py", b"x = 1", "'a-b' is not a Python name"),
        ("a.py", b"", "is empty"),
        ("a.py", b"def (", "a.py is not Python: line 1"),
        ("a.zip", b"no zip", "is not a zip file"),
    ],
)
def test_what_no_job_could_use_is_refused(name: str, content: bytes, told: str) -> None:
    with pytest.raises(InvalidArtifact, match=told):
        artifact.read(name, content)


def test_a_wheel_with_compiled_code_is_refused() -> None:
    with pytest.raises(InvalidArtifact, match=r"fast\.so"):
        artifact.read("a-1.0-py3-none-any.whl", _zip({"a.py": "", "fast.so": ""}))


def test_a_zip_without_modules_at_its_top_is_refused() -> None:
    with pytest.raises(InvalidArtifact, match="has no Python module"):
        artifact.read("a.zip", _zip({"my-project/a.py": ""}))


def a_function(name: str, reference: str) -> Python:
    return Python(VertexId(name), (Input(VertexId("bids")),), reference, "a INT")


def test_references_are_found_in_sub_graphs_too() -> None:
    source = Source(VertexId("bids"), (), PythonSource("pkg.m:Class"), None)
    body = (a_function("inner", "f:g"),)
    loop = Iterate(VertexId("loop"), (Input(source.id),), body, VertexId("inner"), 3)
    graph = replace(graph_document.parse(a_document()), vertices=(source, loop))

    found = function_references.references(graph)

    assert [(one.vertex, one.field, one.module, one.name) for one in found] == [
        ("bids", "class", "pkg.m", "Class"),
        ("inner", "function", "f", "g"),
    ]


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("mine:work", None),
        ("mine:Class.method", None),
        ("mine:worc", "has no 'worc' at its top level: did you mean 'work'?"),
        ("mien:work", "there is no module 'mien'"),
        ("mien:work", "did you mean 'mine'?"),
        ("broken:work", "module 'broken' is not Python: line 1"),
    ],
)
def test_a_function_that_is_not_there_is_a_fault_with_what_is_close(
    reference: str, told: str | None
) -> None:
    modules = {"mine": names_in("def work(): ...\nclass Class: ..."), "broken": names_in("(")}
    graph = replace(graph_document.parse(a_document()), vertices=(a_function("one", reference),))

    found = function_references.faults(graph, modules.get, lambda: sorted(modules))

    assert [(one.vertex, one.field) for one in found] == ([("one", "function")] if told else [])
    assert told is None or told in found[0].message


def _zip(files: dict[str, str]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return made.getvalue()
