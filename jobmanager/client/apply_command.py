"""The commands that make a server run what files describe: apply and diff.

What they need of the core takes longer to import than other commands take: it is imported when
they run.
"""

from typing import Annotated

import typer

from jobmanager.client import exit_codes
from jobmanager.client.cli import DEFAULT_URL, AsJson, Url, Wait, app
from jobmanager.client.errors import HeadgateError

Files = Annotated[
    list[str],
    typer.Option(
        "--file",
        "-f",
        metavar="FILE|DIR",
        help="A job graph, or a directory of job graphs (*.yaml, *.yml, *.json); repeatable. "
        "- reads stdin.",
    ),
]
Restore = Annotated[
    bool,
    typer.Option(
        "--restore",
        help="If the last job of a name has ended, start from its newest savepoint or checkpoint.",
    ),
]
Fresh = Annotated[
    bool,
    typer.Option("--fresh", help="If the last job of a name has ended, start without state."),
]
KeepParallelism = Annotated[
    bool, typer.Option("--keep-parallelism", help="Do not rescale jobs to the files' parallelism.")
]


@app.command("apply")
def apply(
    files: Files,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check everything and show what would be done."),
    ] = False,
    restore: Restore = False,
    fresh: Fresh = False,
    keep_parallelism: KeepParallelism = False,
    allow_non_restored_state: Annotated[
        bool,
        typer.Option(
            "--allow-non-restored-state", help="Drop saved state that a graph has no vertex for."
        ),
    ] = False,
    wait: Wait = 600.0,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Make the server run the jobs that files describe, and do nothing where it does already.

    A file is a job graph; its name says which job is meant. A job that is not there is created, one
    with another parallelism is rescaled, one with another graph is upgraded, after the plan of the
    upgrade was found possible. All files are checked before anything is done. Jobs without a file
    are left alone.

    \b
    Example:
      headgate apply -f jobs/
      headgate apply -f revenue.yaml --dry-run
    """
    from jobmanager.client import applying
    from jobmanager.client.desired_jobs import ApplyChoices

    if restore and fresh:
        raise HeadgateError("--restore and --fresh say opposite things: give one")
    applying.apply(
        url,
        files,
        ApplyChoices(restore, fresh, keep_parallelism),
        dry_run=dry_run,
        allow_loss=allow_non_restored_state,
        wait=wait,
        as_json=as_json,
    )


@app.command("diff")
def diff(
    files: Files,
    keep_parallelism: KeepParallelism = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show how the jobs that files describe differ from the jobs on the server. Nothing is changed.

    The exit code is 0 if nothing differs, 2 if something does, and another one after an error.

    \b
    Example:
      headgate diff -f jobs/ || headgate apply -f jobs/
    """
    from jobmanager.client import applying
    from jobmanager.client.desired_jobs import ApplyChoices

    choices = ApplyChoices(fresh=True, keep_parallelism=keep_parallelism)
    if applying.diff(url, files, choices, as_json=as_json):
        raise typer.Exit(exit_codes.DIFFERS)
