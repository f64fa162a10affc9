"""The network between runners, users and JobManagers: it delays, loses and repeats messages.

Only one kind of message exists, as in production: a call, which is answered or not. If a call or
its answer is lost, the caller gives up after a time and calls again. A call that the network
repeats arrives twice, the second time after any delay.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.simulation.choices import Choices
from tests.simulation.scheduler import Party, Scheduler, Signal, Steps
from tests.simulation.story import Story

TIMEOUT_MS = 6_000
"""As `taskrunner.control.client`."""
LONGEST_DELAY_MS = 12_000


class Refused(Exception):
    """An answer that is an error: the status says which."""

    def __init__(self, status: int, detail: str = "") -> None:
        self.status = status
        super().__init__(f"{status} {detail}")


@dataclass(slots=True)
class Call:
    """One try to reach a server."""

    sender: str
    body: Any
    answered: Signal = field(default_factory=Signal)
    reply: Any = None
    error: Refused | None = None
    is_answered: bool = False


class Server(Protocol):
    name: str

    @property
    def is_reachable(self) -> bool: ...
    def take(self, call: Call) -> None: ...


class NotDelivered(Exception):
    """No answer came, or one that says: try again, or elsewhere."""


class Network(Party):
    def __init__(self, scheduler: Scheduler, choices: Choices, story: Story) -> None:
        super().__init__("network", scheduler)
        self._choices = choices
        self._story = story
        self.one_in_faults = 0
        """How often a message is not simply delivered; 0: never."""
        self.cut_off: set[str] = set()
        """Parties that no message comes through to or from."""
        self.late_calls: list[Any] = []
        """What calls said that arrive later than they were sent, or twice."""

    def ask(self, sender: str, server: Server, body: Any) -> Steps[Any]:
        """The answer. Raises `NotDelivered`, or `Refused` where trying again would not help."""
        call = Call(sender, body)
        self._story.add(self.scheduler.now, sender, "→ {}: {}", server.name, body)
        if sender not in self.cut_off:
            self._carry(f"call of {sender}", lambda: self._arrive(server, call), call)
        if not call.is_answered:
            yield call.answered, self.scheduler.now + TIMEOUT_MS
        if not call.is_answered:
            raise NotDelivered("no answer")
        if call.error is not None:
            if call.error.status >= 500:
                raise NotDelivered(str(call.error))
            raise call.error
        return call.reply

    def answer(self, server: str, call: Call, reply: Any, error: Refused | None = None) -> None:
        self._story.add(self.scheduler.now, server, "⇢ {}: {}", call.sender, error or reply)

        def arrive() -> None:
            if not call.is_answered:
                call.reply, call.error, call.is_answered = reply, error, True
                call.answered.fire()

        if call.sender not in self.cut_off:
            self._carry(f"answer of {server}", arrive)

    def _arrive(self, server: Server, call: Call) -> None:
        if server.is_reachable:
            server.take(call)

    def _carry(self, what: str, arrive: Callable[[], None], call: Call | None = None) -> None:
        if not self._choices.one_in(self.one_in_faults):
            arrive()
            return
        fate = self._choices.below(4)
        now = self.scheduler.now
        if fate == 0:
            self._story.add(now, "network", "delays the {}", what)
        elif fate == 1 and call is not None:
            self._story.add(now, "network", "will repeat the {}", what)
            arrive()
        else:
            self._story.add(now, "network", "loses the {}", what)
            return
        if call is not None:
            self.late_calls.append(call.body)
        self.spawn(what, self._later(arrive))

    def _later(self, arrive: Callable[[], None]) -> Steps[None]:
        yield self.scheduler.now + 50 + self._choices.below(LONGEST_DELAY_MS // 50) * 50
        arrive()
