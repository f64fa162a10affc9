"""What people want to know of a job, and no machine: who owns it, what it is for, what to do when
it fails. Nothing of it has an influence on how the job runs, so it can change without a restart.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jobmanager.core.graph.document_fields import Fields

FIELD = "meta"
MOST_LABELS = 32
_MOST_OWNER = 255
_MOST_DESCRIPTION = 4000
_MOST_RUNBOOK = 2000
_MOST_LABEL = 255
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_./-]{0,61}[A-Za-z0-9])?")
_WEB_ADDRESS = re.compile(r"https?://[^\s/]+\S*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class JobMeta:
    owner: str | None = None
    description: str | None = None
    runbook: str | None = None
    """A web address."""
    labels: Mapping[str, str] = field(default_factory=dict)


def read(fields: Fields) -> JobMeta:
    """Read the section `meta` of a graph."""
    meta = JobMeta(
        owner=_text(fields, "owner", _MOST_OWNER),
        description=_text(fields, "description", _MOST_DESCRIPTION),
        runbook=_runbook(fields),
        labels=_labels(fields),
    )
    fields.done()
    return meta


def stored(section: Mapping[str, Any] | None) -> JobMeta:
    """Return the meta of a graph that was checked before it was stored, without checking it."""
    told = section or {}
    return JobMeta(
        told.get("owner"), told.get("description"), told.get("runbook"), told.get("labels") or {}
    )


def is_only_change(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether two graphs differ, and only in `meta`. The order of columns counts."""
    return _written(before) == _written(after) and before.get(FIELD) != after.get(FIELD)


def _written(document: Mapping[str, Any]) -> dict[str, str]:
    return {name: json.dumps(value) for name, value in document.items() if name != FIELD}


def _text(fields: Fields, name: str, most: int) -> str | None:
    text = fields.text(name, "")
    if len(text) > most:
        fields.fault(name, f"{len(text)} characters are too many: {most} at most")
    return text or None


def _runbook(fields: Fields) -> str | None:
    address = _text(fields, "runbook", _MOST_RUNBOOK)
    # The dashboard makes a link of it: an address such as javascript: must never be in there.
    if address is not None and not _WEB_ADDRESS.fullmatch(address):
        fields.fault(
            "runbook", f"{address!r} is not a web address: it begins with https:// or http://"
        )
    return address


def _labels(fields: Fields) -> dict[str, str]:
    labels = fields.raw("labels")
    if labels is None:
        return {}
    if not isinstance(labels, Mapping):
        fields.fault("labels", f"{labels!r} is not a mapping name: text")
        return {}
    if len(labels) > MOST_LABELS:
        fields.fault("labels", f"{len(labels)} are too many: {MOST_LABELS} at most")
    for name, text in labels.items():
        if not isinstance(name, str) or not _LABEL_NAME.fullmatch(name):
            fields.fault(
                "labels",
                f"{name!r} is not the name of a label: up to 63 letters, digits, and between them "
                "_ . / -",
            )
        elif not isinstance(text, str):
            fields.fault(f"labels.{name}", f"{text!r} is not a text: write it in quotes")
        elif len(text) > _MOST_LABEL:
            fields.fault(
                f"labels.{name}", f"{len(text)} characters are too many: {_MOST_LABEL} at most"
            )
    return {str(name): str(text) for name, text in labels.items()}
