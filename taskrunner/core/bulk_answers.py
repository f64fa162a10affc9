"""What the answer of a search server to a bulk request means: the bulk API of Elasticsearch and
OpenSearch answers for each row on its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taskrunner.core.store_failures import (
    RowsRefused,
    StoreFailure,
    StoreFull,
    StoreLoginRefused,
    StoreRefused,
    StoreUnfit,
    WriteOvertaken,
)

_NOT_NOW = (429, 502, 503, 504)
"""Too many requests, or a shard that is moving: the same row may be taken a moment later."""
_FULL = ("cluster_block_exception", "flood_stage", "disk usage exceeded")


@dataclass(frozen=True, slots=True)
class BulkOutcome:
    """What became of the rows of a request."""

    again: tuple[int, ...] = ()
    """The positions of rows to send again."""
    why_again: str = ""
    failure: StoreFailure | None = None


def judge(name: str, keys: Sequence[str], items: Sequence[Mapping[str, Any]]) -> BulkOutcome:
    """`items` of the answer, in the order of the `keys`. `name` begins the messages."""
    if len(items) != len(keys):
        return BulkOutcome(
            failure=StoreRefused(f"{name} answered for {len(items)} of {len(keys)} rows")
        )
    again, why_again = [], ""
    refused: dict[type[StoreFailure], list[tuple[str, str]]] = {}
    for position, (key, item) in enumerate(zip(keys, items, strict=True)):
        [(action, result)] = item.items()
        status = int(result.get("status", 0))
        reason = reason_of(result.get("error"))
        if 200 <= status < 300 or (action == "delete" and status == 404 and not reason):
            continue
        if status in _NOT_NOW and not is_full(reason):
            again.append(position)
            why_again = reason or str(status)
        else:
            refused.setdefault(_class_of(status, reason), []).append((key, reason))
    for kind in (WriteOvertaken, StoreLoginRefused, StoreUnfit, StoreFull, StoreRefused):
        if kind in refused:
            return BulkOutcome(failure=_failure(kind, name, refused[kind]))
    if RowsRefused in refused:
        return BulkOutcome(failure=_failure(RowsRefused, name, refused[RowsRefused]))
    return BulkOutcome(tuple(again), why_again)


def reason_of(error: object) -> str:
    """An error of the server in one line: its type, its reason and what caused it."""
    if not isinstance(error, Mapping):
        return str(error) if error else ""
    parts = [str(error[one]) for one in ("type", "reason") if error.get(one)]
    cause = reason_of(error.get("caused_by"))
    return ": ".join([*parts, *([cause] if cause else [])])


def is_full(reason: str) -> bool:
    """Whether the server takes no writes until somebody makes room."""
    return any(one in reason for one in _FULL)


def _class_of(status: int, reason: str) -> type[StoreFailure]:
    if is_full(reason):
        return StoreFull
    match status:
        case 409:
            return WriteOvertaken
        case 401 | 403:
            return StoreLoginRefused
        case 404:
            return StoreUnfit
        case 400:
            return RowsRefused
        case _:
            return StoreRefused


def _failure(kind: type[StoreFailure], name: str, rows: Sequence[tuple[str, str]]) -> StoreFailure:
    (key, reason), count = rows[0], len(rows)
    what = f"{count} rows, the first with the key {key!r}: {reason}"
    if kind is WriteOvertaken:
        return kind(f"{name} has newer versions of {what}")
    if kind is StoreLoginRefused:
        return kind(f"{name}: the user may not write ({what}): give it the right to")
    if kind is StoreFull:
        return kind(
            f"{name} takes no writes ({what}): free the disk. The batch is written again after a "
            "restart of the job"
        )
    if kind is RowsRefused:
        return kind(
            f"{name} refuses values of {what}: correct the rows before the sink, or the mapping of "
            "the index"
        )
    return kind(f"{name} refuses {what}")


def mapping_faults(mapping: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    """The columns that the mapping of an index refuses."""
    properties = mapping.get("properties") or {}
    if str(mapping.get("dynamic", "true")).lower() != "strict":
        return []
    absent = [one for one in columns if one.split(".")[0] not in properties]
    return [
        f"the index has no field {one!r}, and its mapping is strict: add the field, or leave the "
        "column out in a map before the sink"
        for one in absent
    ]
