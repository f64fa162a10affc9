"""Looks up secrets by their names, in three places. The first that has the secret counts:

1. the file of that name in the directory of secrets (`headgate serve --secrets-dir`);
2. the environment variable HEADGATE_SECRET_<NAME>;
3. what a command prints (`headgate serve --secrets-command`), which is run with the name.
"""

import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jobmanager.core.secret_references import variable_of

_COMMAND_SECONDS = 30
_PLACE_OF_NAME = "{name}"


class SecretMissing(Exception):
    """A secret is nowhere; the message says where it was looked for."""


@dataclass(frozen=True, slots=True)
class SecretPlaces:
    directory: Path | None = None
    command: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    def find(self, name: str, then: str) -> str:
        """Return the secret of that name. Raises `SecretMissing`, with the advice `then`."""
        looked: list[str] = []
        for look in (self._in_directory, self._in_environment, self._by_command):
            found = look(name, looked)
            if found:
                return found
        raise SecretMissing(f"there is no secret {name!r}; looked for: {'; '.join(looked)}. {then}")

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
