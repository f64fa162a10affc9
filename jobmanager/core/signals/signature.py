"""The signature of a webhook's request: HMAC-SHA256 over its time and its body.

    Headgate-Signature: t=1790000000,v1=5257a869e7…

`t` is the time of sending in seconds since 1970, `v1` the HMAC in hexadecimal digits, over the
digits of `t`, a dot, and the bytes of the body. The time is part of what is signed, so that a
receiver can refuse a request that somebody recorded and sends again later.
"""

import hmac
from datetime import datetime, timedelta
from hashlib import sha256

SIGNATURE_HEADER = "Headgate-Signature"
TOLERANCE = timedelta(minutes=5)
"""How far the clocks of sender and receiver may be apart, as the documentation recommends."""


def signature(secret: str, at: datetime, body: bytes) -> str:
    """Return the value of the header."""
    seconds = int(at.timestamp())
    return f"t={seconds},v1={_mac(secret, seconds, body)}"


def is_genuine(
    header: str, secret: str, body: bytes, now: datetime, tolerance: timedelta = TOLERANCE
) -> bool:
    """Return whether the sender knows the secret, and sent the body just now."""
    parts = dict(part.strip().partition("=")[::2] for part in header.split(","))
    try:
        seconds = int(parts["t"])
    except (KeyError, ValueError):
        return False
    if abs(now.timestamp() - seconds) > tolerance.total_seconds():
        return False
    return hmac.compare_digest(_mac(secret, seconds, body), parts.get("v1", ""))


def _mac(secret: str, seconds: int, body: bytes) -> str:
    return hmac.new(secret.encode(), b"%d." % seconds + body, sha256).hexdigest()
