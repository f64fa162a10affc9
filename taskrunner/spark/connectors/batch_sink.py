"""The port of a sink: it writes the batches of a stream, and brings its output in line with the
state that an attempt starts from.

At the start of an attempt the epoch is raised first: no older attempt can publish any more. Then,
for each sink of a region and before the region's query starts:

    begin(schema)             compare the output with the columns of the rows, make what is missing
        │   the state to start from is chosen; it is before any batch that is committed and cannot
        │   be published any more (`SinkWriter.lost_batches`)
    continue_output(lineage)  only if the job starts from a savepoint of another job, or anew from
        │                     one: withdraw what other jobs of the lineage wrote after it
    recover(last_kept, …)     withdraw what this job wrote after batch `last_kept`, complete what
        │                     was committed and not shown; may be repeated after a crash
    write(rows, batch)        for each batch, in order; the first may be a repetition of a batch
        │                     that was written before, by this attempt or an older one
    note_restore_point(batch) only if `holds_output`: before a checkpoint or savepoint at the batch
        │                     can be complete
    join_up_to(batch)         only if `holds_output`, maybe: before the batches up to this one are
        │                     shown together
    show_up_to(batch)         only if `holds_output`: after a checkpoint that covers the batch

A repeated batch has the same rows, maybe in another order and in other partitions.
"""

from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from jobmanager.core.snapshots.manifest import Ancestor
from taskrunner.sinks.joiner import BreakOff


class BatchWriter(Protocol):
    @property
    def jobs_of_batch(self) -> range:
        """The numbers of the Spark jobs in which the newest batch was computed from its own plan;
        empty if it was computed from the data set that Spark has made of the plan.
        """
        ...

    def write(self, rows: DataFrame, batch: int) -> int:
        """Writes the rows of a batch; returns how many there were. The rows have to be computed
        exactly once, also if the batch is not written because it already was: Spark's state
        depends on that.
        """
        ...


class BatchSink:
    """One sink in one attempt. A sink that promises nothing implements `write` alone."""

    @property
    def holds_output(self) -> bool:
        """Whether output waits for its checkpoint; then the job finishes with a checkpoint."""
        return False

    @property
    def jobs_of_batch(self) -> range:
        """As `BatchWriter.jobs_of_batch`."""
        return range(0)

    def write(self, rows: DataFrame, batch: int) -> int:
        """As `BatchWriter.write`."""
        raise NotImplementedError

    def begin(self, schema: StructType) -> None:
        """Compares the rows that are to come with what is there, such as the columns of a table,
        and makes what is missing. Raises `VertexRefused` with every difference.
        """

    def continue_output(self, lineage: tuple[Ancestor, ...]) -> None:
        """Withdraws what other jobs of the lineage (the oldest first) wrote after the batches that
        are part of the state that this job starts from. May be repeated. Raises `OutputLost` if
        output that is part of the state does not exist any more, or cannot be withdrawn.
        """

    def recover(self, last_kept: int, last_visible: int | None) -> None:
        """Brings the output of this job in line with the state that the attempt starts from.
        `last_kept` is the last batch whose output stays (-1: none); `last_visible` the batch up to
        which held output may be seen. May be repeated. Raises `OutputLost` if output after
        `last_kept` cannot be withdrawn.
        """

    def withdraw(self, last_kept: int) -> None:
        """Withdraws what this job wrote after batch `last_kept` to an output that the job does not
        write to any more. No other method is called before. May be repeated. Only for connectors
        with `SinkWriter.withdraws`. Raises `OutputLost`.
        """
        raise NotImplementedError

    def has_batch(self, batch: int) -> bool:
        """Whether the batch's output is committed. A batch job whose output is there is done."""
        return False

    def note_restore_point(self, batch: int) -> None:
        """A job may be restored to this batch: output of batches before it is kept when the output
        of later batches is withdrawn.
        """

    def join_up_to(self, batch: int, break_off: BreakOff) -> None:
        """Makes fewer and larger files of the output that is about to be shown. Called by another
        thread than `write`. If it fails, the output has to be shown as it is.
        """

    def show_up_to(self, batch: int) -> None:
        """Publishes the output that was held for a checkpoint at `batch`. May be repeated."""
