"""The command that submits SQL as a job."""

from pathlib import Path
from typing import Annotated

import typer

from jobmanager.client import graph_file, local_artifacts
from jobmanager.client.cli import DEFAULT_URL, AsJson, Url, app, print_json
from jobmanager.client.client import HeadgateClient
from jobmanager.client.errors import HeadgateError


@app.command("sql")
def sql(
    statement: Annotated[
        str | None, typer.Argument(metavar="[SQL]", help="INSERT INTO … SELECT …; …")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="Statements in a file.")
    ] = None,
    catalog: Annotated[
        Path | None,
        typer.Option("--catalog", "--catalogue", metavar="FILE", help="Tables, in YAML."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The job's name.")] = None,
    parallelism: Annotated[
        int | None, typer.Option(min=1, help="Subtasks of each keyed vertex.")
    ] = None,
    from_savepoint: Annotated[
        str | None, typer.Option(metavar="ID|PATH", help="Start from a savepoint.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the job graph; submit nothing.")
    ] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Submit SQL as a job.

    Tables are declared in a catalogue, or in the statements by CREATE TABLE … WITH (…).

    \b
    Example:
      headgate sql --catalog catalog.yaml \\
        "INSERT INTO out SELECT auction, window.start AS at, sum(price) AS revenue
         FROM bids GROUP BY auction, window(ts, '10 seconds')"
      headgate sql -f revenue.sql --dry-run
    """
    from jobmanager.client import sql_graph  # reads SQL by a package that takes long to import
    from jobmanager.client.sql_tables import Catalogue, read_catalogue

    if (statement is None) == (file is None):
        raise HeadgateError(
            "no SQL was given: write the statements as an argument, or name a file with -f"
        )
    text = statement if file is None else _text(file)
    tables = read_catalogue(graph_file.read(str(catalog))) if catalog else Catalogue()
    if name is not None:
        tables.settings["name"] = name
    graph = sql_graph.graph_of(text or "", tables)
    if dry_run:
        print_json(graph)
        return
    with HeadgateClient(url) as client:
        here = graph_file.directory_of(str(catalog)) if catalog else Path.cwd()
        uploaded = local_artifacts.uploaded(client, graph, here)
        job_id = client.submit(uploaded, parallelism=parallelism, savepoint=from_savepoint)
    if as_json:
        print_json({"jobid": job_id, "graph": graph})
    else:
        typer.echo(f"submitted {graph['name']} as job {job_id}")


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HeadgateError(f"{file} cannot be read: {error}") from error
