"""Takes secrets out of what is passed on to others: answers of the server, logs, settings. Pure.

A value is a secret if the name of its field says so, or if it looks like one. Passwords that are
known beforehand are hidden by `core.redaction`; here nothing is known beforehand.
"""

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "***"
_NAMES = re.compile(
    r"(^|[-_.])pass$|passw(or)?d|passphrase|secret|token|credential|authorization|api[-_.]?key"
    r"|access[-_.]?key|private[-_.]?key|account[-_.]?key|sasl[-_.]?jaas|connection[-_.]?string"
    r"|session[-_.]?key",
    re.IGNORECASE,
)
"""Names of fields and settings, also as part of a longer one: fs.s3a.secret.key."""
_PLAIN_NAMES = re.compile(r"(token_command|has_token|needs_tokens|require_tokens)$", re.IGNORECASE)
_TEXTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S
        ),
        HIDDEN,
    ),
    (re.compile(r"\bhg_[A-Za-z0-9_-]{8,}"), HIDDEN),
    (re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{16}\b"), HIDDEN),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {HIDDEN}"),
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s:/@\"']*):[^\s@/\"']+@", re.I), rf"\1:{HIDDEN}@"),
    (
        re.compile(
            r"(?i)(\b[\w.-]*(?:password|passwd|secret|credential|api[-_.]?key|access[-_.]?key"
            r"|private[-_.]?key|account[-_.]?key|(?<![a-z])token)[\w.-]*"
            r"[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&\"'}]+)"
        ),
        rf"\1{HIDDEN}",
    ),
)


def without_secrets(value: Any, name: str = "") -> Any:
    """Return an answer without secrets: fields by their names, texts by what they look like."""
    if name and _is_secret(name) and not isinstance(value, bool | int | float | type(None)):
        return HIDDEN
    if isinstance(value, Mapping):
        return {key: without_secrets(one, str(key)) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(one) for one in value]
    return text_without_secrets(value) if isinstance(value, str) else value


def text_without_secrets(text: str) -> str:
    """Return a text, such as a log, without what looks like a secret."""
    for pattern, shown in _TEXTS:
        text = pattern.sub(shown, text)
    return text


def _is_secret(name: str) -> bool:
    return bool(_NAMES.search(name)) and not _PLAIN_NAMES.search(name)
