"""What a Delta table demands of those who write or read it beyond plain Parquet files.

Executors write and read plain Parquet files with Spark. A table whose features demand more
(constraints to check, columns under other names, deleted rows to skip) is refused by name.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_WRITTEN = frozenset(
    """
    appendOnly invariants checkConstraints changeDataFeed generatedColumns columnMapping
    identityColumns timestampNtz deletionVectors v2Checkpoint domainMetadata vacuumProtocolCheck
    typeWidening
    """.split()  # noqa: SIM905
)
"""Features that do not matter for an append unless `_in_use` finds them in use."""
_READ = frozenset(
    "columnMapping deletionVectors timestampNtz v2Checkpoint vacuumProtocolCheck".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class DeltaProtocol:
    configuration: Mapping[str, str]
    fields: Sequence[Mapping[str, Any]]
    """The columns, as in the table's schema."""
    writer_features: Collection[str] = ()
    reader_features: Collection[str] = ()


def write_obstacles(table: DeltaProtocol) -> list[str]:
    """Every reason why files cannot simply be added to the table."""
    unknown = sorted(set(table.writer_features) - _WRITTEN)
    return [*(f"the feature {one}" for one in unknown), *_in_use(table)]


def read_obstacles(table: DeltaProtocol, *, has_deletion_vectors: bool) -> list[str]:
    """Every reason why the table's rows are not simply those of its files."""
    found = [f"the feature {one}" for one in sorted(set(table.reader_features) - _READ)]
    if _has_column_mapping(table):
        found.append("columns under other names (delta.columnMapping.mode)")
    if has_deletion_vectors:
        found.append("deletion vectors (run a compaction of the table to get rid of them)")
    return found


def _in_use(table: DeltaProtocol) -> Iterator[str]:
    if _has_column_mapping(table):
        yield "columns under other names (delta.columnMapping.mode)"
    for setting in sorted(table.configuration):
        if setting.startswith("delta.constraints."):
            yield f"the constraint {setting.removeprefix('delta.constraints.')}"
    for field in table.fields:
        metadata = field.get("metadata") or {}
        if "delta.generationExpression" in metadata:
            yield f"the generated column {field['name']}"
        if any(key.startswith("delta.identity.") for key in metadata):
            yield f"the identity column {field['name']}"
        if "delta.invariants" in metadata:
            yield f"the invariant of column {field['name']}"


def _has_column_mapping(table: DeltaProtocol) -> bool:
    return table.configuration.get("delta.columnMapping.mode", "none") != "none"
