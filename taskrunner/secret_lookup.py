"""Looks up the secrets that a job refers to, and hides them in what the runner tells.

`jobmanager.files.secret_lookup` says where. The environment variables of secrets are taken out of
the environment when the process starts: Spark's JVM and Python workers do not have them.
"""

import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path

from jobmanager.core.redaction import Secrets
from jobmanager.core.secret_references import VARIABLE
from jobmanager.files.secret_lookup import SecretMissing, SecretPlaces

__all__ = ["HIDDEN", "SecretLookup", "SecretMissing", "take_environment"]
_SHORTEST = 4
"""A shorter secret is hidden only where a password stands: it may be part of any word."""
_environment: dict[str, str] = {}
"""The variables of secrets that this process was started with."""
HIDDEN = Secrets(always_from=_SHORTEST)
"""Every secret that was looked up. No log and no report of this process may have one of them."""


def take_environment(environment: MutableMapping[str, str] = os.environ) -> None:
    """Takes the variables of secrets out of the environment, before any process is started."""
    for name in [one for one in environment if one.startswith(VARIABLE)]:
        _environment[name] = environment.pop(name)


@dataclass(frozen=True, slots=True)
class SecretLookup:
    directory: Path | None = None
    command: str | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: _environment, repr=False)

    def __call__(self, name: str) -> str:
        """The secret of that name. Raises `SecretMissing`."""
        places = SecretPlaces(self.directory, self.command, self.environment)
        found = places.find(name, "Provide it there, and restart the job")
        HIDDEN.learn(found)
        return found
