"""Joins the small files of held batches before their checkpoint shows them (ADR 37).

    held files ──written together, synced──▶ a staged file ──one record decides──▶ held file
                                                                        (then as any held batch)

What readers see is never rewritten. A join that fails leaves all as it was: then the small files
are published.
"""

from threading import Lock

from taskrunner import logs
from taskrunner.core.file_joins import JoinGroup, join_groups
from taskrunner.sinks.directory import SinkDirectory
from taskrunner.sinks.joiner import BreakOff, FileJoiner

log = logs.get("sink")


class HeldFiles:
    """The held output of one sink in one attempt. Threads may share it."""

    def __init__(self, directory: SinkDirectory, joiner: FileJoiner, target: int) -> None:
        self._directory = directory
        self._joiner = joiner
        self._target = target
        self._lock = Lock()
        self._restore_points: set[int] = set()
        """The batches of the checkpoints and savepoints that this attempt took. Only batches that
        this attempt wrote are joined, so others need not be known.
        """

    def note_restore_point(self, batch: int) -> None:
        """A checkpoint or savepoint is being taken at this batch: a restore may go back to it. Has
        to be called before the checkpoint or savepoint can be complete.
        """
        with self._lock:
            self._restore_points.add(batch)

    def join_up_to(self, batch: int, break_off: BreakOff) -> None:
        """Joins the small files of held batches up to `batch`, which a completed checkpoint covers.
        Raises what `FileJoiner.join` raises, `OutputFileChanged` and `Superseded`; then some groups
        are joined, and all other files are as they were.
        """
        held = self._directory.held(batch)
        first = held[0].batch if held else batch
        with self._lock:
            self._restore_points = {one for one in self._restore_points if one >= first}
            points = {*self._restore_points}
        for group in join_groups(held, points, self._target, self._joiner.can_join):
            break_off.check()
            self._join(group, break_off)

    def _join(self, group: JoinGroup, break_off: BreakOff) -> None:
        directory, last = self._directory, group.records[-1].batch
        staged = directory.stage(last)
        try:
            for record in group.records:
                directory.check_sizes(record)
            files = self._joiner.join(group.bins, directory.private, staged, break_off)
            directory.joined(group, files)
        except BaseException:
            directory.abandon_join(group, staged)
            raise
        log.info(
            "files_joined",
            sink=directory.sink,
            first_batch=group.records[0].batch,
            last_batch=last,
            files_before=sum(len(one.files) for one in group.bins),
            files_after=len(files),
        )
