"""The commands for faults: doctor, and the bundle for whoever helps."""

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from jobmanager.client import display, job_reference, machine_checks, support_bundle
from jobmanager.client.cli import DEFAULT_URL, AsJson, Url, app, print_json
from jobmanager.client.client import HeadgateClient
from jobmanager.client.completion import job_names
from jobmanager.client.errors import HeadgateError
from jobmanager.client.machine_checks import CheckResult
from jobmanager.client.sync_client import Client

_COLOURS = {CheckResult.GOOD: "green", CheckResult.DOUBTFUL: "yellow", CheckResult.BAD: "red"}
DataDirectory = Annotated[
    Path,
    typer.Option(metavar="PATH", envvar="HEADGATE_DATA_DIR", help="The server's --data-dir."),
]


@app.command()
def doctor(
    data_dir: DataDirectory = Path(".headgate"),
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Look at this machine and the server: Java, Spark, Postgres, disk, port, versions, clocks.

    Says what to do where something is not as it should be. The exit code is 1 if something is bad.

    \b
    Example:
      headgate doctor
    """
    found = list(machine_checks.findings(url, data_dir))
    if as_json:
        print_json([{"name": one.subject, **asdict(one)} for one in found])
    else:
        table = Table(box=None, show_header=False, pad_edge=False)
        for _ in range(4):
            table.add_column(overflow="fold")
        for one in found:
            word = f"[{_COLOURS[one.health]}]{one.health}[/]"
            table.add_row(one.subject, word, one.found, one.advice)
        display.console().print(table)
    if any(one.health is CheckResult.BAD for one in found):
        raise typer.Exit(1)


@app.command("support-bundle")
def bundle(
    jobs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[JOB]...",
            help="Jobs by id or name. [default: all live jobs and the ten that ended last]",
            autocompletion=job_names,
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", metavar="FILE", help="[default: headgate-support-<time>.zip, here]"
        ),
    ] = None,
    log_lines: Annotated[
        int, typer.Option(min=0, max=100_000, help="How much of each log's end is taken.")
    ] = 5000,
    data_dir: DataDirectory = Path(".headgate"),
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Write a zip file with what somebody needs to help: history, status, graphs, plans, logs.

    Secrets are left out. Look into the file before you pass it on: a log may quote data.

    \b
    Example:
      headgate support-bundle revenue --file revenue.zip
    """
    with HeadgateClient(url) as client:
        ids = [job_reference.find(client, one, newest=True) for one in jobs or []]
        ids = ids or support_bundle.jobs_of_interest(client.jobs())
    now = datetime.now(UTC)
    target = file or Path(f"headgate-support-{now:%Y%m%d-%H%M%S}.zip")
    checks = list(machine_checks.findings(url, data_dir))
    with Client(url, retries=1) as client:
        try:
            written = support_bundle.write(client, target, ids, checks, log_lines, now)
        except OSError as error:
            raise HeadgateError(f"{target} cannot be written: {error.strerror or error}") from error
    if as_json:
        print_json({"name": str(target), "jobs": ids, "files": written})
    else:
        typer.echo(f"{target}: {len(written)} files, {display.size(target.stat().st_size)}")
