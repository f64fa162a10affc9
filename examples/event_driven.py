"""An event-driven application: whoever fills a basket and does not pay within a minute is
reminded. State and timers are by user; the class is uploaded with the graph.

    headgate serve &
    python examples/event_driven.py
"""

import os

from jobmanager.client.builder import DEFAULT_URL, Environment
from taskrunner.api.process import Context, ProcessFunction, Row
from taskrunner.api.state import ValueState

_PATIENCE_MS = 60_000


class Reminder(ProcessFunction):
    """Remembers what is in a basket until it is paid."""

    item = ValueState[str]()
    due = ValueState[int]()

    def process(self, row: Row, ctx: Context) -> None:
        if row["event"] == "paid":
            self._forget(ctx)
        elif ctx.timestamp_ms is not None:
            self._forget(ctx)
            self.item.update(row["item"])
            self.due.update(ctx.timestamp_ms + _PATIENCE_MS)
            ctx.register_timer(ctx.timestamp_ms + _PATIENCE_MS)

    def on_timer(self, time_ms: int, ctx: Context) -> None:
        ctx.emit({"user": ctx.key, "item": self.item.value()})
        self.item.clear()

    def _forget(self, ctx: Context) -> None:
        due = self.due.value()
        if due is not None:
            ctx.delete_timer(due)
        self.item.clear()
        self.due.clear()


def build(url: str = DEFAULT_URL) -> Environment:
    env = Environment("reminders", parallelism=2, url=url)
    events = env.source(
        "generator",
        id="events",
        rows_per_second=50,
        columns={
            "user": "id % 40",
            "event": "if(id % 3 = 0, 'paid', 'added')",
            "item": "concat('item-', id % 9)",
            "ts": "ts",
        },
        watermark=("ts", "2s"),
    )
    (
        events.key_by("user")
        .process(Reminder, "user BIGINT, item STRING", time="event", id="reminders")
        .sink("files", id="out", format="json", path="out/reminders")
    )
    return env


if __name__ == "__main__":
    job = build(os.environ.get("HEADGATE_URL", DEFAULT_URL)).submit()
    print(f"job {job.id}: headgate show {job.id}")
