"""`python -m bench.side_by_side`: runs the lines on all engines, and writes the results."""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from bench.side_by_side import input_data, results
from bench.side_by_side.engines import CannotRun, Engine, Input, engines
from bench.side_by_side.lines import LINES, Line
from bench.side_by_side.results import Measurement
from bench.support import FLINK, save, say

ENGINES = ("headgate", "pyspark", "defaults", "flink")
_SLOWEST = "defaults"


def main(given: Sequence[str]) -> None:
    asked = _arguments(given)
    lines = _chosen(asked.only, asked.formats)
    names = [one for one in asked.engines.split(",") if one != "flink" or FLINK.exists()]
    if len(names) < len(asked.engines.split(",")):
        say("Flink is left out: make bench-flink installs it")
    sizes = [int(one) for one in asked.rows.split(",")]
    measured: list[Measurement] = []
    with _room(asked.keep) as directory:
        connectors = ["kafka"] if "kafka" in asked.formats else []
        with _broker(connectors) as servers, engines(names, directory, FLINK, connectors) as all_:
            for rows in sizes:
                for number in range(asked.rounds):
                    chosen = [
                        one
                        for one in all_
                        if one.name != _SLOWEST or number < asked.rounds_of_defaults
                    ]
                    for line, file_format in lines:
                        measured += _round(
                            number, line, file_format, rows, chosen, directory, asked.keep, servers
                        )
                    save(asked.name, results.document(measured, sizes, asked.rounds))
    sys.stdout.write(results.markdown(results.document(measured, sizes, asked.rounds)))


def _round(
    number: int,
    line: Line,
    file_format: str,
    rows: int,
    all_: Sequence[Engine],
    directory: Path,
    keep: Path | None,
    servers: str,
) -> Iterator[Measurement]:
    """Each engine once, in an order that turns from round to round."""
    given = _input(directory, line, file_format, rows, servers)
    turned = [*all_[number % len(all_) :], *all_[: number % len(all_)]]
    counts: dict[str, int] = {}
    for engine in turned:
        output = directory / f"{number}-{engine.name}-{line.name}-{file_format}-{rows}".replace(
            " ", "_"
        )
        output = output.with_name(output.name.replace(",", ""))
        try:
            seconds = engine.run(line, given, output)
        except CannotRun as error:
            say(f"{line.name}, {file_format}, {engine.name}: left out, {error}")
            continue
        written = input_data.count(output, given.format) if line.writes else 0
        counts[engine.name] = written
        say(
            f"round {number + 1}, {line.name}, {file_format}, {engine.name}: "
            f"{seconds:.2f} s, {written} results"
        )
        yield Measurement(line.name, file_format, engine.name, number, seconds, given.rows, written)
        if keep is None:
            _delete(directory, output.name)
    if len(set(counts.values())) > 1:
        say(f"FAULT: {line.name}, {file_format}: the engines do not agree: {counts}")


def _input(directory: Path, line: Line, file_format: str, rows: int, servers: str) -> Input:
    """Writes the tables of a line, if they are not there yet."""
    share = rows // len(line.tables)
    tables = [input_data.TABLES[one] for one in line.tables]
    if file_format == "kafka":
        from bench.side_by_side import topics

        places = {
            one.name: topics.fill(
                servers, one, share, input_data.write(directory, one, share, "json")
            )
            for one in tables
        }
        return Input("json", places, share * len(tables), servers)
    found = {one.name: str(input_data.write(directory, one, share, file_format)) for one in tables}
    return Input(file_format, found, share * len(tables))


def _delete(directory: Path, name: str) -> None:
    import shutil

    for one in directory.glob(f"*{name}*"):
        shutil.rmtree(one, ignore_errors=True)


@contextmanager
def _room(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="hgbench", ignore_cleanup_errors=True) as name:
        yield Path(name)


@contextmanager
def _broker(connectors: Sequence[str]) -> Iterator[str]:
    if not connectors:
        with nullcontext():
            yield ""
        return
    from tests.support.kafka import a_broker

    with a_broker() as broker:
        yield broker.servers


def _chosen(only: str, formats: str) -> list[tuple[Line, str]]:
    wanted = [one.strip() for one in only.split(";") if one.strip()]
    return [
        (line, file_format)
        for file_format in formats.split(",")
        for line in LINES
        if not wanted or any(line.name.startswith(one) for one in wanted)
    ]


def _arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.side_by_side", description=__doc__)
    parser.add_argument(
        "--rows",
        default="1000000",
        help="of each line's input; several show the growth: 1000000,2000000",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--rounds-of-defaults",
        type=int,
        default=2,
        help="of PySpark's defaults, which take as long as all others",
    )
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--formats", default="csv", help="csv,json,parquet,kafka")
    parser.add_argument("--only", default="", help="beginnings of lines' names, separated by ;")
    parser.add_argument("--name", default="side_by_side", help="of the file in bench/results")
    parser.add_argument("--keep", type=Path, help="a directory for input and output, kept")
    return parser.parse_args(given)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    main(sys.argv[1:])
