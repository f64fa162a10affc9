"""JSON as text: the one character that it may hold and Postgres may not."""

import re

_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
"""Escaped, as JSON has it; and no backslash that is followed by the letters u0000."""


def holds_nul(json: bytes) -> bool:
    return b"\\u0000" in json and _NUL.search(json) is not None


def without_nul(json: str) -> str:
    """The same, with the sign for a character that cannot be shown in the place of each."""
    if "\\u0000" not in json:
        return json
    return _NUL.sub(rb"\1\\ufffd", json.encode()).decode()
