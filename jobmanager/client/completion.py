"""What the shell offers at Tab: names of live jobs, of contexts. Silent if no server answers."""

import typer

from jobmanager.client import contexts, credentials
from jobmanager.client.client import ENDED, HeadgateClient
from jobmanager.client.errors import HeadgateError

_PATIENCE = 1.5
"""Seconds that somebody waits at a Tab."""


def job_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of live jobs, and ids if the word looks like one."""
    try:
        chosen = contexts.choose(context.params.get("url"), context.params.get("context"))
        with (
            credentials.using(chosen.environment),
            HeadgateClient(chosen.url, timeout=_PATIENCE) as client,
        ):
            jobs = [one for one in client.jobs() if one["state"] not in ENDED]
    except HeadgateError:
        return []
    words = [*dict.fromkeys(one["name"] for one in jobs), *(one["jid"] for one in jobs)]
    return [word for word in words if word.startswith(incomplete) and (incomplete or word)]


def context_names(incomplete: str) -> list[str]:
    try:
        known = contexts.read(contexts.path_of()).contexts
    except HeadgateError:
        return []
    return [name for name in known if name.startswith(incomplete)]
