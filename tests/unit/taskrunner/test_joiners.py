"""Lines and Avro blocks that become one file: byte by byte, on this machine."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.graph.file_format import FileFormat
from taskrunner.core.file_joins import Bin, JoinedFile
from taskrunner.core.sink_records import OutputFile
from taskrunner.sinks.joined_avro import AvroJoiner, count_rows
from taskrunner.sinks.joined_text import TextJoiner
from taskrunner.sinks.joiner import BreakOff, FileJoiner, JoinRefused
from taskrunner.sinks.output_files import LOCAL

NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


def join(root: Path, joiner: FileJoiner, contents: Sequence[bytes], ending: str) -> Path:
    parts = [root / f"{number}.{ending}" for number in range(len(contents))]
    for part, content in zip(parts, contents, strict=True):
        part.write_bytes(content)
    files = (OutputFile(one.name, one.name, one.stat().st_size) for one in parts)
    [joined] = joiner.join([Bin(tuple(files))], root, root / "staged", BreakOff())
    assert isinstance(joined, JoinedFile)
    found = root / joined.staged
    assert found.stat().st_size == joined.bytes
    assert found.suffix == f".{ending}"
    return found


def of_text(
    file_format: FileFormat,
    options: Mapping[str, str] = NO_OPTIONS,
    columns: Sequence[str] = ("id", "name"),
) -> TextJoiner:
    return TextJoiner(LOCAL, file_format, options, columns)


def a_file(name: str) -> OutputFile:
    return OutputFile(f"staging/1-2-x/{name}", name, 10)


def test_lines_follow_each_other(tmp_path: Path) -> None:
    contents = [b'{"a": 1}\n{"a": 2}\n', b"", b'{"a": "\r"}\n']
    with pytest.raises(JoinRefused, match="does not end with the end of a line"):
        join(tmp_path, of_text(FileFormat.JSON), contents, "json")

    (tmp_path / "again").mkdir()
    whole = [one for one in contents if one]
    file = join(tmp_path / "again", of_text(FileFormat.JSON), whole, "json")
    assert file.read_bytes() == b"".join(contents)


def test_the_header_is_there_once(tmp_path: Path) -> None:
    contents = [b"id,name\n1,a\n", b"id,name\n", b'id,name\n2,"b\nc"\n']
    file = join(tmp_path, of_text(FileFormat.CSV, {"Header": "TRUE"}), contents, "csv")

    assert file.read_bytes() == b'id,name\n1,a\n2,"b\nc"\n'


def test_without_the_option_the_first_line_is_a_row(tmp_path: Path) -> None:
    file = join(tmp_path, of_text(FileFormat.CSV), [b"1,a\n", b"1,a\n"], "csv")

    assert file.read_bytes() == b"1,a\n1,a\n"


def test_files_with_other_headers_are_not_joined(tmp_path: Path) -> None:
    contents = [b"id,name\n1,a\n", b"name,id\na,1\n"]
    with pytest.raises(JoinRefused, match="has another header"):
        join(tmp_path, of_text(FileFormat.CSV, {"header": "true"}), contents, "csv")


def test_a_line_may_have_another_end(tmp_path: Path) -> None:
    options = {"lineSep": "||", "header": "true", "extension": "tsv"}
    contents = [b"id||1||", b"id||2\n||"]
    file = join(tmp_path, of_text(FileFormat.CSV, options), contents, "tsv")

    assert file.read_bytes() == b"id||1||2\n||"


@pytest.mark.parametrize(
    ("file_format", "options", "columns", "name"),
    [
        (FileFormat.JSON, {}, ("a",), "x-00001.json.gz"),
        (FileFormat.TEXT, {}, ("a",), "x-00001.txt.zst"),
        (FileFormat.JSON, {"encoding": "UTF-16"}, ("a",), "x-00001.json"),
        (FileFormat.CSV, {"charset": "latin1"}, ("a",), "x-00001.csv"),
        (FileFormat.CSV, {"header": "true"}, ("two\nlines",), "x-00001.csv"),
        (FileFormat.CSV, {"extension": "tsv"}, ("a",), "x-00001.csv"),
    ],
)
def test_what_is_not_plain_lines_is_left_as_it_is(
    file_format: FileFormat, options: Mapping[str, str], columns: Sequence[str], name: str
) -> None:
    assert not of_text(file_format, options, columns).can_join(a_file(name))


def test_what_is_plain_lines_is_joined() -> None:
    assert of_text(FileFormat.JSON, {"encoding": "utf-8"}).can_join(a_file("day=1/x-00001.json"))
    assert of_text(FileFormat.CSV, {"header": "true"}).can_join(a_file("x-00001.csv"))
    assert of_text(FileFormat.TEXT).can_join(a_file("x-00001.txt"))


# ── Avro ──────────────────────────────────────────────────────────────────────


def a_long(value: int) -> bytes:
    number, out = (value << 1) ^ (value >> 63), bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def some_bytes(value: bytes) -> bytes:
    return a_long(len(value)) + value


def avro(
    blocks: Sequence[tuple[int, bytes]], schema: bytes = b'"long"', codec: bytes = b"null"
) -> bytes:
    marker = os.urandom(16)
    entries = {b"avro.schema": schema, b"avro.codec": codec, b"writer": os.urandom(3)}
    pairs = b"".join(some_bytes(name) + some_bytes(value) for name, value in entries.items())
    header = b"Obj\x01" + a_long(-len(entries)) + a_long(len(pairs)) + pairs + a_long(0) + marker
    body = (a_long(rows) + some_bytes(content) + marker for rows, content in blocks)
    return header + b"".join(body)


BLOCKS = st.lists(st.tuples(st.integers(0, 1 << 40), st.binary(max_size=300)), max_size=4)


@given(st.lists(BLOCKS, min_size=2, max_size=5))
def test_blocks_follow_each_other_and_their_rows_are_counted(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[tuple[int, bytes]]]
) -> None:
    root = tmp_path_factory.mktemp("avro")
    contents = [avro(one) for one in files]
    file = join(root, AvroJoiner(), contents, "avro")

    assert count_rows(file) == sum(rows for one in files for rows, _ in one)
    content = file.read_bytes()
    for rows, block in (pair for one in files for pair in one):
        assert a_long(rows) + some_bytes(block) in content


def test_avro_files_with_other_schemas_or_codecs_are_not_joined(tmp_path: Path) -> None:
    for number, other in enumerate([avro([], schema=b'"int"'), avro([], codec=b"deflate")]):
        (root := tmp_path / str(number)).mkdir()
        with pytest.raises(JoinRefused, match="another schema or codec"):
            join(root, AvroJoiner(), [avro([(1, b"x")]), other], "avro")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda content: content[:-1], "ends after the file"),
        (lambda content: content[:-1] + b"?", "has another marker"),
        (lambda content: content[:9], "ends too early"),
        (lambda content: b"PAR1" + content[4:], "is no Avro file"),
        (lambda content: content + b"\xff" * 12, "too many bytes"),
    ],
)
def test_a_damaged_avro_file_is_not_joined(tmp_path: Path, damage: object, says: str) -> None:
    assert callable(damage)
    content = avro([(3, b"abc"), (2, b"de")]).replace(b"?", b"!")
    content = content if content[-1:] != b"?" else content[:-1] + b"!"
    with pytest.raises(JoinRefused, match=says):
        join(tmp_path, AvroJoiner(), [content, damage(content)], "avro")
