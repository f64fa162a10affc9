"""Archives of state that a stranger wrote: none may name a file outside of its directory."""

import io
import json
import struct
import zipfile
from typing import Any

import pytest

from taskrunner.snapshots.state_archives import archive_fault, is_archive

SOUND = {"localFileName": "000008.sst", "dfsSstFileName": "000008-5e0f.sst", "sizeBytes": 12}


def an_archive(
    *files: dict[str, Any], entries: tuple[str, ...] = ("CURRENT",), kind: str = "sstFiles"
) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in entries:
            archive.writestr(name, "x")
        archive.writestr("metadata", "v1\n" + json.dumps({kind: list(files), "numKeys": 1}))
    return made.getvalue()


def test_what_spark_writes_is_taken() -> None:
    assert archive_fault(an_archive(SOUND, entries=("CURRENT", "archive/000011.log"))) is None
    assert archive_fault(an_archive()) is None


@pytest.mark.parametrize("field", ["localFileName", "dfsSstFileName", "whatComesNext"])
@pytest.mark.parametrize("name", ["../../.bashrc", "/etc/passwd", "..", "", "a/b.sst", "a\\b"])
@pytest.mark.parametrize("kind", ["sstFiles", "logFiles"])
def test_a_file_that_is_named_outside_is_refused(field: str, name: str, kind: str) -> None:
    fault = archive_fault(an_archive(SOUND, {**SOUND, field: name}, kind=kind))

    assert fault is not None
    assert "leads out of its directory" in fault


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "a\\..\\x"])
def test_an_entry_that_would_be_unpacked_elsewhere_is_refused(name: str) -> None:
    fault = archive_fault(an_archive(SOUND, entries=(name,)))

    assert fault is not None
    assert "leads out of its directory" in fault


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_entries_of_one_name_are_refused() -> None:
    assert archive_fault(an_archive(SOUND, entries=("metadata",))) == "names an entry twice"


def test_an_entry_that_only_a_reader_from_the_beginning_sees_is_refused() -> None:
    """Spark's reader does not look at the directory at the end of a zip."""
    hidden = an_archive({**SOUND, "localFileName": "../x"}, entries=())
    hidden = hidden[: hidden.index(b"PK\x01\x02")]

    for content in (hidden + an_archive(SOUND), _with_hidden(an_archive(SOUND), hidden)):
        assert archive_fault(content) == "has entries that its directory does not name"


def _with_hidden(sound: bytes, hidden: bytes) -> bytes:
    """Between the last entry and the directory, whose place is told anew."""
    at = sound.index(b"PK\x01\x02")
    content = bytearray(sound[:at] + hidden + sound[at:])
    struct.pack_into("<I", content, content.rindex(b"PK\x05\x06") + 16, at + len(hidden))
    return bytes(content)


@pytest.mark.parametrize("content", [b"", b"no zip", an_archive(SOUND)[:-30]])
def test_what_is_no_archive_is_refused(content: bytes) -> None:
    assert "is not an archive of state" in (archive_fault(content) or "")


def test_only_archives_of_state_are_looked_at() -> None:
    assert is_archive("state/0/1/3_5e0f.zip")
    assert not is_archive("state/0/1/3_5e0f.changelog")
    assert not is_archive("sources/0/3.zip")
