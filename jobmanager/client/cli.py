"""The command line of the client. `jobmanager.command` adds the commands that need server code.

Every command takes `-o`: with `json` (also `--json`), `yaml` or `name` it prints the server's
answer, and nothing else, to the standard output. An error is one line on the standard error, and an
exit code other than 0 (`exit_codes`). No command asks the user anything.
"""

import json
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated

import typer
from typer.exceptions import Abort, TyperException

from jobmanager.client import (
    contexts,
    display,
    exit_codes,
    graph_file,
    job_reference,
    local_artifacts,
    output,
)
from jobmanager.client.answers import CheckpointResponse, DryRun, JobLine
from jobmanager.client.client import HeadgateClient
from jobmanager.client.client_typer import ClientTyper
from jobmanager.client.completion import job_names
from jobmanager.client.errors import HeadgateError, WaitTimeout, fault_line

DEFAULT_URL = contexts.DEFAULT_URL

app = ClientTyper(
    name="headgate",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Url = Annotated[str, typer.Option("--url")]
"""`ClientTyper` replaces it by options that choose the server."""
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else: -o json.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print the id, and nothing else: -o name.")
]
Timeout = Annotated[float, typer.Option(min=0, metavar="SECONDS", help="How long --wait waits.")]
Wait = Annotated[
    float, typer.Option(min=0, metavar="SECONDS", help="How long to wait; 0: do not wait.")
]
Job = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="A job's id, the beginning of its id, or its name.",
        autocompletion=job_names,
    ),
]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headgate {metadata.version('headgate')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def headgate(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version."),
    ] = False,
) -> None:
    """Job management for Apache Spark: submit job graphs, watch them, checkpoint them.

    \b
    Example:
      headgate serve &
      headgate submit examples/quickstart.yaml
      headgate list
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def submit(
    file: Annotated[str, typer.Argument(metavar="FILE", help="YAML or JSON; - reads stdin.")],
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Check the graph and what it starts from, show the plan; store nothing.",
        ),
    ] = False,
    analyse: Annotated[
        bool,
        typer.Option(
            "--analyse", help="Let Spark analyse the graph first, to find unknown columns."
        ),
    ] = False,
    parallelism: Annotated[
        int | None,
        typer.Option(min=1, help="Subtasks of each keyed vertex, instead of the graph's."),
    ] = None,
    from_savepoint: Annotated[
        str | None,
        typer.Option(metavar="ID|PATH", help="Start from a savepoint: its id or location."),
    ] = None,
    from_checkpoint: Annotated[
        str | None,
        typer.Option(metavar="JOBID:N", help="Start from a retained checkpoint of any job."),
    ] = None,
    allow_non_restored_state: Annotated[
        bool,
        typer.Option(
            "--allow-non-restored-state", help="Drop saved state that the graph has no vertex for."
        ),
    ] = False,
    allow_drained: Annotated[
        bool,
        typer.Option(
            "--allow-drained",
            help="Start from a savepoint that was drained, though its watermark is at the end.",
        ),
    ] = False,
    claim: Annotated[
        bool,
        typer.Option(
            "--claim", help="Own what the job starts from: delete it after the first checkpoint."
        ),
    ] = False,
    quiet: Quiet = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Submit a job graph.

    \b
    Example:
      headgate submit examples/quickstart.yaml --parallelism 4
      headgate submit examples/quickstart.yaml --dry-run --analyse
      headgate submit examples/quickstart.yaml --from-savepoint 9c1b4f…
      job=$(headgate submit examples/quickstart.yaml -q)
    """
    graph = graph_file.read(file)
    with HeadgateClient(url) as client:
        graph = local_artifacts.uploaded(client, graph, graph_file.directory_of(file))
        if dry_run:
            checked = client.dry_run(
                graph,
                parallelism=parallelism,
                savepoint=from_savepoint,
                checkpoint=from_checkpoint,
                allow_non_restored_state=allow_non_restored_state,
                allow_drained=allow_drained,
                analyse=analyse,
            )
            _show_dry_run(checked, as_json)
            return
        job_id = client.submit(
            graph,
            parallelism=parallelism,
            savepoint=from_savepoint,
            checkpoint=from_checkpoint,
            allow_non_restored_state=allow_non_restored_state,
            allow_drained=allow_drained,
            claim=claim,
            analyse=analyse,
        )
    if as_json:
        print_json({"jobid": job_id})
    elif quiet:
        typer.echo(job_id)
    else:
        typer.echo(f"submitted {graph.get('name')} as job {job_id}")


@app.command("list", watch=True)
def list_jobs(
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            "-l",
            metavar="NAME[=TEXT]",
            help="Only jobs with this label in their `meta`; several: with all of them.",
        ),
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """List all jobs, the newest first.

    \b
    Example:
      headgate list -o json
      headgate list -o wide --watch
      headgate list --label team=payments
    """
    with HeadgateClient(url) as client:
        if output.is_wide():
            display.console().print(display.summaries(client.summaries(labels=label or ())))
            return
        jobs = [one for one in client.jobs() if _has_labels(one, label or ())]
    if as_json:
        print_json(jobs)
    elif jobs:
        display.console().print(display.jobs(jobs))
    else:
        typer.echo("no job has these labels" if label else "no jobs yet: headgate submit FILE")


def _has_labels(job: JobLine, wanted: Sequence[str]) -> bool:
    labels = job.get("headgate-meta", display.NOTHING_SAID)["labels"]
    pairs = [one.partition("=") for one in wanted]
    return all(name in labels and (not sign or labels[name] == text) for name, sign, text in pairs)


