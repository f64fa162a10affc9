"""The kinds of time that timers of a keyed Python vertex can use."""

from enum import StrEnum


class Clock(StrEnum):
    EVENT = "event"
    """Timers are due when the watermark has reached them."""
    PROCESSING = "processing"
    """Timers are due when the time of a batch has reached them."""
    NONE = "none"
    """There are no timers."""
