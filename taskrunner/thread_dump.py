"""What the threads of this process and of its JVM do."""

import sys
import threading
import traceback
from collections.abc import Iterator

from jobmanager.protocol.messages import RunnerThread
from taskrunner.core import thread_texts
from taskrunner.spark.session.session import WarmSession


def read_threads(session: WarmSession) -> list[RunnerThread]:
    """Return the threads of Python, and those of the JVM if there is one that answers."""
    told = session.jvm_threads()
    of_jvm = thread_texts.of_jvm(told) if told is not None else iter(())
    return thread_texts.bounded([*_of_python(), *of_jvm])


def _of_python() -> Iterator[RunnerThread]:
    frames = sys._current_frames()
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
        kind = "daemon" if thread.daemon else "user"
        head = f'"{thread.name}" Id={thread.ident} {kind}\n'
        yield RunnerThread(name=f"python: {thread.name}", text=head + stack)
