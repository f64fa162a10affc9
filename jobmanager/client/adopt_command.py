"""The command that moves a plain Spark query to Headgate."""

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
            metavar="SPARK_CHECKPOINT_DIR", help="A path on the server: absolute, or a file: URI."
        ),
    ],
    graph: Annotated[
        str, typer.Option(metavar="FILE", help="The job graph that shall continue from it.")
    ],
    parallelism: Annotated[
        int | None,
        typer.Option(min=1, help="Subtasks of each keyed vertex, instead of the graph's."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="The savepoint's directory. [default: in the server's storage]"
        ),
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Make a savepoint of the checkpoint of a plain Spark query, to start a job from.

    Stop the query first: the savepoint does not contain what the query does later.

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
    typer.echo(f"start a job from it: headgate submit {graph} --from-savepoint {made['id']}")
