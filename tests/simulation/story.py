"""Prints a schedule message by message. Costs nothing if it is switched off."""

from collections.abc import Mapping
from typing import Any

from jobmanager.protocol import messages


class Story:
    def __init__(self, *, is_told: bool) -> None:
        self.is_told = is_told
        self.lines: list[str] = []

    def add(self, at_ms: int, who: str, what: str, *details: Any) -> None:
        """`what` is a format for `details`, which are not looked at while nobody listens."""
        if self.is_told:
            text = what.format(*map(brief, details))
            self.lines.append(f"{at_ms / 1000:9.3f} s  {who:<14} {text}")


def brief(told: Any) -> str:
    """A message, an instruction or an effect in a few words."""
    match told:
        case messages.Heartbeat():
            regions = ", ".join(f"{one.region} at batch {one.batch}" for one in told.regions)
            return f"heartbeat of attempt {told.attempt}: {regions or 'no region'}"
        case messages.BarrierAcks():
            acked = _batches(told.batches)
            count = len(told.acks)
            return f"{count} acks of checkpoint {told.checkpoint}, attempt {told.attempt}: {acked}"
        case messages.BarrierDecline():
            return f"decline of checkpoint {told.checkpoint}: {told.detail}"
        case messages.AttemptReport():
            return f"attempt {told.attempt} {told.body.event}"
        case messages.RunnerHello():
            return f"hello from {told.host}"
        case messages.RunnerWelcome():
            return "welcome"
        case messages.Directives():
            return ", ".join(brief(one.body) for one in told.directives) or "nothing to do"
        case messages.HeartbeatReply() | messages.AttemptReply():
            return "superseded" if told.superseded else "noted"
        case messages.BarrierReply():
            return told.outcome.replace("_", " ")
        case messages.Run():
            point = told.restore_point
            start = f"checkpoint {told.checkpoint.number}" if told.checkpoint else "no checkpoint"
            return f"run with parallelism {told.parallelism}, from {point.name if point else start}"
        case messages.Barrier() | messages.Stop():
            kind = "savepoint" if told.savepoint else "checkpoint"
            return f"{told.kind} with {kind} {told.checkpoint}"
        case messages.CheckpointCompleted() | messages.CheckpointAborted():
            return f"{told.kind.replace('_', ' ')} {told.checkpoint}"
        case messages.Cancel() | messages.Exit():
            return told.kind
        case messages.Message():
            return str(getattr(told, "event", type(told).__name__))
        case _:
            return str(told)


def _batches(batches: Mapping[str, int | None]) -> str:
    return ", ".join(f"{region} at batch {batch}" for region, batch in batches.items())
