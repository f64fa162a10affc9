"""The segments of one sink on disk: files with the records of many published batches.

    <private>/<job>/<sink>/segments/<first>-<last>-<weight>.json
                                    <first>-<last>-<weight>.withdrawn.json

Each file is written under another name and renamed, and nothing is deleted before its successor is
on disk. What a crash leaves behind is a batch in two places, which means the same as in one.

A withdrawal first writes down what it takes out, then writes the segments without it, then the
files of the output are deleted, and then what was written down. A process that finds a withdrawal
begun finishes it, whatever it wants to withdraw itself.
"""

from collections.abc import Callable, Collection, Sequence
from pathlib import PurePath

from jobmanager.core.ids import JobId, VertexId
from taskrunner.core import sink_segments
from taskrunner.core.sink_records import RecordState
from taskrunner.core.sink_segments import Segment, SegmentName
from taskrunner.core.staged_rows import OutputFileChanged
from taskrunner.sinks.output_files import LOCAL, OutputFiles


class RecordSegments:
    """The caller keeps other writers out."""

    def __init__(
        self,
        directory: PurePath,
        output: PurePath,
        job: JobId,
        sink: VertexId,
        after_step: Callable[[str], None],
        files: OutputFiles = LOCAL,
    ) -> None:
        self._files = files
        self._directory = directory
        self._output = output
        self._job = job
        self._sink = sink
        self._after_step = after_step

    def state_of(self, batch: int) -> RecordState | None:
        """The state of a batch that is in a segment; None: it is in none."""
        near = [one for one in self._names() if one.first <= batch <= one.last]
        holding = [one for one in near if batch in self._read(one)]
        if not holding:
            return None
        is_withdrawn = any(one.is_withdrawn for one in holding)
        return RecordState.WITHDRAWN if is_withdrawn else RecordState.PUBLISHED

    def add(self, segment: Segment) -> None:
        """Makes a segment of published batches durable, and then merges what has become many."""
        self._write(segment)
        self._after_step("compacted")
        while names := sink_segments.to_merge(self._names()):
            if not self._merge(names):
                return

    def take_out(self, doomed: Callable[[Segment], Segment], after: int = -1) -> Segment:
        """Takes the `doomed` part out of all segments, and returns it, with what earlier calls took
        out: the files of the output have to be deleted, and then `forget_withdrawn` be called.
        Nothing up to batch `after` is doomed.
        """
        names = self._names()
        begun, found = Segment(), Segment()
        for name in names:
            if name.is_withdrawn:
                begun |= self._read_or_rebuild(name)
            elif name.last > after:
                found |= doomed(self._read_or_rebuild(name))
        if found:
            self._write(begun | found, is_withdrawn=True)
            self._after_step("withdrawal decided")
        self._cut([one for one in names if not one.is_withdrawn], begun | found)
        return begun | found

    def forget_withdrawn(self) -> None:
        for name in self._names():
            if name.is_withdrawn:
                self._files.delete(self._path(name))
                self._after_step("withdrawal forgotten")
        self._files.sync(self._directory)

    def _cut(self, names: Sequence[SegmentName], gone: Segment) -> None:
        if not gone:
            return
        batches, span = gone.batches, sink_segments.name_of(gone)
        for name in names:
            if name.last < span.first or name.first > span.last:
                continue
            before = self._read_or_rebuild(name)
            left = before.without(batches)
            if left != before:
                self._replace([name], left)

    def _merge(self, names: Sequence[SegmentName]) -> bool:
        """Makes one segment of several; False: one of them is damaged."""
        merged = Segment()
        try:
            for name in names:
                merged |= self._read(name)
        except OutputFileChanged:
            return False
        self._replace(names, merged)
        return True

    def _replace(self, names: Sequence[SegmentName], segment: Segment) -> None:
        written = self._write(segment, instead_of=names) if segment else None
        self._after_step("segment replaced")
        for name in names:
            if name != written:
                self._files.delete(self._path(name))
                self._after_step("segment deleted")
        self._files.sync(self._directory)

    def _write(
        self,
        segment: Segment,
        instead_of: Collection[SegmentName] = (),
        *,
        is_withdrawn: bool = False,
    ) -> SegmentName:
        """If there is another segment of the same name, its batches are written too."""
        name = sink_segments.name_of(segment, is_withdrawn=is_withdrawn)
        while name not in instead_of and self._files.size(self._path(name)) is not None:
            segment |= self._read_or_rebuild(name)
            before, name = name, sink_segments.name_of(segment, is_withdrawn=is_withdrawn)
            if name == before:
                break
        self._files.write(self._path(name), sink_segments.to_text(segment))
        return name

    def _read(self, name: SegmentName) -> Segment:
        path = self._path(name)
        try:
            return sink_segments.from_text(self._files.read(path))
        except (ValueError, TypeError, KeyError) as error:
            raise OutputFileChanged(
                f"sink {self._sink}, batches {name.first} to {name.last}: the records in "
                f"{self._files.shown(path)} are damaged ({error}). Start the job from "
                "a checkpoint before these batches"
            ) from None

    def _read_or_rebuild(self, name: SegmentName) -> Segment:
        """A segment, or what the names of the output files tell of a damaged segment."""
        try:
            return self._read(name)
        except OutputFileChanged:
            finals = map(str, self._files.files_below(self._output))
            return sink_segments.found_by_names(self._job, self._sink, finals, name)

    def _names(self) -> list[SegmentName]:
        found = map(sink_segments.parse_name, self._files.names(self._directory))
        return sorted(one for one in found if one is not None)

    def _path(self, name: SegmentName) -> PurePath:
        return self._directory / str(name)
