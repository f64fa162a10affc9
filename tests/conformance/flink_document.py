"""Flink 2.3's OpenAPI document, and what of an answer breaks it.

`flink_rest/openapi-2.3.json` is the document in a compact form: the operations, and the fields of
each object with their types. Flink's Java clients read answers strictly: an unknown word of an
enum, a number or boolean that is missing or null, and a value of another kind are errors of the
client.
"""

import json
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "flink_rest"
_DOCUMENT = json.loads((RECORDED / "openapi-2.3.json").read_text())
OPERATIONS: list[tuple[str, str, int, str]] = [tuple(one) for one in _DOCUMENT["operations"]]
"""Method, path, status and shape of the answer."""
_SCHEMAS: dict[str, Any] = _DOCUMENT["schemas"]
_PRIMITIVE = ("int", "number", "bool")

# Where the document, generated from Java classes, differs from what Flink sends: the recordings
# and the serializers of Flink's own classes say so.
_SENT: dict[str, Any] = {
    "ApplicationID": "string",
    "SlotSharingGroupId": "string",
    "RescaleUUID": "string",
    "ResourceID": "string",
    "FailureLabel": "any",
    "MetricCollectionResponseBody": "list:ref:Metric",
    "AggregatedMetricsResponseBody": "list:any",
    "ProcessingMode": "enum:exactly_once,at_least_once",
    "SerializedThrowable": {
        "class": "string",
        "stack-trace": "string",
        "serialized-throwable": "string",
    },
    "JobConfigInfo": {
        "jid": "string",
        "name": "string",
        "execution-config": "ref:ExecutionConfigInfo",
    },
    "JobResult": {
        "id": "string",
        "name": "string",
        "application-status": "enum:SUCCEEDED,FAILED,CANCELED,UNKNOWN",
        "accumulator-results": "map:string",
        "net-runtime": "int",
        "application-id": "string",
        "start-time": "int",
        "end-time": "int",
        "failure-cause": "ref:SerializedThrowable",
    },
}
_OPTIONAL = {
    # null or absent while the thing goes on, as boxed types of Java are
    ("JobRescaleDetails", "endTimestampInMillis"),
    ("SchedulerStateSpan", "leaveTimestampInMillis"),
    ("SchedulerStateSpan", "durationInMillis"),
    ("VertexParallelismRescaleInfo", "postRescaleParallelism"),
    ("SlotSharingGroupRescaleInfo", "postRescaleSlots"),
    ("SubtaskBackPressureInfo", "attempt-number"),
    ("JobVertexBackPressureInfo", "end-timestamp"),
    ("FailedCheckpointStatistics", "failure_timestamp"),
    ("CheckpointInfo", "checkpointId"),
}


def breaches(shape: str, value: Any, at: str = "") -> list[str]:
    """Where `value` is not what the document says of `shape`."""
    kind, _, rest = shape.partition(":")
    if kind == "ref":
        return _of_schema(rest, value, at)
    if kind in ("any", "") or value is None:
        return []
    if kind == "list":
        if not isinstance(value, list):
            return [f"{at} is {value!r}, no list"]
        return [one for n, item in enumerate(value) for one in breaches(rest, item, f"{at}[{n}]")]
    if kind == "map":
        if not isinstance(value, dict):
            return [f"{at} is {value!r}, no object"]
        return [one for k, item in value.items() for one in breaches(rest, item, f"{at}.{k}")]
    if kind == "enum":
        return [] if value in rest.split(",") else [f"{at} is {value!r}, not one of {rest}"]
    return [] if _is_of(kind, value) else [f"{at} is {value!r}, no {kind}"]


def _of_schema(name: str, value: Any, at: str) -> list[str]:
    schema = _SENT.get(name, _SCHEMAS[name])
    if isinstance(schema, str):
        return breaches(schema, value, at)
    if value is None:
        return []
    if not isinstance(value, dict):
        return [f"{at} is {value!r}, no {name}"]
    found = []
    for field, shape in _fields(schema, value).items():
        here = f"{at}.{field}"
        if shape.partition(":")[0] in _PRIMITIVE and (name, field) not in _OPTIONAL:
            if field not in value:
                found.append(f"{here} is missing")
            elif value[field] is None:
                found.append(f"{here} is null")
        found += breaches(shape, value.get(field), here)
    return found


def _fields(schema: dict[str, str], value: dict[str, Any]) -> dict[str, str]:
    """The fields of an object: its own, those it has from others, and those of its kind."""
    own = {field: shape for field, shape in schema.items() if field[0] not in "+?"}
    if "+" in schema:
        parent = {k: v for k, v in _SCHEMAS[schema["+"]].items() if k[0] != "?"}
        return {**parent, **own}
    if "?className" in schema:
        kinds = dict(one.split("=") for one in schema["?className"].split("|"))
        return _fields(_SCHEMAS[kinds[value["className"]]], value)
    return own


def _is_of(kind: str, value: Any) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "bool":
            return isinstance(value, bool)
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case _:
            return value == "NaN" or (
                isinstance(value, int | float) and not isinstance(value, bool)
            )


def recorded(name: str) -> Any:
    return json.loads((RECORDED / f"{name}.json").read_text())


def differences(flink: Any, ours: Any, at: str = "") -> list[str]:
    """Where `ours` lacks a field of a recording, or has one of another kind."""
    if isinstance(flink, dict) and isinstance(ours, dict):
        if flink and all(len(key) == 32 for key in flink):  # by id
            return differences(next(iter(flink.values())), next(iter(ours.values())), f"{at}.<id>")
        missing = [f"{at}.{key} is missing" for key in flink if key not in ours]
        return missing + [
            one
            for key in flink
            if key in ours
            for one in differences(flink[key], ours[key], f"{at}.{key}")
        ]
    if isinstance(flink, list) and isinstance(ours, list):
        return differences(flink[0], ours[0], f"{at}[0]") if flink and ours else []
    if _kind(flink) != _kind(ours):
        return [f"{at} is {ours!r}, Flink has {flink!r}"]
    return []


def _kind(value: Any) -> str:
    if value == "NaN" or (isinstance(value, int | float) and not isinstance(value, bool)):
        return "number"
    return "null or object" if value is None or isinstance(value, dict) else type(value).__name__
