"""Who may write to an output whose rows carry versions, and which version a batch has.

The store of the output has one record for each output. An attempt changes the record by comparing
and replacing it, in one step of the store:

    take_over     when an attempt starts: from now on the record has the token of that attempt
    begin         opens a batch, and gives the batch a version that is greater than all before it
    end           closes the batch
    go_back       after a restore: lets batches after the restore point be written again

Rows are written with the version of their batch, and the store keeps the row with the greater
version. So a row of a batch that was opened earlier never replaces a row of a batch that was opened
later, whatever the numbers of the batches are.

A version is the time in microseconds when the batch was opened, or one more than the last version
if the clock is behind it. The clock makes rows that other programs wrote earlier older than ours;
the order of our own versions does not depend on it.

Each function takes the record as it is now and returns the record as it has to be, or why not. Each
may be repeated: the answer to a replacement may be lost although the record was replaced.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class WriterRecord:
    """The record of one output."""

    job: str
    sink: str
    attempt: int
    token: str
    """Of the attempt that may write, fresh for each attempt."""
    version: int = 0
    """The greatest version that any batch has had."""
    batch: int | None = None
    """The batch that is being written."""
    done: int | None = None
    """The last batch that was written."""


@dataclass(frozen=True, slots=True)
class WriterReplaced:
    """Another attempt has taken the output over."""

    job: str
    attempt: int


@dataclass(frozen=True, slots=True)
class RecordLost:
    """The store does not have the record any more."""


@dataclass(frozen=True, slots=True)
class AlreadyWritten:
    """The batch was written before."""


@dataclass(frozen=True, slots=True)
class BatchOver:
    """The batch is not open any more."""


Refusal = WriterReplaced | RecordLost | BatchOver


def take_over(
    now: WriterRecord | None, job: str, sink: str, attempt: int, token: str
) -> WriterRecord | WriterReplaced:
    if now is None:
        return WriterRecord(job, sink, attempt, token)
    is_mine = (now.job, now.sink) == (job, sink)
    if is_mine and now.attempt > attempt:
        return WriterReplaced(now.job, now.attempt)
    return WriterRecord(job, sink, attempt, token, now.version, None, now.done if is_mine else None)


def go_back(now: WriterRecord | None, token: str, last_kept: int) -> WriterRecord | Refusal:
    if now is None or now.token != token:
        return _refusal(now)
    if now.done is None or now.done <= last_kept:
        return now
    return replace(now, done=last_kept)


def begin(
    now: WriterRecord | None, token: str, batch: int, clock: int
) -> WriterRecord | AlreadyWritten | Refusal:
    """`clock` is the time in microseconds."""
    if now is None or now.token != token:
        return _refusal(now)
    if now.done is not None and now.done >= batch:
        return AlreadyWritten()
    return replace(now, batch=batch, version=max(now.version + 1, clock))


def end(now: WriterRecord | None, token: str, batch: int, version: int) -> WriterRecord | Refusal:
    if now is None or now.token != token:
        return _refusal(now)
    if now.version != version:
        return BatchOver()
    if now.batch is None and now.done == batch:
        return now  # ended before, and the answer was lost
    if now.batch != batch:
        return BatchOver()
    return replace(now, batch=None, done=batch)


def refusal(now: WriterRecord | None, token: str, version: int) -> Refusal | None:
    """Why rows of a version may not be written now; None: they may."""
    if now is None or now.token != token:
        return _refusal(now)
    return None if now.version == version and now.batch is not None else BatchOver()


def _refusal(now: WriterRecord | None) -> WriterReplaced | RecordLost:
    return RecordLost() if now is None else WriterReplaced(now.job, now.attempt)
