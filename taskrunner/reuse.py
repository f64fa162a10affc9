"""Prepares this process for another job: cleans behind the last one, looks at what is left, leaves
the log to the last runner, and waits for the next.

Any doubt ends the process: a new process costs seconds, what is left of a job could cost data.
"""

import os
import time
from pathlib import Path

from jobmanager.core.ids import RunnerId
from jobmanager.protocol.process_channel import HandOver
from taskrunner import logs
from taskrunner.control.server_channel import ServerChannel
from taskrunner.core.process_traces import ProcessTraces, doubts
from taskrunner.runner_log import RunnerLog
from taskrunner.spark.run import cleaning
from taskrunner.spark.session.session import WarmSession

_SETTLE_SECONDS = 2.0
_LOOK_AGAIN_SECONDS = 0.05
log = logs.get("reuse")


class ReturningProcess:
    """This process, between two runners."""

    def __init__(
        self, channel: ServerChannel, session: WarmSession, runner_log: RunnerLog, jobs: int
    ) -> None:
        self._channel = channel
        self._session = session
        self._log = runner_log
        self._jobs = jobs
        """How many jobs the process may serve."""
        self._served = 0
        self._first: ProcessTraces | None = None

    def announce(self, runner: RunnerId) -> bool:
        """Asked when a job has ended: whether the process stays for another job. If so, the server
        is told, so that the next job waits for this process.
        """
        if self._served + 1 >= self._jobs or self._log.path is None:
            return False
        return self._channel.announce_return(runner)

    def next_runner(self, runner: RunnerId) -> HandOver | None:
        """Cleans up behind the runner and waits for the next; None: this process is to end."""
        self._served += 1
        try:
            self._clean()
            self._log.leave()
        except Exception as error:
            log.warning("not_reused", reason=f"{type(error).__name__}: {error}")
            return None
        if not self._channel.offer(runner):
            return None
        order = self._channel.await_runner()
        if order is None:
            return None
        return self._take(order)

    def _take(self, order: HandOver) -> HandOver | None:
        # the log first: by it a server that starts later knows whom this process serves
        try:
            self._log.enter(Path(order.home))
            os.chdir(order.home)
        except OSError:
            return None  # its log is nobody's at this moment
        log.info("reused", runner=str(order.runner), served=self._served)
        # If the server has ended meanwhile, the runner registers with the next leader, which has
        # found this process by its log, or has put another secret in the place of this one.
        self._channel.confirm(order.runner)
        return order

    def _clean(self) -> None:
        began = time.monotonic()
        cleaning.clean(self._session)
        left = cleaning.traces(self._session)
        while found := doubts(self._first or left, left):
            if time.monotonic() - began > _SETTLE_SECONDS:
                raise cleaning.NotCleaned("; ".join(found))
            time.sleep(_LOOK_AGAIN_SECONDS)  # threads end a moment after what they did
            left = cleaning.traces(self._session)
        self._first = self._first or left
        log.info(
            "cleaned",
            seconds=round(time.monotonic() - began, 3),
            heap_bytes=left.heap_used_bytes,
            threads=len(left.jvm_threads),
        )
