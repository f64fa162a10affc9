"""`headgate jobs VERB`: the commands about jobs in a group of their own.

Each is the same command as without the group: `headgate jobs list` is `headgate list`.
"""

import typer

from jobmanager.client.cli import app

VERBS = (
    *("submit", "list", "show", "wait", "logs", "open"),
    *("checkpoint", "checkpoints", "savepoint", "state", "rows"),
    *("pause", "resume", "rescale", "plan", "upgrade", "stop", "cancel"),
    *("apply", "diff"),
)


def add_groups() -> None:
    """Add the groups, after all commands were added."""
    jobs = typer.Typer(
        name="jobs",
        help="The commands about jobs: headgate jobs list is headgate list.",
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    known = {
        one.name or (one.callback.__name__ if one.callback else ""): one
        for one in app.registered_commands
    }
    jobs.registered_commands += [known[verb] for verb in VERBS]
    app.add_typer(jobs)
