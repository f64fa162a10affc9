"""The thread that makes an attempt's decisions: it feeds events into the state machine and hands
out the instructions. It blocks on nothing but the next event or the next deadline.
"""

import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

from taskrunner import logs
from taskrunner.context_thread import ContextThread
from taskrunner.core.attempt import events, machine
from taskrunner.core.attempt.events import Event, TimePassed
from taskrunner.core.attempt.instructions import Instruction
from taskrunner.core.attempt.phases import AttemptState, Ended
from taskrunner.core.fence_time import FenceTime

log = logs.get("attempt")


class AttemptLoop(ContextThread):
    """Runs the state machine of one attempt until the attempt has ended."""

    def __init__(
        self,
        carry_out: Callable[[Instruction], None],
        give_up: Callable[[Exception], None],
        fence: FenceTime | None = None,
    ) -> None:
        super().__init__("attempt")
        self._carry_out = carry_out
        self._give_up = give_up
        """Called with an error in this thread: a bug of Headgate must not hang the attempt."""
        # a queue, not a lock: a signal handler may put into it at any moment
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._fence = fence
        self.state: AttemptState = machine.begin(fence=fence)[0]
        """The state after the last event. Any thread may read it."""

    def tell(self, event: Event) -> None:
        """Adds an event. Any thread may call this, and so may a signal handler."""
        self._events.put(event)

    def work(self) -> None:
        try:
            self.state, instructions = machine.begin(time.monotonic(), self._fence)
            self._pass_on(instructions)
            while not isinstance(self.state.phase, Ended):
                event = self._next()
                self._take(TimePassed(time.monotonic()))
                if event is not None:
                    _log(event)
                    self._take(event)
        except Exception as error:
            log.error("attempt_loop_failed", exc_info=error)
            self._give_up(error)

    def _take(self, event: Event) -> None:
        before = type(self.state.phase)
        self.state, instructions = machine.step(self.state, event)
        after = type(self.state.phase)
        if after is not before:
            log.info("phase", before=before.__name__, after=after.__name__)
        self._pass_on(instructions)

    def _pass_on(self, instructions: tuple[Instruction, ...]) -> None:
        for instruction in instructions:
            self._carry_out(instruction)

    def _next(self) -> Event | None:
        """The next event; None: a deadline was reached first."""
        deadline = machine.next_deadline(self.state)
        try:
            if deadline is None:
                return self._events.get()
            return self._events.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            return None


def _log(event: Event) -> None:
    match event:
        case events.StopAsked(stop=stop):
            log.info("stop_asked", savepoint=stop.savepoint.id, drain=stop.drain)
        case events.CancelAsked(grace=grace, why=why):
            log.info("cancel_asked", why=why, grace_s=grace.total_seconds())
        case events.Replaced(why=why):
            log.warning("attempt_superseded", reason=why)
        case events.Dismissed(why=why):
            log.warning("dismissed", reason=why)
        case _:
            pass
