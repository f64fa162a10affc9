"""Joins files of lines (`json`, `csv`, `text`) without reading the lines: byte by byte.

A joined file holds what its parts hold if its size is that of all parts, so nothing is parsed. Of
CSV files with a header the header of the first stays. Compressed files are not joined, nor files
that Spark's options make into something else than lines of UTF-8.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath, PurePosixPath

from jobmanager.core.graph.file_format import FileFormat
from taskrunner.core.file_joins import Bin, JoinedFile
from taskrunner.core.sink_records import OutputFile
from taskrunner.sinks.joiner import BreakOff, JoinRefused
from taskrunner.sinks.output_files import FilePart, OutputFiles

_ENDINGS = {FileFormat.JSON: "json", FileFormat.CSV: "csv", FileFormat.TEXT: "txt"}
_LONGEST_HEADER = 1 << 20


class TextJoiner:
    """Joins the files of one sink."""

    def __init__(
        self,
        files: OutputFiles,
        file_format: FileFormat,
        options: Mapping[str, str],
        columns: Collection[str],
    ) -> None:
        """`options`: those of Spark's writer; `columns`: the names in a header."""
        given = {name.lower(): value for name, value in options.items()}
        self._files = files
        self._line_end = given.get("linesep", "\n")
        self._ending = f".{given.get('extension', _ENDINGS[file_format])}"
        encodings = {given.get(name, "utf-8").lower() for name in ("encoding", "charset")}
        is_csv = file_format is FileFormat.CSV
        self._has_header = is_csv and given.get("header", "false").lower() == "true"
        has_long_header = self._has_header and any(self._line_end in one for one in columns)
        self._is_plain = encodings == {"utf-8"} and bool(self._line_end) and not has_long_header

    def can_join(self, file: OutputFile) -> bool:
        return self._is_plain and PurePosixPath(file.final).suffix == self._ending

    def join(
        self, bins: Sequence[Bin], private: PurePath, staged: PurePath, break_off: BreakOff
    ) -> list[JoinedFile]:
        self._files.make_directory(staged)
        joined = []
        for number, one in enumerate(bins):
            break_off.check()
            target = staged / f"part-{number:05d}{self._ending}"
            size = self._join([private / file.staged for file in one.files], one.bytes, target)
            joined.append(JoinedFile(one, target.relative_to(private).as_posix(), size))
        return joined

    def _join(self, parts: Sequence[PurePath], size: int, target: PurePath) -> int:
        header = self._header(parts[0])
        for part in parts:
            self._check(part, header)
        first, *others = parts
        skipped = len(header)
        self._files.concatenate(
            [FilePart(first, 0), *(FilePart(one, skipped) for one in others)], target
        )
        wanted, found = size - skipped * len(others), self._files.size(target)
        if found != wanted:
            raise JoinRefused(f"{self._files.shown(target)} has {found} bytes instead of {wanted}")
        return wanted

    def _header(self, path: PurePath) -> bytes:
        if not self._has_header:
            return b""
        line, end, _ = self._files.read_part(path, 0, _LONGEST_HEADER).partition(
            self._line_end.encode()
        )
        return line + end

    def _check(self, path: PurePath, header: bytes) -> None:
        end = self._line_end.encode()
        size = self._files.size(path) or 0
        if self._files.read_part(path, max(0, size - len(end)), len(end)) != end:
            raise JoinRefused(f"{self._files.shown(path)} does not end with the end of a line")
        if self._files.read_part(path, 0, len(header)) != header:
            raise JoinRefused(f"{self._files.shown(path)} has another header than others")
