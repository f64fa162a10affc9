"""Whether Spark's offline rewrite of state keeps all rows of the state in a directory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
_LOST = "4"
_JOIN = '"symmetricHashJoin"'


def rewrite_obstacle(directory: Path, settings: Mapping[str, Any]) -> str | None:
    """Why Spark (4.3) would lose rows in a rewrite; None: it keeps all. `settings` are those that
    the last batch was planned with.
    """
    if str(settings.get(JOIN_FORMAT)) == _LOST and _has_join(directory):
        return (
            f"the state of its join has format {_LOST} ({JOIN_FORMAT}), of which Spark's rewrite "
            "of state loses rows: keep the parallelism"
        )
    return None


def _has_join(directory: Path) -> bool:
    found = (directory / "state").glob("*/_metadata/**/*")
    named = [one for one in found if one.is_file() and not one.name.startswith(".")]
    return any(_JOIN in one.read_text(encoding="utf-8") for one in named)
