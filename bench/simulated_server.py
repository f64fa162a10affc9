"""A server with simulated runners: everything is real except the processes it would start.

    python -m bench.simulated_server DATA_DIR READERS

The simulator of the runners finds each runner's id and secret in DATA_DIR/launched.jsonl.
"""

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack, closing
from pathlib import Path

from jobmanager import server
from jobmanager.core.ids import RunnerId
from jobmanager.core.redaction import Secrets
from jobmanager.early_start import EarlyStart
from jobmanager.launchers import processes
from jobmanager.launchers.local import LocalLauncher
from jobmanager.server_parts import configure_logs
from jobmanager.services.ports.runners import Launched, Runner
from jobmanager.settings import Settings


class NoProcesses(LocalLauncher):
    """Writes down whom it would have started."""

    async def launch(self, runner_id: RunnerId, secret: str) -> Launched:
        with (self._directory.parent / "launched.jsonl").open("a") as file:
            file.write(json.dumps({"runner": str(runner_id), "secret": secret}) + "\n")
        home = self._directory / str(runner_id)
        home.mkdir(parents=True, exist_ok=True)
        (home / "runner.log").write_text("launched\n")
        here = os.getpid()
        return Launched(self.host(), here, processes.started_at(here), self.log_path(runner_id))

    async def watch(self, runner: Runner) -> None:
        pass

    async def find(self, runner: Runner) -> Launched | None:
        return None

    async def kill(self, runner: Runner) -> str:
        if self._on_exit is not None:
            await self._on_exit(runner.id, "killed, as if there had been a process")
        return "nothing to kill"


async def main(directory: Path, readers: int = 0) -> None:
    configure_logs(Secrets())
    settings = Settings(
        data_dir=directory, port=0, warm_runners=0, readers=readers, most_connections=10_000,
        node="simulated",
    )  # fmt: skip
    stop = server._stop_on_signals()
    async with AsyncExitStack() as stack:
        early = stack.enter_context(closing(EarlyStart(settings)))
        listener = stack.enter_context(server._listen(settings))
        database = await stack.enter_async_context(server._database(settings, early))
        launcher = NoProcesses(
            directory / "runners", settings.address_file, settings.archives, settings.node
        )
        made = server.Server(settings, database, listener, early.myself, launcher=launcher)
        await made.run(stop, lambda ready: print(ready.url, flush=True))  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).resolve(), int(sys.argv[2])))
