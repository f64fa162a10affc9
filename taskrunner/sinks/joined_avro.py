"""Joins Avro files of this machine block by block: rows are not decoded, but counted.

A file is a header (schema, codec, a random marker), then blocks: the number of rows, the number of
bytes, the bytes, and the marker. Blocks of files with the same schema and codec can follow each
other; each gets the marker of the joined file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import BinaryIO

from taskrunner.core.file_joins import Bin, JoinedFile
from taskrunner.core.sink_records import OutputFile
from taskrunner.sinks.joiner import BreakOff, JoinRefused

_MAGIC = b"Obj\x01"
_MARKER = 16
_ENDING = ".avro"
_BUFFER = 1 << 20
_MOST_BITS = 64


@dataclass(frozen=True, slots=True)
class AvroHeader:
    schema: bytes
    codec: bytes
    marker: bytes
    size: int


class AvroJoiner:
    """Joins files of this machine."""

    def can_join(self, file: OutputFile) -> bool:
        return PurePosixPath(file.final).suffix == _ENDING

    def join(
        self, bins: Sequence[Bin], private: PurePath, staged: PurePath, break_off: BreakOff
    ) -> list[JoinedFile]:
        Path(staged).mkdir(parents=True)
        joined = []
        for number, one in enumerate(bins):
            break_off.check()
            target = Path(staged / f"part-{number:05d}{_ENDING}")
            parts = [Path(private / file.staged) for file in one.files]
            rows = _join(parts, target)
            if (found := count_rows(target)) != rows:
                raise JoinRefused(f"{target} has {found} rows, and its parts have {rows}")
            inside = target.relative_to(private).as_posix()
            joined.append(JoinedFile(one, inside, target.stat().st_size))
        return joined


def count_rows(path: Path) -> int:
    """The rows of an Avro file, by the heads of its blocks. Raises `JoinRefused`."""
    with path.open("rb") as file:
        header = read_header(file)
        return sum(_blocks(file, header, path))


def read_header(file: BinaryIO) -> AvroHeader:
    """Raises `JoinRefused`."""
    if _read(file, len(_MAGIC)) != _MAGIC:
        raise JoinRefused(f"{file.name} is no Avro file")
    metadata: dict[bytes, bytes] = {}
    while entries := _long(file):
        if entries < 0:
            _long(file)  # the size in bytes
        for _ in range(abs(entries)):
            name = _read(file, _long(file))
            metadata[name] = _read(file, _long(file))
    marker = _read(file, _MARKER)
    codec = metadata.get(b"avro.codec", b"null")
    return AvroHeader(metadata.get(b"avro.schema", b""), codec, marker, file.tell())


def _join(parts: Sequence[Path], target: Path) -> int:
    """Returns the number of rows."""
    rows = 0
    marker, schema = b"", (b"", b"")
    with target.open("xb") as joined:
        for part in parts:
            with part.open("rb") as file:
                header = read_header(file)
                if not marker:
                    marker, schema = header.marker, (header.schema, header.codec)
                    file.seek(0)
                    joined.write(_read(file, header.size))
                if (header.schema, header.codec) != schema:
                    raise JoinRefused(f"{part} has another schema or codec than {parts[0]}")
                for count in _blocks(file, header, part, copy_to=joined):
                    rows += count
                    joined.write(marker)
    return rows


def _blocks(
    file: BinaryIO, header: AvroHeader, path: Path, copy_to: BinaryIO | None = None
) -> Iterator[int]:
    """The number of rows of each block, which is copied without its marker."""
    end = path.stat().st_size
    while (start := file.tell()) < end:
        rows, size = _long(file), _long(file)
        last = file.tell() + size
        if rows < 0 or size < 0 or last + _MARKER > end:
            raise JoinRefused(f"{path} is damaged: a block at byte {start} ends after the file")
        if copy_to is not None:
            file.seek(start)
            _copy(file, copy_to, last - start)
        file.seek(last)
        if _read(file, _MARKER) != header.marker:
            raise JoinRefused(f"{path} is damaged: the block at byte {start} has another marker")
        yield rows


def _copy(source: BinaryIO, target: BinaryIO, size: int) -> None:
    while size > 0:
        some = _read(source, min(size, _BUFFER))
        target.write(some)
        size -= len(some)


def _long(file: BinaryIO) -> int:
    """A number as Avro writes it: seven bits a byte, the sign in the lowest bit."""
    value = shift = 0
    while True:
        byte = _read(file, 1)[0]
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)
        if shift > _MOST_BITS:
            raise JoinRefused(f"{file.name} is damaged: a number has too many bytes")


def _read(file: BinaryIO, size: int) -> bytes:
    found = file.read(size) if size >= 0 else b""
    if len(found) != size:
        raise JoinRefused(f"{file.name} is damaged: it ends too early")
    return found
