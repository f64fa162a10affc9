"""Looks up the secrets that a job refers to, and hides them in what the runner tells.

A secret is looked for in three places, the first that has it counts:

1. the file of that name in the directory of secrets (`headgate serve --secrets-dir`);
2. the environment variable HEADGATE_SECRET_<NAME> of the server, which runners get too. It is taken
   out of the environment when the process starts: Spark's JVM and Python workers do not have it;
3. what a command prints (`headgate serve --secrets-command`), which is run with the name.
"""

import os
import shlex
import subprocess
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path

from jobmanager.core.redaction import Secrets
from jobmanager.core.secret_references import VARIABLE, variable_of

_COMMAND_SECONDS = 30
_PLACE_OF_NAME = "{name}"
_SHORTEST = 4
"""A shorter secret is hidden only where a password stands: it may be part of any word."""
_environment: dict[str, str] = {}
"""The variables of secrets that this process was started with."""
HIDDEN = Secrets(always_from=_SHORTEST)
"""Every secret that was looked up. No log and no report of this process may have one of them."""


class SecretMissing(Exception):
    """A job refers to a secret that is nowhere; the message says where it was looked for."""


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
        looked: list[str] = []
        for look in (self._in_directory, self._in_environment, self._by_command):
            found = look(name, looked)
            if found:
                HIDDEN.learn(found)
                return found
        raise SecretMissing(
            f"there is no secret {name!r}; looked for: {'; '.join(looked)}. Provide it there, and "
            "restart the job"
        )

    def _in_directory(self, name: str, looked: list[str]) -> str | None:
        if self.directory is None:
            looked.append("no file, since the server has no --secrets-dir")
            return None
        path = self.directory / name
        try:
            found = path.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            looked.append(f"the file {path} ({type(error).__name__})")
            return None
        looked.append(f"the file {path} (it is empty)")
        return found

    def _in_environment(self, name: str, looked: list[str]) -> str | None:
        looked.append(f"the variable {variable_of(name)} of the server")
        return self.environment.get(variable_of(name))

    def _by_command(self, name: str, looked: list[str]) -> str | None:
        if self.command is None:
            return None
        try:
            ran = subprocess.run(
                _arguments(self.command, name),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # it may repeat the secret
                timeout=_COMMAND_SECONDS,
                check=False,
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            looked.append(f"the command {self.command!r} ({type(error).__name__})")
            return None
        if ran.returncode != 0:
            looked.append(f"the command {self.command!r} (it ended with {ran.returncode})")
            return None
        looked.append(f"the command {self.command!r} (it printed nothing)")
        return ran.stdout.decode(errors="replace").rstrip("\r\n")


def _arguments(command: str, name: str) -> list[str]:
    words = shlex.split(command)
    if any(_PLACE_OF_NAME in word for word in words):
        return [word.replace(_PLACE_OF_NAME, name) for word in words]
    return [*words, name]
