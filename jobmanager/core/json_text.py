"""Text that JSON may contain and Postgres cannot store: NUL, and halves of surrogate pairs."""

import re

_PLAIN = rb"(?<!\\)((?:\\\\)*)"
"""No escaped backslash that is followed by letters, such as u0000."""
_NUL = re.compile(_PLAIN + rb"\\u0000")
_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_SURROGATES = re.compile(_PLAIN + rb"(?:(" + _HIGH + _LOW + rb")|" + _HIGH + rb"|" + _LOW + rb")")
"""A pair, which is one character, or half of one."""


def unstorable(json: bytes) -> str | None:
    """Return what the JSON text contains that cannot be stored; None: nothing."""
    if b"\0" in json or not _is_utf8(json):  # it may be another encoding, which hides the rest
        return "text that is not UTF-8"
    if b"\\u0000" in json and _NUL.search(json):
        return "a NUL character"
    if _has_surrogates(json) and any(found[2] is None for found in _SURROGATES.finditer(json)):
        return "half of a surrogate pair, which is no character"
    return None


def storable(json: str) -> str:
    """Replace what cannot be stored by the Unicode replacement character."""
    if "\\u0000" not in json and not _has_surrogates(json.encode()):
        return json
    without_nul = _NUL.sub(rb"\1\\ufffd", json.encode())
    return _SURROGATES.sub(
        lambda found: found[0] if found[2] else found[1] + rb"\ufffd", without_nul
    ).decode()


def _has_surrogates(json: bytes) -> bool:
    return b"\\ud" in json or b"\\uD" in json


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
