"""Finds the job that a user means by an id, the beginning of an id, or a name."""

import re
from collections.abc import Sequence

from jobmanager.client.answers import JobLine
from jobmanager.client.client import ENDED, HeadgateClient
from jobmanager.client.errors import AmbiguousJob, UnknownJob

_ID = re.compile(r"[0-9a-f]{32}")


def find(client: HeadgateClient, reference: str, *, newest: bool = False) -> str:
    """Return the id of the job that `reference` means: an id, the beginning of an id, or a name.
    With `newest`, a name of ended jobs means the newest of them.
    """
    return whole_id(reference) or choose(client.jobs(), reference, newest=newest)


def whole_id(reference: str) -> str | None:
    """Return the id, if `reference` is one; the server need not be asked for it."""
    plain = reference.replace("-", "").lower()
    return plain if _ID.fullmatch(plain) else None


def choose(jobs: Sequence[JobLine], reference: str, *, newest: bool = False) -> str:
    """Choose the job. A name means the only live job of that name, or else the only job of that
    name, or else, with `newest`, the newest.
    """
    named = [job for job in jobs if job["name"] == reference]
    live = [job for job in named if job["state"] not in ENDED]
    begun = [job for job in jobs if reference and job["jid"].startswith(reference.lower())]
    for candidates in (live, named, begun):
        if len(candidates) == 1:
            return candidates[0]["jid"]
    if newest and named and not live:
        return max(named, key=lambda job: job["start-time"])["jid"]
    if named or begun:
        fitting = ", ".join(job["jid"][:12] for job in (live or named or begun)[:5])
        raise AmbiguousJob(f"{reference!r} means several jobs ({fitting} …): give more of the id")
    raise UnknownJob(f"there is no job {reference!r}: headgate list shows all jobs")
