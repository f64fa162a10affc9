"""The names of stateful operators in a Spark checkpoint directory.

An aggregation has one name in micro-batches and another in real-time mode. Both keep the same state
and Spark (4.3) continues either with either, but its offline rewrite of state knows the first only.
"""

from pathlib import Path

from taskrunner.snapshots import durable

_IN_REAL_TIME, _IN_BATCHES = '"StatefulStreamlineAggregate"', '"stateStoreSave"'


def use_names_of_batches(directory: Path) -> None:
    """Gives aggregations the name that they have in micro-batches. The files may be links."""
    for path in sorted((directory / "state").glob("*/_metadata/**/*")):
        if path.name.startswith(".") or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8")
        if _IN_REAL_TIME in text:
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
            durable.write(path, text.replace(_IN_REAL_TIME, _IN_BATCHES))
