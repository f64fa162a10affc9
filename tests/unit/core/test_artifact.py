"""What is read from an uploaded file, and what is wrong with the functions a graph names."""

import io
import stat
import tracemalloc
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from typing import IO

import pytest

from jobmanager.core import artifact
from jobmanager.core.artifact import UploadLimits
from jobmanager.core.errors import ArtifactStoreFull, InvalidArtifact
from jobmanager.core.graph import function_references, graph_document
from jobmanager.core.graph.connectors.python_classes import PythonSource
from jobmanager.core.graph.inputs import Input
from jobmanager.core.graph.iterations import Iterate
from jobmanager.core.graph.module_names import ModuleNames, names_in
from jobmanager.core.graph.process_functions import Python
from jobmanager.core.graph.sources import Source
from jobmanager.core.ids import VertexId
from jobmanager.files.zip_entries import unpacked
from tests.support.builders import a_document


def read(name: str, content: IO[bytes]) -> Mapping[str, ModuleNames]:
    return artifact.read(name, content, unpacked)


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

    found = read("lib.zip", io.BytesIO(content))

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
        read(name, io.BytesIO(content))


def test_a_wheel_with_compiled_code_is_refused() -> None:
    with pytest.raises(InvalidArtifact, match=r"fast\.so"):
        read("a-1.0-py3-none-any.whl", io.BytesIO(_zip({"a.py": "", "fast.so": ""})))


def test_a_zip_without_modules_at_its_top_is_refused() -> None:
    with pytest.raises(InvalidArtifact, match="has no Python module"):
        read("a.zip", io.BytesIO(_zip({"my-project/a.py": ""})))


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


def _refused(files: dict[str, str | zipfile.ZipInfo]) -> str:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("sound.py", "")
        for name, held in files.items():
            archive.writestr(held if isinstance(held, zipfile.ZipInfo) else name, str(held))
    with pytest.raises(InvalidArtifact) as raised:
        read("a.zip", made)
    return str(raised.value)


@pytest.mark.parametrize("name", ["../up.py", "/etc/x.py", "a/../../x.txt", "a\\..\\b.txt"])
def test_a_zip_that_would_unpack_to_somewhere_else_is_refused(name: str) -> None:
    assert "leads out of the zip" in _refused({name: "x"})


def test_a_link_in_a_zip_is_refused() -> None:
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16

    assert "is a symbolic link" in _refused({"link": link})


def test_a_zip_bomb_is_refused() -> None:
    assert "times as large" in _refused({"zeros.bin": "\0" * (artifact.MOST_SMALL_BYTES + 1)})


def test_a_zip_of_too_many_bytes_or_entries_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact, "MOST_UNPACKED_BYTES", 1000)
    assert "unpacks to 1002 bytes: 1000 at most" in _refused({"x": "y" * 501, "z": "y" * 501})

    monkeypatch.setattr(artifact, "MOST_ENTRIES", 3)
    assert "has 4 entries: 3 at most" in _refused(dict.fromkeys("abc", ""))


def test_a_module_or_text_that_would_cost_too_much_to_read_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(artifact, "MOST_MODULE_BYTES", 100)
    with pytest.raises(InvalidArtifact, match=r"a\.py is a Python module of more than 100 bytes"):
        read("a.py", io.BytesIO(b"#" * 101))
    assert "big.py in a.zip is a Python module of more than" in _refused({"big.py": "#" * 101})

    monkeypatch.setattr(artifact, "MOST_SOURCE_BYTES", 150)
    told = _refused({"a.py": "#" * 90, "b.py": "#" * 90})
    assert "more than 150 bytes of Python text" in told


def test_a_size_that_a_zip_does_not_tell_is_not_unpacked() -> None:
    made = bytearray(_zip({"a.py": "x = 1\n" * 100}))
    at = made.rindex(b"PK\x01\x02")
    made[at + 24 : at + 28] = (10).to_bytes(4, "little")  # 10 bytes, says the directory

    with pytest.raises(InvalidArtifact):
        read("a.zip", io.BytesIO(bytes(made)))


def test_no_more_is_unpacked_than_a_zip_tells() -> None:
    """`ZipFile.read` would unpack all 100 MB of it before it compares the sizes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.py", b"#" * 100_000_000)
    lying = bytearray(packed.getvalue())
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = lying.index(signature) + offset
        lying[at : at + 4] = (1000).to_bytes(4, "little")

    tracemalloc.start()
    try:
        with pytest.raises(InvalidArtifact):
            read("bomb.zip", io.BytesIO(lying))
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_is_packed_as_python_imports_it(kind: int) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", kind) as archive:
        archive.writestr("module.py", b"A = 1\n")

    with pytest.raises(InvalidArtifact, match="deflate"):
        read("module.zip", packed)


@pytest.mark.parametrize("count", [500, 1_500, 20_000])
def test_a_module_of_any_depth_is_read_or_refused(count: int) -> None:
    middle = "".join(f"elif x == {n}:\n    y = {n}\n" for n in range(count))
    found = names_in(f"x = 1\nif x:\n    y = 1\n{middle}")

    assert found.names == {"x", "y"} or found.error is not None


def test_a_server_keeps_so_many_artifacts_of_so_many_bytes() -> None:
    limits = UploadLimits(total_bytes=100, total_count=2)

    artifact.check_total(limits, 1, 60, 40)
    with pytest.raises(ArtifactStoreFull, match="headgate artifacts delete"):
        artifact.check_total(limits, 1, 60, 41)
    with pytest.raises(ArtifactStoreFull, match="keeps 2 artifacts, and 2 at most"):
        artifact.check_total(limits, 2, 60, 1)


def _zip(files: dict[str, str]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return made.getvalue()
