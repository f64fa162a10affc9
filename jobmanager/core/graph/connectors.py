"""What the connectors of sources and sinks have in common."""

import re

from jobmanager.core.graph.document_fields import Fields

NOT_YET = frozenset(["kafka", "jdbc"])
_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_ALL_FIELDS = frozenset(
    ["format", "path", "max_files_per_batch", "partition_by", "visibility", "rows_per_second"]
    + ["rows", "columns", "servers", "topic", "starting", "url", "table", "key", "host", "port"]
    + ["class", "bounded"]
)


def read_class(fields: Fields) -> str:
    """Read the field `class`: `module:Class`."""
    reference = fields.text("class")
    if reference and not _REFERENCE.fullmatch(reference):
        fields.fault("class", f"{reference!r} is not of the form module:Class")
    return reference


def refuse_connector(fields: Fields, connector: str, known: tuple[str, ...], role: str) -> None:
    """Note that there is no such connector for a source or a sink."""
    for field in _ALL_FIELDS:
        fields.raw(field)  # the other fields may be right for the connector that was meant
    if connector in NOT_YET:
        fields.fault(
            "connector", f"connector {connector!r} is not supported by this version of Headgate yet"
        )
    elif connector:
        fields.fault(
            "connector", f"{connector!r} is not a {role} connector: use one of {', '.join(known)}"
        )
