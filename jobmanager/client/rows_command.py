"""The command that shows what a job has written last."""

from typing import Annotated, Any

import typer
from rich.text import Text

from jobmanager.client import answers, display, job_reference, state_display
from jobmanager.client.cli import DEFAULT_URL, AsJson, Url, app, print_json
from jobmanager.client.client import HeadgateClient
from jobmanager.client.completion import job_names
from jobmanager.client.errors import HeadgateError
from jobmanager.client.sync_client import Client


@app.command()
def rows(
    job: Annotated[
        str,
        typer.Argument(metavar="JOB", help="An id or a name.", autocompletion=job_names),
    ],
    sink: Annotated[
        str | None,
        typer.Argument(metavar="SINK", help="Its id in the graph; needed if there are several."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Rows to show.")] = 20,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show the newest rows that a job has written to a sink.

    The rows are read from the output itself: from files, from a Delta table, or from a Kafka topic.
    Needs the role operator.

    \b
    Example:
      headgate rows revenue
      headgate rows revenue out --limit 100
      headgate rows revenue out -o json
    """
    with HeadgateClient(url) as finder:
        job_id = job_reference.find(finder, job, newest=True)
        if finder.inspector()["state"] != "ready":
            typer.echo("starting a Spark session to read the rows…", err=True)
    with Client(url) as client:
        vertex = sink or _only_sink(client.get_job_graph(job_id)["graph"])
        found = client.get_job_sink_rows(job_id, vertex, limit=limit)
    if as_json:
        print_json(found)
        return
    typer.echo(f"from {found['origin']}", err=True)
    if not found["rows"]:
        typer.echo("there are no rows yet", err=True)
        return
    _show(found)


def _only_sink(graph: dict[str, Any]) -> str:
    sinks = [str(one["id"]) for one in graph["vertices"] if one.get("op") == "sink"]
    if len(sinks) != 1:
        raise HeadgateError(f"the job has {len(sinks)} sinks, name one: {', '.join(sinks)}")
    return sinks[0]


def _show(found: answers.SinkRowsResponse) -> None:
    names = [one["name"] for one in found["columns"]]
    table = display.folding_table(*(Text(name) for name in names))
    for row in found["rows"]:
        table.add_row(*(state_display.cell(row.get(name)) for name in names))
    display.console().print(table)
