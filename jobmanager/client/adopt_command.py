"""The command that brings a plain Spark query to Headgate."""

from pathlib import Path
from typing import Annotated

import typer

from jobmanager.client import display, graph_file
from jobmanager.client.cli import DEFAULT_URL, AsJson, Url, app, print_json
from jobmanager.client.client import HeadgateClient


@app.command()
def adopt(
    directory: Annotated[
        str,
        typer.Argument(
            metavar="SPARK_CHECKPOINT_DIR", help="As the server sees it: absolute, or a file: URI."
        ),
    ],
    graph: Annotated[
        str, typer.Option(metavar="FILE", help="The job graph that is to go on from it.")
    ],
    parallelism: Annotated[
        int | None, typer.Option(min=1, help="Subtasks of each keyed vertex, for the graph's own.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Where to put it. [default: in the server's storage]"),
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Make a savepoint of the checkpoint of a plain Spark query, for a job to go on from.

    The query should be stopped: what it does later the savepoint does not have.

    \b
    Example:
      headgate adopt /data/checkpoints/revenue --graph revenue.yaml
      headgate submit revenue.yaml --from-savepoint ID
    """
    document = graph_file.read(graph)
    path = directory if directory.startswith("file:") else str(Path(directory).absolute())
    with HeadgateClient(url) as client:
        if not as_json and client.inspector()["state"] != "ready":
            typer.echo("starting a Spark session to read the checkpoint…", err=True)
        made = client.adopt(path, document, parallelism=parallelism, target=target)
    if as_json:
        print_json(made)
        return
    typer.echo(f"savepoint {made['id']} is at {made['path']}, {display.size(made['bytes'])}")
    typer.echo(f"go on from it: headgate submit {graph} --from-savepoint {made['id']}")
