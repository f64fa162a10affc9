"""The first bytes of a request: where its head ends, and whether it is a plain read.

A process that only answers reads has to know what a request is before it takes the request: it can
hand over a connection only before anything was answered. What is not plain (another method, a
body, an encoded path, anything unusual) is for the process that takes everything, so these rules
need not understand all of HTTP. They only must never call something plain that is not.
"""

import re

_END = re.compile(rb"\r?\n\r?\n")
_PLAIN_LINE = re.compile(
    rb"GET (/[!$&'()*+,\-./0-9:;=@A-Z_a-z~]*)(?:\?[\x21-\x7e]*)? HTTP/1\.1\r?\n"
)
_UNUSUAL = re.compile(
    rb"^(?:transfer-encoding|upgrade|expect|http2-settings|[ \t]"
    rb"|content-length[ \t]*:(?![ \t]*0[ \t]*\r?$))",
    re.IGNORECASE | re.MULTILINE,
)
"""A body, another protocol, or a line that continues the one before."""
_OVERLAP = 3
"""Bytes that may belong to an end whose last byte is still to come."""


def end_of_head(received: bytes | bytearray, looked_at: int = 0) -> int | None:
    """Return the length of the first request's head, with its empty line; None: it is not complete.
    `looked_at`: so many bytes were looked at before, and had no end.
    """
    found = _END.search(received, max(0, looked_at - _OVERLAP))
    return None if found is None else found.end()


def path_of_plain_read(head: bytes) -> str | None:
    """Return the path that a complete head asks for; None: the request is not a plain read."""
    line = _PLAIN_LINE.match(head)
    if line is None or _UNUSUAL.search(head, line.end()):
        return None
    return line[1].decode("ascii")
