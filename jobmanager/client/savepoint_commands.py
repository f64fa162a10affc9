"""The commands about savepoints: take, stop with a savepoint, list, verify, label, dispose."""

from typing import Annotated

import typer

from jobmanager.client import answers, display, following, job_reference
from jobmanager.client.cli import DEFAULT_URL, AsJson, Job, Quiet, Url, Wait, app, print_json
from jobmanager.client.client import HeadgateClient
from jobmanager.client.errors import HeadgateError

Target = Annotated[
    str | None,
    typer.Option(
        metavar="DIR|URI",
        help="The savepoint's directory, such as s3://bucket/... [default: in the storage]",
    ),
]


@app.command()
def savepoint(
    job: Job,
    target: Target = None,
    wait: Wait = 600.0,
    quiet: Quiet = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Take a savepoint of a running job, and print its location.

    \b
    Example:
      headgate savepoint 3f2a
      headgate savepoint 3f2a --target s3://backups/revenue
    """
    with HeadgateClient(url) as client:
        job_id = job_reference.find(client, job)
        operation = client.take_savepoint(job_id, target=target)
        _show(following.within(client, operation, wait), as_json, quiet)


@app.command()
def stop(
    job: Job,
    drain: Annotated[
        bool, typer.Option("--drain", help="First emit every open window, as at the end of input.")
    ] = False,
    target: Target = None,
    wait: Wait = 600.0,
    quiet: Quiet = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Stop a job with a savepoint, after its current batch.

    \b
    Example:
      headgate stop 3f2a
      sp=$(headgate stop 3f2a -q) && headgate submit new.yaml --from-savepoint "$sp"
    """
    with HeadgateClient(url) as client:
        job_id = job_reference.find(client, job)
        operation = client.stop(job_id, drain=drain, target=target)
        _show(following.within(client, operation, wait), as_json, quiet)


@app.command(watch=True)
def savepoints(
    savepoint_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="A savepoint's id.")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Check every file's checksum.")] = False,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=TEXT", help="Set a label; NAME= removes it."),
    ] = None,
    dispose: Annotated[bool, typer.Option("--dispose", help="Delete the savepoint.")] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """List savepoints, or show, verify, label or dispose of one.

    \b
    Example:
      headgate savepoints
      headgate savepoints 9c1b4f… --label before=upgrade
      headgate savepoints 9c1b4f… --verify
    """
    with HeadgateClient(url) as client:
        if savepoint_id is None:
            if verify or label or dispose:
                raise HeadgateError("--verify, --label and --dispose need the id of a savepoint")
            _list(client.savepoints(), as_json)
            return
        if label:
            client.label_savepoint(savepoint_id, dict(_label(one) for one in label))
        if verify:
            _verify(client, savepoint_id, as_json)
            return
        if dispose:
            client.dispose_savepoint(savepoint_id)
        print_json(client.savepoint(savepoint_id))


def _show(operation: answers.OperationResponse, as_json: bool, quiet: bool) -> None:
    if as_json:
        print_json(operation)
    elif quiet:
        result = operation["result"]
        typer.echo(result["savepoint"] if result else operation["id"])
    elif operation["result"] and operation["status"] == "completed":
        result = operation["result"]
        typer.echo(f"savepoint {result['savepoint']} is at {result['path']}")
    else:
        typer.echo(f"{operation['kind']} {operation['id']} is under way: {_phase(operation)}")


def _phase(operation: answers.OperationResponse) -> str:
    return str(operation["phases"][-1]["name"])


def _list(found: list[answers.SavepointResponse], as_json: bool) -> None:
    if as_json:
        print_json(found)
    elif found:
        display.console().print(display.savepoints(found))
    else:
        typer.echo("no savepoints yet: headgate savepoint JOB")


def _label(text: str) -> tuple[str, str | None]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise HeadgateError(f"--label {text!r} is not NAME=TEXT")
    return name, value or None


def _verify(client: HeadgateClient, savepoint_id: str, as_json: bool) -> None:
    found = client.verify_savepoint(savepoint_id)
    if as_json:
        print_json(found)
    if found["faults"]:
        error = HeadgateError(f"savepoint {savepoint_id} has faults ({len(found['faults'])})")
        error.faults = [str(fault) for fault in found["faults"]]
        raise error
    if not as_json:
        whole = f"{found['files']} files, {display.size(found['bytes'])}"
        typer.echo(f"savepoint {savepoint_id} is whole: {whole}")
