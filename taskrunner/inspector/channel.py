"""The inspector's channel: questions are lines on the standard input, answers are lines on the
original standard output. Spark's JVM and its workers get the log as their standard output.
"""

import os
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import IO, Self

from jobmanager.protocol.inspection import Answer, AnswerBody, InspectorReady, Question
from taskrunner import logs

_LAST_SECONDS = 10.0
"""How long the work under way may continue after the JobManager is gone."""
log = logs.get("inspector")


class Channel:
    """Carries one question at a time. `questions` ends when the input does."""

    def __init__(self, source: int, out: IO[bytes]) -> None:
        self._source = source
        self._out = out
        self._queue: SimpleQueue[Question | None] = SimpleQueue()
        threading.Thread(target=self._listen, name="listen", daemon=True).start()

    @classmethod
    def over_standard_streams(cls) -> Self:
        """Must be called before anything is started that inherits the standard output."""
        out = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        return cls(0, out)

    def ready(self, spark_version: str) -> None:
        self.answer(0, InspectorReady(spark_version=spark_version))

    def questions(self) -> Iterator[Question]:
        while (question := self._queue.get()) is not None:
            yield question

    def answer(self, question: int, body: AnswerBody) -> None:
        try:
            self._out.write(Answer(id=question, body=body).model_dump_json().encode() + b"\n")
            self._out.flush()
        except BrokenPipeError:
            log.warning("nobody_listens")

    def _listen(self) -> None:
        for line in _lines(self._source):
            self._queue.put(Question.model_validate_json(line))
        self._queue.put(None)
        # The JobManager is gone. A Spark job, or the start of Spark, may still take long.
        threading.Event().wait(_LAST_SECONDS)
        os._exit(1)


def _lines(descriptor: int) -> Iterator[bytes]:
    """The input, line by line. Not by a buffered reader: Python cannot exit while a thread is
    blocked in one.
    """
    rest = b""
    while chunk := os.read(descriptor, 1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
