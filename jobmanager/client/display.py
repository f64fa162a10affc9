"""Formats what the command line prints for people; not used with `--json`."""

import json
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobmanager.client import answers

_WIDE = 180
"""Width of the output without a terminal: enough that nothing is cut."""
NOTHING_SAID: answers.MetaResponse = {
    "owner": None,
    "description": None,
    "runbook": None,
    "labels": {},
}
"""What a server of the version before says about the meta of a job."""
_COLOURS = {
    "RUNNING": "green",
    "FINISHED": "blue",
    "COMPLETED": "green",
    "FAILED": "red",
    "ABORTED": "red",
    "RESTARTING": "yellow",
    "STALLED": "red",
    "DEGRADED": "yellow",
    "IN_PROGRESS": "yellow",
}


def console() -> Console:
    """Return the standard output: with colours on a terminal, unless NO_COLOR is set."""
    plain = {"color_system": None} if os.environ.get("NO_COLOR") else {}
    standard = Console(highlight=False, **plain)  # type: ignore[arg-type]
    return standard if standard.is_terminal else Console(highlight=False, width=_WIDE)


def jobs(listed: Iterable[answers.JobLine]) -> Table:
    table = _table("JOB", "NAME", "STATE", "STARTED", "FOR")
    for job in sorted(listed, key=lambda one: one["start-time"], reverse=True):
        table.add_row(
            job["jid"],
            job["name"],
            state(_shown(job)),
            moment(job["start-time"]),
            duration(job["duration"]),
        )
    return table


def summaries(listed: Iterable[answers.SummaryItem]) -> Table:
    """The jobs with what they do at the moment, for `-o wide`."""
    table = _table(
        *("JOB", "NAME", "STATE", "SINCE", "MODE", "PARALLELISM", "ATTEMPT", "RESTARTS"),
        *("ROWS/S", "LAG", "CHECKPOINT", "OWNER", "LABELS", "REASON"),
    )
    for one in listed:
        traffic, last, meta = one["traffic"], one["last_checkpoint"], one.get("meta", NOTHING_SAID)
        table.add_row(
            one["id"],
            one["name"],
            state(one["state"].upper()),
            one["since"][:19].replace("T", " "),
            one["mode"],
            str(one["parallelism"]),
            str(one["attempt"]),
            str(one["restarts"]),
            f"{traffic['input_rows_per_second']:.0f}" if traffic else "-",
            duration(one["lag"]),
            str(last["number"]) if last else "-",
            meta["owner"] or "-",
            _labels(meta["labels"]) or "-",
            short(one["reason"]),
        )
    return table


def job(
    job_id: str, name: str, status: answers.StatusResponse, counts: Mapping[str, object]
) -> Iterable[Table]:
    facts = _facts(
        ("job", job_id),
        ("name", name),
        *_meta(status.get("meta", NOTHING_SAID)),
        ("state", f"{state(status['state'])}, since {status['since']}"),
        ("reason", status["reason"]),
        ("desired", status["desired"]),
        ("attempt", f"{status['attempt']} ({status['restarts']} restarts)"),
        ("runner", _runner(status["runner"])),
        ("checkpoints", _counts(counts)),
        ("last checkpoint", _last(status["last_checkpoint"])),
        ("watermark lag", duration(status["lag"])),
        ("a crash now", _crash_cost(status.get("crash_cost"))),
        *(("restored", f"{one['region']}: {one['why']}") for one in status["restored"]),
    )
    yield facts
    regions = status["region_states"]
    if regions:
        yield _regions(regions)
    loops = {one["vertex"]: one for region in regions for one in region.get("loops") or ()}
    if loops:
        yield _loops(loops.values())


def checkpoints(listed: Iterable[answers.CheckpointLine]) -> Table:
    table = _table("NUMBER", "STATUS", "TRIGGERED", "TOOK", "ACKS", "STATE", "NEW", "KEPT")
    for one in listed:
        table.add_row(
            str(one["id"]),
            state(one["status"]),
            moment(one["trigger_timestamp"]),
            duration(one["end_to_end_duration"]),
            f"{one['num_acknowledged_subtasks']}/{one['num_subtasks']}",
            size(one["state_size"]),
            size(one["checkpointed_size"]),
            _kept(one),
        )
    return table


def savepoints(listed: Iterable[Mapping[str, Any]]) -> Table:
    table = _table("ID", "STATUS", "JOB", "CREATED", "SIZE", "LABELS", "PATH")
    for one in listed:
        labels = _labels(one["labels"])
        created = str(one["created_at"])[:19].replace("T", " ")
        table.add_row(
            one["id"],
            f"{one['status']}, drained" if one["drained"] else one["status"],
            (one["job"] or "adopted")[:8],
            created,
            size(one["bytes"]),
            labels,
            one["path"],
        )
    return table


def upgrade_plan(plan: Mapping[str, Any]) -> Iterable[Table]:
    """What changes, what becomes of state, and what Spark says; of `meta` only what changes."""
    if plan["changes"]:
        changes = _table("CHANGED", "FIELD", "BEFORE", "AFTER")
        for one in plan["changes"]:
            where = one["vertex"] or "graph"
            changes.add_row(where, one["field"], short(one["before"]), short(one["after"]))
        yield changes
    if plan["state"] and plan["needs_restart"]:
        states = _table("REGION", "STATE OF", "IS")
        for one in plan["state"]:
            states.add_row(one["region"], one["vertex"] or "(offsets)", one["fate"])
        yield states
    if plan["spark"]:
        asked = _table("REGION", "SPARK")
        for one in plan["spark"]:
            asked.add_row(one["region"], "accepts the state" if one["accepted"] else one["error"])
        yield asked


