"""The rows that all engines read: files of one format, written by DuckDB, the same for everybody.

A table is two files, and both of them go through all of its time, so that two readers advance
side by side. Event time is 1,000 seconds, however many rows there are. Of 50 rows two have the same
auction, next to each other. The last row is a day later than all others and closes every window;
its key is -1, and what an engine makes of it is not counted: Flink closes its window too.
"""

from dataclasses import dataclass
from pathlib import Path

import duckdb

SECONDS = 1_000
FEW_KEYS = 100
ROWS_OF_A_SELLER = 50
_FILES = 2
_CLOSING = -1
_BEGIN = "TIMESTAMP '2026-01-01 00:00:00'"


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    columns: tuple[tuple[str, str], ...]
    """Names, and types as both Spark and Flink know them."""
    time: str

    def schema(self) -> str:
        """As Spark's DDL."""
        return ", ".join(f"{name} {kind}" for name, kind in self.columns)


BIDS = Table(
    "bids",
    (
        ("auction", "BIGINT"),
        ("bidder", "BIGINT"),
        ("seller", "BIGINT"),
        ("price", "BIGINT"),
        ("ts", "TIMESTAMP"),
    ),
    "ts",
)
ASKS = Table("asks", (("item", "BIGINT"), ("ask", "BIGINT"), ("asked_at", "TIMESTAMP")), "asked_at")
TABLES = {one.name: one for one in (BIDS, ASKS)}


def write(directory: Path, table: Table, rows: int, file_format: str) -> Path:
    """Writes the table if it is not there, and returns its directory."""
    place = directory / f"{table.name}-{file_format}-{rows}"
    if place.exists():
        return place
    draft = place.with_name(f".{place.name}")
    draft.mkdir(parents=True)
    with duckdb.connect() as connection:
        for file in range(_FILES):
            query = _rows(table, rows, file)
            target = draft / f"{file}.{file_format}"
            connection.execute(f"COPY ({query}) TO '{target}' ({_OPTIONS[file_format]})")
    draft.rename(place)
    return place


def count(directory: Path, file_format: str) -> int:
    """The result rows in a directory of files, without what comes of the closing row."""
    files = [one for one in sorted(directory.rglob("*")) if _has_rows(one)]
    if not files:
        return 0
    reader = {"csv": "read_csv", "json": "read_json", "parquet": "read_parquet"}[file_format]
    options = ", header=false, all_varchar=true" if file_format == "csv" else ""
    names = ", ".join(f"'{one}'" for one in files)
    with duckdb.connect() as connection:
        found = f"{reader}([{names}]{options})"
        key = connection.execute(f"SELECT * FROM {found} LIMIT 0").description[0][0]
        answer = connection.execute(
            f"SELECT count(*) FROM {found} WHERE CAST({key} AS BIGINT) <> {_CLOSING}"
        ).fetchone()
    assert answer is not None
    return int(answer[0])


def _has_rows(path: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in path.parts[-3:])
    return path.is_file() and not hidden and path.stat().st_size > 0


_TIME_FORMAT = "'%Y-%m-%d %H:%M:%S.%g'"
_OPTIONS = {
    "csv": f"FORMAT csv, HEADER false, TIMESTAMPFORMAT {_TIME_FORMAT}",
    "json": f"FORMAT json, TIMESTAMPFORMAT {_TIME_FORMAT}",
    "parquet": "FORMAT parquet",
}


def _rows(table: Table, rows: int, file: int) -> str:
    ids = f"(SELECT range * {_FILES} + {file} AS id FROM range({rows // _FILES}))"
    at = f"{_BEGIN} + to_milliseconds(id * {SECONDS * 1000} // {rows})"
    # of each 50 rows the first has the auction of the second
    auction = "CASE WHEN id % 50 = 0 THEN id + 1 ELSE id END"
    closed_at = f"{_BEGIN} + INTERVAL 1 DAY"
    if table is BIDS:
        sellers = max(1, rows // ROWS_OF_A_SELLER)
        columns = (
            f"{auction} AS auction, id * 7919 % {FEW_KEYS} AS bidder, "
            f"CAST(hash(id) % {sellers} AS BIGINT) AS seller, id * 31 % 1000 AS price, {at} AS ts"
        )
        closing = ", ".join([str(_CLOSING)] * 4)
    else:
        columns = f"id AS item, id * 17 % 1000 AS ask, {at} AS asked_at"
        closing = ", ".join([str(_CLOSING)] * 2)
    found = f"SELECT {columns} FROM {ids}"
    return found if file else f"{found} UNION ALL SELECT {closing}, {closed_at}"
