"""The command that looks into keyed state."""

from typing import Annotated, Any

import typer

from jobmanager.client import job_reference, state_display
from jobmanager.client.cli import DEFAULT_URL, AsJson, Url, app, print_json
from jobmanager.client.client import HeadgateClient
from jobmanager.client.errors import HeadgateError
from jobmanager.client.state import StateOf


@app.command()
def state(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="JOB [VERTEX [NAME]]",
            help="With --savepoint: [VERTEX [NAME]]. NAME is needed if the vertex has several "
            "states.",
        ),
    ] = None,
    savepoint: Annotated[
        str | None, typer.Option(metavar="ID", help="Read a savepoint instead of a job.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Only this key: a value, or a JSON object of columns."),
    ] = None,
    scan: Annotated[
        bool, typer.Option("--scan", help="Rows, ordered by subtask and key. [default]")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Rows to show.")] = 20,
    cursor: Annotated[
        str | None, typer.Option(metavar="NEXT", help="Continue after an earlier page.")
    ] = None,
    key_groups: Annotated[
        bool, typer.Option("--key-groups", help="Rows and bytes in each key group, and the skew.")
    ] = False,
    region: Annotated[
        str | None, typer.Option(help="The region, for a vertex in several regions.")
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show the keyed state in a job's last completed checkpoint, or in a savepoint.

    \b
    Example:
      headgate state 3f2a
      headgate state 3f2a revenue --key 5
      headgate state 3f2a revenue --key '{"auction": 5, "window_start": "2026-11-16T12:00:00Z"}'
      headgate state 3f2a revenue --scan --limit 100
      headgate state 3f2a revenue --key-groups
      headgate state --savepoint 9c1b4f… revenue --key 5
    """
    if sum([key is not None, scan, key_groups]) > 1:
        raise HeadgateError("use only one of --key, --scan and --key-groups")
    names = list(what or ())
    with HeadgateClient(url) as client:
        if savepoint is not None:
            source = client.savepoint_state(savepoint)
        elif names:
            source = client.state(job_reference.find(client, names.pop(0)))
        else:
            raise HeadgateError("no job was given: use headgate state JOB, or --savepoint ID")
        if len(names) > 2:
            raise HeadgateError(f"{names[2]!r} is not expected here: see headgate state --help")
        _announce(client)
        if not names:
            _list(source, as_json)
            return
        chosen = {"vertex": names[0], "name": names[1] if len(names) > 1 else "default"}
        if key_groups:
            _histogram(source, as_json, **chosen, region=region)
            return
        page = {"region": region, "limit": limit, "cursor": cursor}
        _rows(source, as_json, **chosen, key=key, page=page)


def _announce(client: HeadgateClient) -> None:
    if client.inspector()["state"] != "ready":
        typer.echo("starting a Spark session to read the state…", err=True)


def _list(source: StateOf, as_json: bool) -> None:
    found = source.list()
    if as_json:
        print_json(found)
        return
    typer.echo(state_display.source(found))
    state_display.show(state_display.states(found["items"]))


def _rows(
    source: StateOf, as_json: bool, vertex: str, name: str, key: str | None, page: dict[str, Any]
) -> None:
    if key is None:
        found = source.page(vertex, name, **page)
    else:
        found = source.key(vertex, key, name, **page)
    if as_json:
        print_json(found)
        return
    typer.echo(state_display.source(found))
    state_display.show(state_display.rows(found["items"]))
    if found["next"]:
        typer.echo(f"there is more: --cursor {found['next']}")


def _histogram(source: StateOf, as_json: bool, vertex: str, name: str, region: str | None) -> None:
    found = source.key_groups(vertex, name, region=region)
    if as_json:
        print_json(found)
        return
    typer.echo(state_display.source(found))
    state_display.show(state_display.histogram(found))
    typer.echo(state_display.balance(found))