def garbage(found: Iterable[answers.GarbageItem]) -> Table:
    table = _table("KIND", "SIZE", "PATH", "WHY")
    for one in found:
        kind = one["kind"].replace("_", " ")
        table.add_row(kind, size(one["bytes"]), one["path"], one["why"])
    return table


def checkpoint(one: answers.CheckpointResponse) -> Iterable[Table]:
    yield _facts(
        ("checkpoint", str(one["number"])),
        ("status", state(one["status"])),
        ("kind", one["kind"]),
        ("triggered", one["triggered_at"]),
        ("completed", one["completed_at"] or "-"),
        ("batches", ", ".join(f"{region} {batch}" for region, batch in one["batch"].items())),
        ("bytes", f"{size(one['bytes'])}, new {size(one['new_bytes'])}"),
        ("failure", failure(one)),
        ("awaited", ", ".join(subtask(awaited) for awaited in one["awaited"]) or "none"),
    )
    if one["acks"]:
        yield _acks(one["acks"])


def state(word: str) -> str:
    colour = _COLOURS.get(word.upper())
    return f"[{colour}]{word}[/]" if colour else word


def subtask(one: Mapping[str, Any]) -> str:
    """Return the name of a subtask: vertex/subtask."""
    return f"{one['vertex']}/{one['subtask']}"


def failure(one: answers.CheckpointResponse) -> str:
    """Return why a checkpoint was aborted."""
    if one["failure"] is None:
        return "-"
    reason, detail = one["failure"]["reason"].replace("_", " "), one["failure"]["detail"]
    return f"{reason}: {detail}" if detail else reason


def moment(milliseconds: int | None) -> str:
    if milliseconds is None or milliseconds < 0:
        return "-"
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def duration(milliseconds: int | None) -> str:
    if milliseconds is None or milliseconds < 0:
        return "-"
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds // 1000
    if seconds < 60:
        return f"{milliseconds / 1000:.1f} s"
    if seconds < 3600:
        return f"{seconds // 60} m {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} m"


def size(count: int | None) -> str:
    if count is None:
        return "-"
    amount = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def _shown(job: answers.JobLine) -> str:
    """Return Flink's name of the state; `stalled` or `degraded` where the job does not really
    run.
    """
    ours = job.get("headgate-state", "")
    return ours.upper() if ours in ("stalled", "degraded") else job["state"]


def _meta(meta: answers.MetaResponse) -> Iterable[tuple[str, str]]:
    """What people said about the job; nothing where they said nothing."""
    told = (
        ("owner", meta["owner"]),
        ("description", meta["description"]),
        ("runbook", meta["runbook"]),
        ("labels", _labels(meta["labels"])),
    )
    return [(name, text) for name, text in told if text]


def _labels(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={text}" for name, text in labels.items())


def _kept(one: answers.CheckpointLine) -> str:
    if one["status"] != "COMPLETED":
        return "-"
    return "no" if one.get("discarded") else "yes"


def _acks(acks: Iterable[answers.AckResponse]) -> Table:
    table = _table("ACK", "KIND", "BYTES", "KEY GROUPS", "VERSION", "WATERMARK", "POINTER")
    for ack in acks:
        table.add_row(
            subtask(ack),
            ack["kind"],
            size(ack["bytes"]),
            str(len(ack["key_groups"] or ())) if ack["kind"] == "state" else "-",
            _or_dash(ack["version"]),
            _or_dash(ack["watermark"]),
            _or_dash(ack["pointer"]),
        )
    return table


def _regions(regions: Iterable[Mapping[str, Any]]) -> Table:
    table = _table("REGION", "BATCH", "ROWS IN", "ROWS/S", "ROWS OUT", "WATERMARK", "BATCH TOOK")
    for region in regions:
        table.add_row(
            str(region.get("region", "-")),
            _or_dash(region.get("batch")),
            _or_dash(region.get("input_rows")),
            f"{region.get('input_rows_per_second') or 0.0:.0f}",
            _or_dash(region.get("output_rows")),
            _or_dash(region.get("watermark")),
            duration(region.get("batch_duration_ms")),
        )
    return table


def _loops(loops: Iterable[Mapping[str, Any]]) -> Table:
    table = _table("LOOP", "ROUND", "AT MOST", "ROWS", "ROUND TOOK", "IS")
    for one in loops:
        ended = "converged" if one["is_converged"] else "ended"
        table.add_row(
            one["vertex"],
            str(one["iteration"]),
            str(one["max_iterations"]),
            str(one["rows"]),
            duration(one["duration_ms"]),
            "running" if one["is_running"] else ended,
        )
    return table


def _runner(runner: answers.RunnerResponse | None) -> str:
    if not runner:
        return "none"
    shared = ", shared with other jobs" if runner.get("is_shared") else ""
    return f"{runner['id']} (process {runner['pid']} on {runner['host']}{shared})"


def _last(last: answers.LastCheckpoint | None) -> str:
    if not last:
        return "none yet"
    took, how_much = duration(last["duration_ms"]), size(last["bytes"])
    return f"{last['number']}, completed {last['completed_at']} in {took}, {how_much}"


def _crash_cost(cost: answers.CrashCostResponse | None) -> str:
    if cost is None:
        return "-"
    more = "at least " if cost["is_at_least"] else ""
    start = "" if cost["start_ms"] is None else f", after {duration(cost['start_ms'])} to start"
    return f"{more}{cost['rows']} rows again, about {duration(cost['replay_ms'])}{start}"


def _counts(counts: Mapping[str, object]) -> str:
    return ", ".join(f"{counts[key]} {key.replace('_', ' ')}" for key in counts) or "-"


def short(value: object) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)


def folding_table(*columns: str | Text) -> Table:
    """For values of any length, which are shown whole."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _facts(*facts: tuple[str, str]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        if value != "-":
            table.add_row(name, value)
    return table
