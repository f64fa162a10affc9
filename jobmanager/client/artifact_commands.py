"""The commands about artifacts: Python files, zips and wheels that jobs name."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from jobmanager.client import answers, display, local_artifacts
from jobmanager.client.cli import DEFAULT_URL, AsJson, Url, app, print_json
from jobmanager.client.client import HeadgateClient
from jobmanager.client.client_typer import ClientTyper
from jobmanager.client.errors import HeadgateError

artifacts = ClientTyper(
    help="Upload and manage the Python code that jobs name in `artifacts`.",
    no_args_is_help=True,
)
app.add_typer(artifacts, name="artifacts")
Artifact = Annotated[
    str,
    typer.Argument(
        metavar="ARTIFACT", help="The artifact's id, the beginning of its id, or its name."
    ),
]


@artifacts.command("upload")
def upload(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help=".py, .zip, .whl, or a package.")
    ],
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Upload files. A file with the same content is the same artifact.

    \b
    Example:
      headgate artifacts upload fraud.py
      headgate artifacts upload dist/rules-1.0-py3-none-any.whl
    """
    with HeadgateClient(url) as client:
        found = [client.artifact(local_artifacts.upload(client, path)) for path in files]
    if as_json:
        print_json(found)
        return
    for one in found:
        typer.echo(f"{one['id']}  {one['name']}  {', '.join(one['modules'][:8])}")


@artifacts.command("list")
def list_artifacts(url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """List all artifacts, the newest first.

    \b
    Example:
      headgate artifacts list
    """
    with HeadgateClient(url) as client:
        found = client.artifacts()
    if as_json:
        print_json(found)
    elif found:
        display.console().print(_table(found))
    else:
        typer.echo("no artifacts yet: headgate artifacts upload FILE")


@artifacts.command("show")
def show(artifact: Artifact, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Show an artifact: its modules, their names, and the jobs that use it.

    \b
    Example:
      headgate artifacts show fraud.py
    """
    with HeadgateClient(url) as client:
        found = client.artifact(find(client, artifact))
    if as_json:
        print_json(found)
        return
    typer.echo(f"{found['name']}  {display.size(found['bytes'])}  {found['id']}")
    for module, names in found["names"].items():
        typer.echo(f"  {module}: {', '.join(names) or 'no names'}")
    typer.echo(f"used by: {', '.join(found['jobs']) or 'no job'}")


@artifacts.command("delete")
def delete(artifact: Artifact, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Delete an artifact that no job uses.

    \b
    Example:
      headgate artifacts delete fraud.py
    """
    with HeadgateClient(url) as client:
        found = client.delete_artifact(find(client, artifact))
    if as_json:
        print_json(found)
    else:
        typer.echo(f"deleted {found['name']} {found['id']}")


def find(client: HeadgateClient, reference: str) -> str:
    """Return the id of the artifact that `reference` means; the newest, if several have that
    name.
    """
    found = client.artifacts()
    named = [one["id"] for one in found if one["name"] == reference]
    begins = [one["id"] for one in found if one["id"].startswith(reference)]
    if named:
        return named[0]
    if len(begins) != 1:
        many = "no artifact is" if not begins else f"{len(begins)} artifacts are"
        raise HeadgateError(f"{many} called {reference!r}: see headgate artifacts list")
    return begins[0]


def _table(found: list[answers.ArtifactResponse]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("id", "name", "size", "modules", "uploaded"):
        table.add_column(title)
    for one in found:
        modules = ", ".join(one["modules"][:4]) + (" …" if len(one["modules"]) > 4 else "")
        size = display.size(one["bytes"])
        table.add_row(one["id"][:12], one["name"], size, modules, one["uploaded_at"][:19])
    return table
