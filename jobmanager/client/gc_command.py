"""The command that deletes garbage in the server's storage."""

from datetime import timedelta
from typing import Annotated

import typer

from jobmanager.client import answers, display
from jobmanager.client.cli import DEFAULT_URL, AsJson, Url, app, print_json
from jobmanager.client.client import HeadgateClient
from jobmanager.client.errors import HeadgateError
from jobmanager.core import durations


@app.command()
def gc(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted, and why. Delete nothing.")
    ] = False,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE",
            help="Also attempts of jobs that failed or were cancelled longer ago than this.",
        ),
    ] = None,
    unknown_jobs: Annotated[
        bool,
        typer.Option(
            "--unknown-jobs", help="Also directories of jobs that are not in the database."
        ),
    ] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Delete files in storage that nothing needs, or show what would be deleted.

    Files that a retained checkpoint, a savepoint, a job that has not ended or a restore under way
    needs are never deleted.

    \b
    Example:
      headgate gc --dry-run
      headgate gc --older-than 7d
    """
    age = _age(older_than) if older_than is not None else None
    with HeadgateClient(url) as client:
        found = client.gc(dry_run=dry_run, older_than=age, unknown_jobs=unknown_jobs)
    if as_json:
        print_json(found)
        return
    _show(found)


def _show(found: answers.GarbageResponse) -> None:
    for title, items in (("", found["items"]), ("left alone:", found["left"])):
        if items:
            if title:
                typer.echo(title)
            display.console().print(display.garbage(items))
    count = len(found["items"])
    things = "1 thing" if count == 1 else f"{count} things"
    done = "would be deleted" if found["dry_run"] else "deleted"
    kept = ", ".join(f"{n} {kind.replace('_', ' ')}" for kind, n in found["kept"].items())
    typer.echo(f"{things} {done}, {display.size(found['bytes'])}")
    typer.echo(f"kept: {kept or 'nothing'}")


def _age(text: str) -> timedelta:
    try:
        return durations.parse(text)
    except ValueError as error:
        raise HeadgateError(f"--older-than: {error}") from error
