"""The inspector as a child process: started by the first question, ended after it was idle.

    STOPPED ──asked──▶ STARTING ──its session is there──▶ READY ──idle, closed──▶ STOPPED
                           └────────────it died, it was too slow────────────┘ (and killed)

It answers one question at a time; other questions wait for their turn, within their time limit.
When this process dies, even by SIGKILL, the end of its standard input ends the inspector.
"""

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import PIPE, Process
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import structlog
from pydantic import ValidationError

from jobmanager.core.errors import InspectorUnavailable
from jobmanager.core.redaction import Secrets
from jobmanager.files.connector_shelf import ConnectorShelf
from jobmanager.files.log_rotation import LogLimits, rotate
from jobmanager.launchers import processes, temporary
from jobmanager.launchers.environment import without_secrets
from jobmanager.launchers.local import jars_argument
from jobmanager.launchers.temporary import Temporary
from jobmanager.protocol.inspection import (
    Answer,
    AnswerBody,
    InspectorReady,
    Question,
    QuestionBody,
)
from jobmanager.services.ports.inspection import InspectorStatus

_log = structlog.get_logger(__name__)
_LONGEST_LINE = 256 * 1024 * 1024
_GRACE = timedelta(seconds=10)
"""Time beyond a question's limit in which the inspector can give up by itself."""
_END_SECONDS = 15.0


