"""The command that opens the dashboard."""

import sys
import webbrowser
from typing import Annotated

import typer

from jobmanager.client import job_reference
from jobmanager.client.cli import DEFAULT_URL, AsJson, Url, app, print_json
from jobmanager.client.client import HeadgateClient
from jobmanager.client.completion import job_names


@app.command("open")
def open_dashboard(
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="[JOB]",
            help="A job's id, the beginning of its id, or its name.",
            autocompletion=job_names,
        ),
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Open the dashboard, or a job's page on it, in the browser, and print its address.

    Without a terminal, or without a browser, only the address is printed.

    \b
    Example:
      headgate open
      headgate open revenue
    """
    page = f"{url.rstrip('/')}/"
    if job is not None:
        with HeadgateClient(url) as client:
            page = f"{page}#/jobs/{job_reference.find(client, job)}"
    if as_json:
        print_json({"url": page})
        return
    typer.echo(page)
    if sys.stdout.isatty():
        webbrowser.open(page)
