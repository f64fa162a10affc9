"""What a sink says about its connector."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from jobmanager.core.graph.columns import Columns
from jobmanager.core.graph.connectors.connector import Connector
from jobmanager.core.graph.document_fields import Fields
from jobmanager.core.graph.output_mode import OutputMode


@dataclass(frozen=True, slots=True)
class SinkConnector(Connector):
    @property
    def guarantee(self) -> str:
        """How often a reader of the output finds each row, in words: `exactly once`."""
        return "at least once"

    @property
    def is_fenced(self) -> bool:
        """Whether an attempt that was replaced can add nothing to the output: the sink shows rows
        only while the attempt's epoch is held. Otherwise a runner that has lost its JobManager
        ends its batches in time.
        """
        return False

    def real_time_faults(self, options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        yield (
            "connector",
            (
                f"{self.name} takes the rows of a whole batch at once, and Spark's real-time mode "
                "writes row by row: to kafka (at least once) or console"
            ),
        )

    @property
    def waits_for_checkpoint(self) -> bool:
        """Whether readers see the output of a stream only after its checkpoint."""
        return False

    def exclusive_output(self, normal: Callable[[str], str]) -> str | None:
        """Return the output that no second job may write to at the same time, because a start
        from a savepoint withdraws output; None: jobs can share the output. `normal` gives two
        spellings of a path the same form.
        """
        return None

    def read_mode(self, fields: Fields) -> OutputMode | None:
        """Read the field `mode`; None: the operators determine the output mode. A connector whose
        `mode` means something else (append, upsert) reads the field itself, and overrides this.
        """
        return fields.choice("mode", OutputMode) if fields.has("mode") else None

    @property
    def fault_in_complete_mode(self) -> str | None:
        """Why the output cannot be replaced by each batch's complete result."""
        return None

    def needed_columns(self) -> Iterator[tuple[str, str]]:
        """Return the columns that the input must have, each with the field that names it."""
        yield from ()

    def column_faults(self, columns: Columns) -> Iterator[tuple[str, str]]:
        """Return further faults about the columns of the input, as field and message."""
        yield from ()