class LocalInspector:
    def __init__(
        self,
        directory: Path,
        scratch: Path,
        class_archives: Path,
        idle: timedelta,
        start_timeout: timedelta,
        secrets: Secrets | None = None,
        log_limits: LogLimits | None = None,
        connectors: ConnectorShelf | None = None,
    ) -> None:
        """The inspector has the jars of all `connectors` that are installed when it starts."""
        self._connectors = connectors
        self._jars = ""
        """What it was started with."""
        self._secrets = secrets or Secrets()
        self._log_limits = log_limits or LogLimits()
        self._class_archives = class_archives
        self._directory = directory
        self._temporary = temporary.named(directory.parent, "inspector")
        self._scratch = scratch
        self._idle = idle
        self._start_timeout = start_timeout
        self._turn = asyncio.Lock()
        self._process: Process | None = None
        self._mark = ""
        self._ready: InspectorReady | None = None
        self._questions = 0
        self._ending: asyncio.Task[None] | None = None

    @property
    def log_path(self) -> Path:
        return self._directory / "inspector.log"

    def status(self) -> InspectorStatus:
        state = "stopped" if self._process is None else "ready" if self._ready else "starting"
        pid = self._process.pid if self._process else None
        spark_version = self._ready.spark_version if self._ready else None
        return InspectorStatus(state, pid, spark_version, str(self.log_path))

    async def ask(self, question: QuestionBody, within: timedelta) -> AnswerBody:
        """Return the answer to a question. Raises `InspectorUnavailable`."""
        try:
            await asyncio.wait_for(self._turn.acquire(), within.total_seconds())
        except TimeoutError:
            raise InspectorUnavailable(
                f"other questions about state took more than {within.total_seconds():g} s"
            ) from None
        try:
            process = await self._running()
            return await self._ask(process, question, within)
        except BaseException as error:
            # The caller has gone: its answer must not reach the next question.
            if not isinstance(error, InspectorUnavailable):
                await self._kill()
            raise
        finally:
            self._turn.release()
            self._end_when_idle()

    async def close(self) -> None:
        """End the inspector, if it is running."""
        if self._ending is not None:
            self._ending.cancel()
        if self._turn.locked():
            await self._kill()  # nobody waits for the answer
        async with self._turn:
            await self._end()

    async def _ask(self, process: Process, body: QuestionBody, within: timedelta) -> AnswerBody:
        self._questions += 1
        seconds = within.total_seconds()
        question = Question(id=self._questions, within_ms=int(seconds * 1000), body=body)
        assert process.stdin is not None
        try:
            process.stdin.write(question.model_dump_json().encode() + b"\n")
            await process.stdin.drain()
            async with asyncio.timeout((within + _GRACE).total_seconds()):
                return (await self._answer(process, question.id)).body
        except TimeoutError:
            await self._kill()
            raise InspectorUnavailable(
                f"the inspector did not answer within {seconds:g} s and was ended; "
                f"its log is {self.log_path}"
            ) from None
        except (OSError, EOFError):
            raise await self._death(process) from None

    async def _running(self) -> Process:
        """Return the inspector's process, with its Spark session open."""
        jars = await asyncio.to_thread(self._installed_jars)
        is_there = self._process is not None and self._process.returncode is None and self._ready
        if is_there and self._process is not None and jars == self._jars:
            return self._process
        self._jars = jars
        await self._kill()
        process = await self._start()
        try:
            async with asyncio.timeout(self._start_timeout.total_seconds()):
                first = await self._answer(process, 0)
        except TimeoutError:
            await self._kill()
            raise InspectorUnavailable(
                f"the inspector did not start within {self._start_timeout.total_seconds():g} s; "
                f"its log is {self.log_path}"
            ) from None
        except EOFError:
            raise await self._death(process) from None
        assert isinstance(first.body, InspectorReady)
        self._ready = first.body
        _log.info("inspector ready", pid=process.pid)
        return process

    async def _start(self) -> Process:
        await asyncio.to_thread(self._prepare)
        self._mark = f"inspector-{uuid4()}"
        log = await asyncio.to_thread(self.log_path.open, "ab")
        with log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "taskrunner.inspector", "--scratch", str(self._scratch)),
                *(("--jars", self._jars) if self._jars else ()),
                cwd=self._directory,
                env={
                    **without_secrets(os.environ, self._secrets),
                    **_environment(self._mark, self._temporary, self._class_archives),
                },
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                limit=_LONGEST_LINE,
                start_new_session=True,
            )
        _log.info("inspector started", pid=self._process.pid)
        return self._process

    def _installed_jars(self) -> str:
        """The jars of all installed packages, for the analysis of any graph."""
        shelf = self._connectors
        return jars_argument(shelf, shelf.installed()) if shelf and shelf.installed() else ""

    def _prepare(self) -> None:
        """Without what an earlier inspector left, whose server was killed with it."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._temporary.delete()
        self._temporary.create()
        rotate(self.log_path, self._log_limits)

    async def _answer(self, process: Process, question: int) -> Answer:
        """Return the next answer with that id. Raises `EOFError` if there will be none."""
        assert process.stdout is not None
        while line := await process.stdout.readline():
            with contextlib.suppress(ValidationError):
                answer = Answer.model_validate_json(line)
                if answer.id == question:
                    return answer
        raise EOFError

    async def _death(self, process: Process) -> InspectorUnavailable:
        """Make the message about an inspector that ended without an answer."""
        code = await process.wait()
        said = await asyncio.to_thread(processes.last_line, self.log_path)
        await self._kill()
        how = processes.describe_exit(code)
        last = f"; last line of {self.log_path}: {said}" if said and code > 0 else ""
        return InspectorUnavailable(
            f"the inspector ended ({how}): repeat the request, which starts a new one{last}"
        )

    def _end_when_idle(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
        self._ending = asyncio.create_task(self._end_later(), name="inspector idle")

    async def _end_later(self) -> None:
        await asyncio.sleep(self._idle.total_seconds())
        async with self._turn:
            await self._end()

    async def _end(self) -> None:
        """Let the inspector end by itself, and kill it if it does not."""
        if self._process is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), _END_SECONDS)
        await self._kill()

    async def _kill(self) -> None:
        """Kill the inspector; on return, none of its processes runs any more."""
        process, self._process, self._ready = self._process, None, None
        if process is None:
            return
        await asyncio.to_thread(processes.kill_all_of, self._mark)
        await process.wait()
        await asyncio.to_thread(self._temporary.delete)
        _log.info("inspector ended", pid=process.pid)


def _environment(mark: str, own: Temporary, class_archives: Path) -> dict[str, str]:
    return {
        processes.MARKER: mark,
        "PYTHONUNBUFFERED": "1",
        **own.environment(),
        "HEADGATE_CLASS_ARCHIVES": str(class_archives),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
