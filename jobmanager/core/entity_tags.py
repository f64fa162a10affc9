"""Entity tags of answers, as RFC 9110 has them: whether a client has an answer already.

An answer's tag is a hash of its text, so it is right whatever the answer was made of, on every
server and every process, and two callers to whom different things are told have different tags.
"""

import hashlib
import re

_TAG = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')
_HASH_BYTES = 16


def entity_tag(text: bytes) -> str:
    return f'"{hashlib.blake2b(text, digest_size=_HASH_BYTES).hexdigest()}"'


def names_tag(if_none_match: str, tag: str) -> bool:
    """Whether the value of `If-None-Match` names the tag. A proxy that compresses answers makes the
    tags weak (`W/"…"`); the comparison is the weak one.
    """
    return if_none_match.strip() == "*" or tag in _TAG.findall(if_none_match)
