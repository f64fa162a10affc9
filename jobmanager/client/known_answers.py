"""Answers that a client has, so that a server need not send again what has not changed."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from jobmanager.client.api_call import AnswerForm, ApiCall

_MOST = 32
_MOST_BYTES = 1_000_000
"""Of one answer."""
_NOT_MODIFIED = 304


@dataclass
class KnownAnswers:
    """The last answers that had an `ETag`, at most 32, which belong to one server and one token."""

    _known: OrderedDict[object, tuple[str, bytes]] = field(default_factory=OrderedDict)

    def headers(self, call: ApiCall[Any]) -> Mapping[str, str]:
        """Return the header with which to ask for the answer only if it has changed."""
        known = self._known.get(_key(call)) if _is_kept(call) else None
        return {"If-None-Match": known[0]} if known is not None else {}

    def content(self, call: ApiCall[Any], answer: httpx.Response) -> bytes:
        """Return what the server means by its answer, and keep that."""
        if not _is_kept(call):
            return answer.content
        key = _key(call)
        if answer.status_code == _NOT_MODIFIED:
            self._known.move_to_end(key)
            return self._known[key][1]
        tag = answer.headers.get("ETag")
        if tag is not None and len(answer.content) <= _MOST_BYTES:
            self._known[key] = tag, answer.content
            self._known.move_to_end(key)
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        return answer.content


def _is_kept(call: ApiCall[Any]) -> bool:
    """A caller who names a tag wants to hear of it."""
    named = any(name.lower() == "if-none-match" for name in call.headers)
    return call.method == "GET" and call.form is AnswerForm.JSON and not named


def _key(call: ApiCall[Any]) -> object:
    return call.path, repr(sorted(call.params.items()))
