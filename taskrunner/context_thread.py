"""Threads that belong to the runner that made them.

A shared process serves several runners. What a thread logs belongs to one of them, and which one is
a context variable (`taskrunner/logs.py`). Python gives a new thread an empty context.
"""

from abc import abstractmethod
from contextvars import copy_context
from threading import Thread


class ContextThread(Thread):
    """Does its work in the context in which it was made."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._context_of_maker = copy_context()

    @abstractmethod
    def work(self) -> None:
        """What the thread does."""

    def run(self) -> None:
        self._context_of_maker.run(self.work)
