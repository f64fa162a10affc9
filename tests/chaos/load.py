"""Many small requests at once, and what the servers said of them."""

import contextlib
import itertools
import threading
from types import TracebackType

import httpx

from tests.chaos.world import World

_THREADS = 4


class Load:
    """Triggers checkpoints and reads, from all threads to all servers, until the block ends."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(number,), daemon=True)
            for number in range(_THREADS)
        ]
        self.accepted: set[int] = set()
        """The checkpoints that were accepted: they are in Postgres, whatever happens to it."""
        self.answers = 0

    def __enter__(self) -> "Load":
        for one in self._threads:
            one.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        for one in self._threads:
            one.join()

    def _ask(self, number: int) -> None:
        urls = itertools.cycle([one.url for one in self._world.servers])
        path = f"/v1/jobs/{self._world.job}"
        with httpx.Client(timeout=5, trust_env=False) as http:
            for url in urls:
                if self._stop.wait(0.02):
                    return
                with contextlib.suppress(httpx.HTTPError):
                    if number == 0:
                        answer = http.post(f"{url}{path}/checkpoints")
                        if answer.status_code == 202:
                            self.accepted.add(int(answer.json()["number"]))
                    else:
                        answer = http.get(f"{url}{path}/checkpoints")
                    self.answers += answer.status_code < 500
