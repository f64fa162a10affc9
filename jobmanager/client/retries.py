"""When a request that had no answer, or a server that was not ready, is tried again. Pure.

A request is sent again if it cannot have been carried out (no connection was made, or the server
says it did nothing), or if doing it twice does no harm (`ApiCall.is_repeatable`).
"""

from dataclasses import dataclass
from typing import Any

import httpx

from jobmanager.client.api_call import ApiCall

_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_NOT_READY = frozenset({429, 502, 503, 504})
_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 5.0


@dataclass(frozen=True)
class RetryPolicy:
    """At most `retries` repetitions, after pauses that double from 0.2 to 5 seconds. Six
    repetitions take about eleven seconds, in which another JobManager begins to lead.
    """

    retries: int = 6

    def pause(
        self, call: ApiCall[Any], repetition: int, outcome: httpx.Response | httpx.TransportError
    ) -> float | None:
        """Return how many seconds to wait before the repetition with this number (the first is 0);
        None: the outcome is final.
        """
        if repetition >= self.retries or not _may_repeat(call, outcome):
            return None
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0**repetition)
        return max(pause, _asked_for(outcome))


def _may_repeat(call: ApiCall[Any], outcome: httpx.Response | httpx.TransportError) -> bool:
    if isinstance(outcome, httpx.Response):
        return call.is_repeatable and outcome.status_code in _NOT_READY
    if "CERTIFICATE_VERIFY_FAILED" in str(outcome):
        return False
    return call.is_repeatable or isinstance(outcome, _NEVER_SENT)


def _asked_for(outcome: httpx.Response | httpx.TransportError) -> float:
    """Return the seconds in Retry-After, within reason."""
    if not isinstance(outcome, httpx.Response):
        return 0.0
    text = outcome.headers.get("Retry-After", "")
    return min(_LONGEST_PAUSE, float(text)) if text.isdigit() else 0.0
