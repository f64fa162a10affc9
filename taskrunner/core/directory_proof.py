"""Decides whether the executors of a job see the same directories as its driver.

The driver writes a random token into each directory; each executor reports what it finds there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class DirectoryNotShared(Exception):
    """An executor does not see a directory that the driver and all executors must share."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one task on an executor found."""

    host: str
    executor: str
    """Different for two executors of one host."""
    found: Mapping[str, str]
    """Each directory to its token, or to the reason why it could not be read."""


def needs_proof(master: str) -> bool:
    """Whether the check is necessary: with `local[…]` the executors are threads of the driver."""
    return master != "local" and not master.startswith("local[")


def executors_seen(sightings: Sequence[Sighting]) -> int:
    return len({(one.host, one.executor) for one in sightings})


def not_shared(tokens: Mapping[str, str], sightings: Sequence[Sighting]) -> str | None:
    """A message that names the hosts and the directories they do not see; None: all hosts see all.

    `tokens` are the tokens that the driver wrote, by directory.
    """
    wrong = {
        f"host {one.host} does not see {directory} ({one.found.get(directory, 'not looked at')})"
        for one in sightings
        for directory, token in tokens.items()
        if one.found.get(directory) != token
    }
    if not wrong:
        return None
    return (
        "; ".join(sorted(wrong)) + ". The driver and every executor need these directories under "
        "the same path: mount them on every worker (NFS, a shared volume), or use a master "
        "local[…]"
    )
