"""Why an operation or a job failed, in the form in which Flink's clients read it.

Flink's Java clients take the reason from `serialized-throwable`: a Java object of Flink's class
`SerializedThrowable`, in the format of Java's object serialization, as base64. Without it they fail
with an error of their own, and the user never sees ours. The object that is written here holds the
class name, the message and the stack trace as texts, and no class of ours has to exist in Java.
"""

import base64
import struct
from collections.abc import Sequence

_STREAM = b"\xac\xed\x00\x05"
_NULL, _CLASS, _OBJECT, _STRING, _END, _LONG_STRING = b"p", b"r", b"s", b"t", b"x", b"|"
_SERIALIZABLE, _WITH_WRITE_METHOD = b"\x02", b"\x03"
_LONGEST_SHORT_STRING = 0xFFFF
_TEXT = "Ljava/lang/String;"


def failure_cause(class_name: str, message: str, stack: str = "") -> dict[str, str]:
    """Return Flink's `failure-cause`."""
    shown = stack or f"{class_name}: {message}"
    written = serialized_throwable(class_name, message, shown)
    return {
        "class": class_name,
        "stack-trace": shown,
        "serialized-throwable": base64.b64encode(written).decode("ascii"),
    }


def serialized_throwable(class_name: str, message: str, stack: str) -> bytes:
    """Write an object of `org.apache.flink.util.SerializedThrowable` without a cause."""
    throwable = _class(
        "java.lang.Throwable",
        -3042686055658047285,
        _WITH_WRITE_METHOD,
        [
            ("cause", "Ljava/lang/Throwable;"),
            ("detailMessage", _TEXT),
            ("stackTrace", "[Ljava/lang/StackTraceElement;"),
            ("suppressedExceptions", "Ljava/util/List;"),
        ],
        _NULL,
    )
    exception = _class("java.lang.Exception", -3387516993124229948, _SERIALIZABLE, [], throwable)
    flinks = _class(
        "org.apache.flink.util.SerializedThrowable",
        7284183123441947635,
        _SERIALIZABLE,
        [
            ("fullStringifiedStackTrace", _TEXT),
            ("originalErrorClassName", _TEXT),
            ("serializedException", "[B"),
        ],
        exception,
    )
    of_throwable = _NULL + _string(message) + _NULL + _NULL + _END
    of_flinks = _string(stack) + _string(class_name) + _NULL
    return _STREAM + _OBJECT + flinks + of_throwable + of_flinks


def _class(
    name: str, version: int, flags: bytes, fields: Sequence[tuple[str, str]], parent: bytes
) -> bytes:
    """Describe a class: name, version, and its fields, all of which are objects."""
    described = b"".join(
        kind[0].encode() + _short_utf(field) + _string(kind) for field, kind in fields
    )
    head = _CLASS + _short_utf(name) + struct.pack(">q", version) + flags
    return head + struct.pack(">H", len(fields)) + described + _END + parent


def _short_utf(text: str) -> bytes:
    content = _modified_utf8(text)
    return struct.pack(">H", len(content)) + content


def _string(text: str) -> bytes:
    content = _modified_utf8(text)
    if len(content) <= _LONGEST_SHORT_STRING:
        return _STRING + struct.pack(">H", len(content)) + content
    return _LONG_STRING + struct.pack(">Q", len(content)) + content


def _modified_utf8(text: str) -> bytes:
    """Encode as Java does: each half of a surrogate pair by itself, and NUL as two bytes."""
    units = text.encode("utf-16-be", "surrogatepass")
    return b"".join(
        b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass")
        for (unit,) in struct.iter_unpack(">H", units)
    )
