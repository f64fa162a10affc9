"""A process that serves several runners at the same time (`python -m taskrunner --shared`).

Each runner is what `taskrunner/runner.py` makes of it, in a thread of its own: it registers, has a
token, heartbeats, an attempt, and a log. Its Spark session is one of several in one JVM
(`taskrunner/spark/session/shared_spark.py`).

    handed over ──▶ served ──its attempt ended, or it was asked to end──▶ its exit file is written

The end of a runner leaves the others alone. If something of a runner cannot be ended, or the JVM is
gone, the whole process ends, and each job restarts by its own strategy. The process ends, too, when
its server has closed the channel and its last runner has gone.
"""

import signal
import time
from collections.abc import Iterable
from pathlib import Path
from threading import Event, Lock, Thread
from types import FrameType
from uuid import UUID

from jobmanager.core.ids import RunnerId
from jobmanager.protocol.messages import RunnerMemory
from jobmanager.protocol.process_channel import (
    HandOver,
    end_file,
    exit_file,
    reason_file,
    served_file,
)
from taskrunner import last_resort, log_rotation, logs
from taskrunner.control.address import AddressFile
from taskrunner.control.client import JobManagerClient, RunnerDismissed
from taskrunner.control.server_channel import ServerChannel
from taskrunner.last_resort import end_process
from taskrunner.memory_use import MemoryUse
from taskrunner.runner import RunnerProcess
from taskrunner.runner_log import NAME, RunnerLog
from taskrunner.snapshots import durable
from taskrunner.spark.session.shared_spark import QueriesGoOn, SessionInShared, SharedSpark

_LOOK_SECONDS = 0.2
_LOOK_AT_SPARK_EVERY = 10
"""Looks at the runners."""
_MEASURED_FOR = 5.0
"""Seconds."""
_OVER = "its attempt has ended; its shared process goes on"
log = logs.get("shared")


class SharedProcess:
    """This process. The main thread looks after the runners, another one takes new runners."""

    def __init__(
        self,
        process: UUID,
        channel: ServerChannel,
        addresses: Path,
        memory: str,
        ca: Path | None = None,
    ) -> None:
        """`memory` is the heap of the JVM; `ca` is a file of trusted certificates."""
        self._process = process
        self._channel = channel
        self._addresses = addresses
        self._ca = ca
        self._spark = SharedSpark(memory)
        self._memory = MemoryOfProcess(self._spark)
        self._runners: list[HostedRunner] = []
        self._changing = Lock()
        self._is_closed = Event()
        """The server will send no more runners."""

    def serve(self, home: Path) -> int:
        """Serve runners until there are none, and no server that could send any. Return the exit
        code of the process.
        """
        last_resort.tell_in(reason_file(home))
        log_rotation.start(RunnerLog(home), others=self._logs)
        signal.signal(signal.SIGTERM, self._terminate)
        Thread(target=self._listen, name="channel", daemon=True).start()
        looks = 0
        while not self._is_done():
            time.sleep(_LOOK_SECONDS)
            looks += 1
            self._look(is_at_spark=looks % _LOOK_AT_SPARK_EVERY == 0)
        self._spark.whole.close()
        return 0

    def _listen(self) -> None:
        while (order := self._channel.await_runner()) is not None:
            try:
                self._take(order)
            except OSError as error:  # the server notices that nobody confirms
                log.error("runner_not_taken", runner=str(order.runner), reason=str(error))
        self._is_closed.set()

    def _take(self, order: HandOver) -> None:
        home = Path(order.home)
        home.mkdir(parents=True, exist_ok=True)
        # first: by this a server that starts later knows that the runner is served here
        durable.write(served_file(home, self._process), "")
        with self._changing:
            taken = {one.pool for one in self._runners}
            pool = next(number for number in range(len(taken) + 1) if number not in taken)
            session = SessionInShared(self._spark, f"slot-{pool}")
            hosted = HostedRunner(self._process, order, pool, session, self._memory)
            self._runners.append(hosted)
        log.info("runner_taken", runner=str(order.runner), runners=len(self._runners))
        hosted.start(AddressFile(self._addresses), self._ca)
        self._channel.confirm(order.runner)

    def _look(self, *, is_at_spark: bool) -> None:
        if self._spark.has_ended() or (is_at_spark and self._spark.has_stopped()):
            end_process("Spark has ended: its JVM was killed, or had no memory left")
        with self._changing:
            over = [one for one in self._runners if one.is_over]
            self._runners = [one for one in self._runners if not one.is_over]
            runners = list(self._runners)
        for one in over:
            log.info("runner_left", runner=str(one.id), runners=len(runners))
        for one in runners:
            one.end_if_asked()

    def _is_done(self) -> bool:
        with self._changing:
            return self._is_closed.is_set() and not self._runners

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self._is_closed.set()
        for one in list(self._runners):
            one.terminate()

    def _logs(self) -> Iterable[Path]:
        return [one.log for one in list(self._runners)]


