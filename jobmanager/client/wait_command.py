"""The command that waits until something has happened to jobs, for scripts and schedulers."""

import math
import time
from dataclasses import asdict
from typing import Annotated

import typer

from jobmanager.client import job_reference, waiting
from jobmanager.client.cli import DEFAULT_URL, AsJson, Quiet, Url, app, print_json
from jobmanager.client.client import HeadgateClient
from jobmanager.client.completion import job_names
from jobmanager.client.errors import HeadgateError
from jobmanager.client.sync_client import Client
from jobmanager.core import durations

_LONGEST_PAUSE = 5.0
"""Seconds between two attempts to reach a server that is away."""


@app.command()
def wait(
    jobs: Annotated[
        list[str],
        typer.Argument(
            metavar="JOB...",
            help="Ids, beginnings of ids, or names; of ended jobs of one name the newest is meant.",
            autocompletion=job_names,
        ),
    ],
    condition: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="CONDITION",
            help="state=STATE, such as state=running; checkpoint (the next one) or "
            "checkpoint=NUMBER; savepoint; operation=ID; or end, whatever it is but failure.",
        ),
    ] = "end",
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="How long to wait: 90s, 5m, 2h.")
    ] = "10m",
    quiet: Quiet = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Wait until something has happened to one job or several.

    The exit code is 0 when it has happened, 6 if a job ended in another way, and 124 if the time is
    up. A server that is away for a while is waited for, too.

    \b
    Example:
      headgate wait revenue --for state=running --timeout 5m
      headgate wait revenue --for checkpoint
      headgate stop revenue --wait 0 && headgate wait revenue --for savepoint -q
      headgate wait nightly-report --for state=finished --timeout 6h
    """
    seconds = seconds_of(timeout)
    deadline = time.monotonic() + seconds
    with HeadgateClient(url) as first:
        ids = [job_reference.find(first, one, newest=True) for one in jobs]
        for job_id in ids:
            first.status(job_id)  # a wrong URL or a wrong id is told at once
    with Client(url, retries=math.ceil(seconds / _LONGEST_PAUSE)) as client:
        for job_id in ids:
            left = max(0.0, deadline - time.monotonic())
            found = client.follow(waiting.awaited(job_id, condition, left))
            if as_json:
                given = {name: value for name, value in asdict(found).items() if value is not None}
                print_json({"jobid": job_id, **given})
            elif quiet:
                typer.echo(str(found))
            else:
                typer.echo(f"job {job_id}: {_said(found)}")


def seconds_of(text: str) -> float:
    """Return the seconds of a duration such as 90s or 5m; a number alone means seconds."""
    if text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        return durations.parse(text).total_seconds()
    except ValueError as error:
        raise HeadgateError(f"--timeout: {error}") from error


def _said(found: waiting.Awaited) -> str:
    if found.savepoint:
        return f"savepoint {found.savepoint} is complete"
    if found.checkpoint is not None:
        return f"checkpoint {found.checkpoint} is complete"
    return str(found.state)
