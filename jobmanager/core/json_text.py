"""The NUL character in JSON text: JSON may contain it, and Postgres cannot store it."""

import re

_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
"""An escaped NUL, but not an escaped backslash that is followed by the letters u0000."""


def holds_nul(json: bytes) -> bool:
    return b"\\u0000" in json and _NUL.search(json) is not None


def without_nul(json: str) -> str:
    """Replace each NUL by the Unicode replacement character."""
    if "\\u0000" not in json:
        return json
    return _NUL.sub(rb"\1\\ufffd", json.encode()).decode()