class HostedRunner:
    """One of the runners of a shared process."""

    def __init__(
        self,
        process: UUID,
        order: HandOver,
        pool: int,
        session: SessionInShared,
        memory: "MemoryOfProcess",
    ) -> None:
        self.id = RunnerId(order.runner)
        self.pool = pool
        self._home = Path(order.home)
        self.log = self._home / NAME
        self._process = process
        self._secret = order.secret
        self._session = session
        self._memory = memory
        self._runner: RunnerProcess | None = None
        self._thread: Thread | None = None
        self._was_asked = False

    @property
    def is_over(self) -> bool:
        return self._thread is not None and not self._thread.is_alive()

    def start(self, addresses: AddressFile, ca: Path | None) -> None:
        name = f"runner {self.id}"
        self._thread = Thread(target=self._serve, args=(addresses, ca), name=name, daemon=True)
        self._thread.start()

    def end_if_asked(self) -> None:
        """End the runner if a server has asked for that."""
        runner = self._runner
        if runner is None or self._was_asked or not end_file(self._home, self._process).exists():
            return
        self._was_asked = True
        runner.dismiss("the JobManager ended it")

    def terminate(self) -> None:
        """Safe in a signal handler."""
        if self._runner is not None:
            self._runner.terminate()

    def _serve(self, addresses: AddressFile, ca: Path | None) -> None:
        try:
            with logs.into(self.log, runner=str(self.id)):
                log.info("shared_process", process=str(self._process), log_of_jvm=_log_of_process())
                why = self._run(addresses, ca)
                log.info("runner_ended", why=why)
        except OSError as error:
            why = f"its log cannot be written: {error}"
        try:
            durable.write(exit_file(self._home, self._process), f"{why}\n")
        except OSError as error:  # nobody would ever know
            end_process(f"the end of runner {self.id} cannot be written down: {error}")

    def _run(self, addresses: AddressFile, ca: Path | None) -> str:
        """Serve the runner to its end. Return why it has ended."""
        why = _OVER
        try:
            with JobManagerClient(self.id, addresses, self._secret, ca) as client:
                self._runner = runner = RunnerProcess(
                    client, self._session, memory_use=self._memory
                )
                runner.run()
            runner.await_threads()
        except RunnerDismissed as error:
            why = f"the JobManager dismissed it: {error}"
        except QueriesGoOn as error:
            end_process(f"runner {self.id} cannot be ended: {error}")
        except Exception as error:
            log.error("runner_failed", exc_info=error)
            why = f"it failed: {type(error).__name__}: {error}"
        return why[:500].replace("\n", " ")


class MemoryOfProcess(MemoryUse):
    """What the whole process uses, measured once for all its runners."""

    def __init__(self, spark: SharedSpark) -> None:
        super().__init__(spark.whole)
        self._measured: RunnerMemory | None = None
        self._measured_at = float("-inf")
        self._measuring = Lock()

    def measure(self) -> RunnerMemory | None:
        if not self._measuring.acquire(blocking=False):
            return self._measured  # no heartbeat waits for the measuring of another
        try:
            now = time.monotonic()
            if now - self._measured_at >= _MEASURED_FOR:
                self._measured, self._measured_at = super().measure(), now
            return self._measured
        finally:
            self._measuring.release()

    def data_moved(self) -> int | None:
        """Not known: what the others move says nothing about this runner."""
        return None


def _log_of_process() -> str:
    return str(Path.cwd() / NAME)
