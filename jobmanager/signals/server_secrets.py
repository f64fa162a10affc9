"""The secrets that the server itself uses: keys of webhooks."""

import os
from collections.abc import Mapping
from pathlib import Path

from jobmanager.core import secret_references
from jobmanager.files.own_threads import in_own_thread
from jobmanager.files.secret_lookup import SecretPlaces

_ADVICE = "Provide it there: the next try finds it"


class ServerSecrets:
    def __init__(
        self,
        directory: Path | None = None,
        command: str | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._places = SecretPlaces(directory, command, environment)

    async def filled(self, text: str) -> str:
        if not secret_references.has_reference(text):
            return text
        return await in_own_thread(
            lambda: secret_references.filled(text, lambda name: self._places.find(name, _ADVICE))
        )