@app.command(watch=True)
def show(job: Job, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Show a job: its state and the reason, runner, progress, checkpoints.

    \b
    Example:
      headgate show 3f2a
    """
    with HeadgateClient(url) as client:
        job_id = job_reference.find(client, job)
        details, status = client.job(job_id), client.status(job_id)
        counts = client.checkpoints(job_id)["counts"]
    if as_json:
        print_json({**details, "status": status, "checkpoints": counts})
        return
    for table in display.job(job_id, details["name"], status, counts):
        display.console().print(table)


@app.command()
def cancel(
    job: Job,
    wait: Annotated[bool, typer.Option("--wait", help="Return when the job has ended.")] = False,
    timeout: Timeout = 120.0,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Cancel a job. It ends after its current batch.

    \b
    Example:
      headgate cancel 3f2a --wait
    """
    with HeadgateClient(url) as client:
        job_id = job_reference.find(client, job)
        client.cancel(job_id)
        if wait:
            state = client.wait_until_ended(job_id, timeout=timeout)
        else:
            state = client.job(job_id)["state"]
    if state is None:
        raise WaitTimeout(f"job {job_id} has not ended within {timeout:.0f} s: headgate logs {job}")
    if as_json:
        print_json({"jobid": job_id, "state": state})
    else:
        typer.echo(f"job {job_id} is {state}")


@app.command()
def logs(
    job: Job,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow the log while it grows.")
    ] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Print the log of a job's runner.

    \b
    Example:
      headgate logs 3f2a -f
    """
    with HeadgateClient(url) as client:
        job_id = job_reference.find(client, job)
        for line in client.logs(job_id, follow=follow):
            typer.echo(json.dumps({"line": line}, ensure_ascii=False) if as_json else line)


@app.command(watch=True)
def checkpoints(
    job: Job,
    number: Annotated[
        int | None, typer.Argument(metavar="[NUMBER]", help="Show this checkpoint with every ack.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Verify every file of the checkpoint.")
    ] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """List a job's checkpoints, or show or verify one checkpoint.

    \b
    Example:
      headgate checkpoints 3f2a
      headgate checkpoints 3f2a 7 --verify
    """
    with HeadgateClient(url) as client:
        job_id = job_reference.find(client, job)
        if verify:
            _verify(client, job_id, number, as_json)
        elif number is not None:
            _show_checkpoint(client.checkpoint(job_id, number), as_json)
        elif as_json:
            print_json(client.checkpoints(job_id))
        else:
            display.console().print(display.checkpoints(client.checkpoints(job_id)["history"]))


@app.command()
def checkpoint(
    job: Job,
    wait: Annotated[
        bool, typer.Option("--wait", help="Return when the checkpoint has completed.")
    ] = False,
    timeout: Timeout = 120.0,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Take a checkpoint now.

    \b
    Example:
      headgate checkpoint 3f2a --wait
    """
    with HeadgateClient(url) as client:
        job_id = job_reference.find(client, job)
        number = client.take_checkpoint(job_id)
        if wait:
            _show_checkpoint(_await_checkpoint(client, job_id, number, timeout), as_json)
            return
    if as_json:
        print_json({"jobid": job_id, "number": number})
    else:
        typer.echo(f"checkpoint {number} of job {job_id} is under way")


def run(application: typer.Typer, arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code; print an error in one line."""
    try:
        code = application(list(arguments), prog_name="headgate", standalone_mode=False)
    except HeadgateError as error:
        _complain(str(error))
        for fault in error.faults:
            typer.echo(f"  {fault}", err=True)
        return exit_codes.code_of(error)
    except TyperException as error:
        _complain(" ".join(error.format_message().split()))
        return exit_codes.FAILED if list(arguments)[:1] == ["diff"] else error.exit_code
    except (Abort, KeyboardInterrupt):
        return exit_codes.INTERRUPTED
    return code if isinstance(code, int) else 0


def main() -> None:
    sys.exit(run(app, sys.argv[1:]))


def _show_dry_run(answer: DryRun, as_json: bool) -> None:
    faults = answer.get("faults") or []
    if as_json:
        print_json(answer)
    elif not faults:
        typer.echo("the graph has no faults; its plan:")
        typer.echo(json.dumps(answer.get("plan"), indent=2))
    if faults:
        error = HeadgateError(f"the graph has faults ({len(faults)})")
        error.faults = [fault_line(one) for one in faults]
        raise error


def _show_checkpoint(one: CheckpointResponse, as_json: bool) -> None:
    if as_json:
        print_json(one)
        return
    for table in display.checkpoint(one):
        display.console().print(table)


def _verify(client: HeadgateClient, job_id: str, number: int | None, as_json: bool) -> None:
    if number is None:
        raise HeadgateError("--verify needs the number of a checkpoint")
    found = client.verify_checkpoint(job_id, number)
    if as_json:
        print_json(found)
    if found["faults"]:
        error = HeadgateError(f"checkpoint {number} has faults ({len(found['faults'])})")
        error.faults = [str(fault) for fault in found["faults"]]
        raise error
    if not as_json:
        size = display.size(found["bytes"])
        typer.echo(f"checkpoint {number} is whole: {found['files']} files, {size}")


def _await_checkpoint(
    client: HeadgateClient, job_id: str, number: int, timeout: float
) -> CheckpointResponse:
    deadline = time.monotonic() + timeout
    while True:
        one = client.checkpoint(job_id, number)
        if one["status"] == "completed":
            return one
        if one["status"] == "aborted":
            raise HeadgateError(f"checkpoint {number} was aborted: {display.failure(one)}")
        if time.monotonic() >= deadline:
            raise WaitTimeout(f"checkpoint {number} has not completed within {timeout:.0f} s")
        time.sleep(0.2)


def print_json(value: object) -> None:
    """Print an answer as JSON, or as `-o` asks for it."""
    output.emit(value)


def _complain(message: str) -> None:
    typer.echo(f"headgate: {message}", err=True)
