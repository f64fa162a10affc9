"""What is looked at in a snapshot's state files before Spark reads them.

Spark unpacks `<version>_<id>.zip` and copies each file that its `metadata` names, from one name to
another, with no look at the names. In a savepoint that somebody else wrote they may lead anywhere:
then to restore would be to write a file of theirs over one of ours. Spark reads a zip from its
beginning, entry by entry, and Python by the directory at its end; so both have to show the same.
"""

import json
import re
import struct
import zipfile
from collections.abc import Iterator
from io import BytesIO
from itertools import pairwise
from typing import Any

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_DESCRIPTORS = (12, 16, 20, 24)
"""Bytes that may follow an entry whose sizes were not known when it was begun."""
_HAS_DESCRIPTOR = 0x08


def is_archive(path: str) -> bool:
    """Whether it is one, by its path in a Spark checkpoint directory."""
    return path.startswith("state/") and path.endswith(".zip")


def archive_fault(content: bytes) -> str | None:
    """Why Spark must not be given the archive, to be read after its name; None: it may."""
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            if _hides_something(archive, content):
                return "has entries that its directory does not name"
            text = archive.read("metadata").decode()
            names = [one.filename for one in archive.infolist()]
    except (zipfile.BadZipFile, KeyError, ValueError, NotImplementedError, EOFError) as error:
        return f"is not an archive of state: {error}"
    if len(set(names)) != len(names):
        return "names an entry twice"
    for name in names:
        if name.startswith("/") or "\\" in name or ".." in name.split("/"):
            return f"has an entry {name!r}, which leads out of its directory"
    try:
        named = list(_names_in(json.loads(text.partition("\n")[2])))
    except (ValueError, TypeError, AttributeError) as error:
        return f"has metadata that cannot be read: {error}"
    for found in named:
        if not _PLAIN_NAME.fullmatch(found):
            return f"names the file {found!r}, which leads out of its directory"
    return None


def _names_in(metadata: Any) -> Iterator[str]:
    """Every name of a file, whatever its field is called."""
    for kind in ("sstFiles", "logFiles"):
        for one in metadata.get(kind) or []:
            yield from (value for value in one.values() if isinstance(value, str))


def _hides_something(archive: zipfile.ZipFile, content: bytes) -> bool:
    """Whether there is anything between the entries that the directory names."""
    entries = sorted(archive.infolist(), key=lambda one: one.header_offset)
    end_of_all: int = archive.start_dir
    starts = [one.header_offset for one in entries] + [end_of_all]
    if starts[0] != 0:
        return True
    for entry, (start, following) in zip(entries, pairwise(starts), strict=True):
        if len(content) < start + _LOCAL_HEADER.size:
            return True
        _, name, extra = _LOCAL_HEADER.unpack_from(content, start)
        end = start + _LOCAL_HEADER.size + name + extra + entry.compress_size
        more = following - end
        if more and not (entry.flag_bits & _HAS_DESCRIPTOR and more in _DESCRIPTORS):
            return True
    return False
