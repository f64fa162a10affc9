"""The open connections of an HTTP server: how far each one is, and which one has to go.

    handshake ──▶ fresh ──▶ receiving ──▶ serving ──▶ kept ──▶ head ──▶ receiving …
                                 (any phase) ──▶ closing ──▶ gone

A connection costs its client nothing, so a stranger can open thousands and say nothing on them.
Two rules keep the server usable. Each phase in which the server waits for the client has a limit
of time (`overdue`). And where the connections are as many as they may be, a new connection takes
the place of one that waits for its client (`admit`): a client that sends its request at once is
served, however many silent connections there are. A request that is being served is never broken
off for a new connection.

Pure: connections are keys, and the time is an argument, in seconds of a monotonic clock.
"""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
SPARE = 64
"""Connections beyond the limit that are kept open to be told why they are refused."""


class Phase(StrEnum):
    HANDSHAKE = "handshake"
    """Accepted; with TLS the handshake is under way."""
    FRESH = "fresh"
    """No complete head of a request has arrived yet."""
    RECEIVING = "receiving"
    """The head is there, and the body has not arrived completely."""
    SERVING = "serving"
    """The request is complete, and is being answered."""
    KEPT = "kept"
    """A request was answered, and nothing of the next one has arrived."""
    HEAD = "head"
    """A part of the head of a further request has arrived."""
    CLOSING = "closing"
    """The last answer is on its way."""


class Admission(StrEnum):
    """What becomes of a new connection."""

    ADMITTED = "admitted"
    REFUSED = "refused"
    """Its request is to be answered with a refusal."""


@dataclass(frozen=True)
class ConnectionLimits:
    """How many connections there may be, and for how many seconds each may keep the server
    waiting.
    """

    most: int = 2000
    head_within: float = 10.0
    """From the opening of the connection, or the first byte of a further request, to the end of
    the request's head; also for a TLS handshake."""
    kept_for: float = 60.0
    """From an answer to the first byte of the next request."""
    read_within: float = 60.0
    """For a client that does not read an answer."""
    head_bytes: int = 64 * 1024
    body_within: float = 60.0
    """For the whole body of a request. The API counts this time and the next, and answers where
    one is exceeded."""
    body_idle: float = 15.0
    """Without anything of a body."""

    def of(self, phase: Phase) -> float | None:
        """Return how long a connection may be in the phase; None: as long as the request takes."""
        match phase:
            case Phase.HANDSHAKE | Phase.FRESH | Phase.HEAD:
                return self.head_within
            case Phase.KEPT:
                return self.kept_for
            case Phase.CLOSING:
                return self.read_within
            case Phase.RECEIVING | Phase.SERVING:
                return None


_YIELDING = (Phase.FRESH, Phase.RECEIVING, Phase.HEAD, Phase.KEPT)
"""The phases whose connections make room for a new one, in this order."""


@dataclass
class OpenConnections(Generic[Key]):
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    closed_because: dict[str, int] = field(default_factory=dict)
    """How many connections the server has refused or closed, by the reason."""
    _phases: dict[Key, Phase] = field(default_factory=dict, init=False)
    _since: dict[Phase, dict[Key, float]] = field(init=False)
    """The connections of each phase, those that have been in it for longest first."""
    _unread: dict[Key, float] = field(default_factory=dict, init=False)
    """The connections whose client does not read, in the same order."""

    def __post_init__(self) -> None:
        self._since = {phase: {} for phase in Phase}

    def __len__(self) -> int:
        return len(self._phases)

    def phase_of(self, key: Key) -> Phase | None:
        return self._phases.get(key)

    @property
    def counts(self) -> Mapping[Phase, int]:
        return {phase: len(found) for phase, found in self._since.items()}

    @property
    def is_full(self) -> bool:
        """Whether there are even too many connections to tell another one that it is refused."""
        return len(self) >= self.limits.most + SPARE and self._yielding() is None

    def admit(self, key: Key, now: float) -> tuple[Admission, Key | None]:
        """Enter a new connection. Returns the connection that has to be closed for it, too."""
        admission, victim = Admission.ADMITTED, None
        if len(self) >= self.limits.most:
            victim = self._yielding()
            if victim is None:
                admission = Admission.REFUSED
            else:
                self.leave(victim)
                self.note("evicted")
        self.enter(key, Phase.HANDSHAKE, now)
        return admission, victim

    def enter(self, key: Key, phase: Phase, now: float) -> None:
        """Note that a connection is in a phase from now on."""
        before = self._phases.get(key)
        if before is not None:
            del self._since[before][key]
        self._phases[key] = phase
        self._since[phase][key] = now

    def stop_reading(self, key: Key, now: float) -> None:
        """Note that the client does not read what it is sent."""
        if key in self._phases:
            self._unread.setdefault(key, now)

    def read_again(self, key: Key) -> None:
        self._unread.pop(key, None)

    def leave(self, key: Key) -> None:
        """Forget a connection; nothing happens if it is not known."""
        phase = self._phases.pop(key, None)
        if phase is not None:
            del self._since[phase][key]
        self._unread.pop(key, None)

    def overdue(self, now: float) -> list[tuple[Key, Phase]]:
        """Return the connections that have kept the server waiting for too long."""
        found: dict[Key, Phase] = {}
        for phase, entered in self._since.items():
            limit = self.limits.of(phase)
            if limit is not None:
                found.update(dict.fromkeys(_older(entered, now - limit), phase))
        for key in _older(self._unread, now - self.limits.read_within):
            found[key] = Phase.CLOSING
        return list(found.items())

    def note(self, reason: str) -> None:
        self.closed_because[reason] = self.closed_because.get(reason, 0) + 1

    def _yielding(self) -> Key | None:
        for phase in _YIELDING:
            for key in self._since[phase]:
                return key
        return None


def _older(entered: Mapping[Key, float], than: float) -> Iterator[Key]:
    for key, since in entered.items():
        if since > than:
            return
        yield key
