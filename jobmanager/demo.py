"""`headgate demo`: starts a server and the quickstart job, and shows their progress live.

The exit code is 0 only if checkpoints completed, rows came out, and no process that the demo
started is left.
"""

import signal
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow.dataset as arrow_dataset

from jobmanager.client import display, graph_file
from jobmanager.client.answers import CheckpointResponse, StatusResponse
from jobmanager.client.client import ENDED, HeadgateClient
from jobmanager.client.errors import HeadgateError
from jobmanager.demo_server import DemoServer
from jobmanager.demo_view import View, view

DEFAULT_DIRECTORY = Path(".headgate") / "demo"
STARTED_WITHIN = 180.0
CANCELLED_WITHIN = 90.0
SHOWN_WITHIN = 60.0
"""How much longer than asked the demo may run, until there is something to show."""
LOOK_EVERY = 0.5
FIRST_ROWS = 10
SHOWN_ACKS = 12


class Rate:
    """Records a second over the last seconds. Spark's own rate is that of one batch, often
    empty.
    """

    def __init__(self, over: float = 6.0) -> None:
        self._over = over
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, at: float, rows: int) -> float:
        """Return the rate, given that `rows` were read in total by the time `at`."""
        if self._seen and rows < self._seen[-1][1]:
            self._seen.clear()  # a new attempt counts from 0
        self._seen.append((at, rows))
        while at - self._seen[0][0] > self._over:
            self._seen.popleft()
        first_at, first_rows = self._seen[0]
        return (rows - first_rows) / (at - first_at) if at > first_at else 0.0


@dataclass
class DemoOutcome:
    """The outcome of a run."""

    checkpoints: set[int] = field(default_factory=set)
    rows: int = 0
    survivors: list[str] = field(default_factory=list)

    @property
    def fault(self) -> str | None:
        if self.survivors:
            return f"these outlived the server and were killed: {', '.join(self.survivors)}"
        if not self.checkpoints:
            return "no checkpoint completed: let the demo run longer"
        if not self.rows:
            return "no rows came out: let the demo run longer"
        return None


def run(seconds: float | None, directory: Path, as_json: bool) -> None:
    """Run the demo for `seconds` after the job has started; None: until Ctrl-C. On a slow machine
    it runs longer, until rows came out and a checkpoint completed.

    Raises `HeadgateError` if the demo did not succeed.
    """
    outcome = DemoOutcome()
    home = (directory / datetime.now(UTC).strftime("%Y%m%d-%H%M%S")).resolve()
    home.mkdir(parents=True)
    with view(as_json) as shown, _interrupted_by_sigterm():
        shown.say("server_starting", f"starting a server in {home}", directory=str(home))
        server = DemoServer(home)
        try:
            with HeadgateClient(server.url, token="") as client:
                server.await_ready(client)
                _run_job(client, server, shown, seconds, outcome)
        except KeyboardInterrupt:
            shown.say("interrupted", "interrupted")
        finally:
            with _uninterrupted():
                outcome.survivors = server.shut_down()
        if not outcome.survivors:
            shown.say("server_ended", "the server and all processes that it started have ended")
    if outcome.fault:
        raise HeadgateError(f"{outcome.fault} (server log: {server.log})")


def quickstart() -> Path:
    """Return the example's path, in an installed package or in a checkout."""
    package = Path(__file__).parent
    installed = package / "examples" / "quickstart.yaml"
    return installed if installed.exists() else package.parent / "examples" / "quickstart.yaml"


def _run_job(
    client: HeadgateClient,
    server: DemoServer,
    shown: View,
    seconds: float | None,
    outcome: DemoOutcome,
) -> None:
    graph = graph_file.read(str(quickstart()))
    output = server.data_root / next(v["path"] for v in graph["vertices"] if v["op"] == "sink")
    job_id = client.submit(graph)
    api = f"{server.url}/v1/jobs/{job_id}"
    shown.say("job_submitted", f"submitted {graph['name']} as job {job_id}", job=job_id)
    shown.say("output", f"  output    {output}", path=str(output))
    shown.say("api", f"  REST API  {api}", url=api)
    shown.say("docs", f"  docs      {server.url}/docs", url=f"{server.url}/docs")
    try:
        _watch(client, server, job_id, shown, seconds, outcome)
    except KeyboardInterrupt:
        shown.say("interrupted", "interrupted")
    shown.say("cancelling", "cancelling the job")
    client.cancel(job_id)
    state = client.wait_until_ended(job_id, timeout=CANCELLED_WITHIN)
    shown.say("job_ended", f"the job is {state or 'still not at its end'}", state=state)
    _show_rows(output, shown, outcome)


def _watch(
    client: HeadgateClient,
    server: DemoServer,
    job_id: str,
    shown: View,
    seconds: float | None,
    outcome: DemoOutcome,
) -> None:
    """Show progress until the time is up. The time starts when the job first runs."""
    submitted_at, began_at, rate = time.monotonic(), None, Rate()
    rows_out = 0
    while began_at is None or not _is_over(
        seconds, time.monotonic() - began_at, bool(outcome.checkpoints and rows_out)
    ):
        server.check()
        status = client.status(job_id)
        now = time.monotonic()
        if status["status"] in ENDED:
            raise HeadgateError(f"the job has {status['state']}: {status['reason']}")
        if began_at is None and status["status"] == "RUNNING":
            began_at = now
        if began_at is None and now - submitted_at > STARTED_WITHIN:
            raise HeadgateError(f"the job did not start in {STARTED_WITHIN:.0f} s")
        _show_new_checkpoints(client, job_id, shown, outcome)
        rows_out = _show_progress(status, now - submitted_at, rate, shown)
        time.sleep(LOOK_EVERY)


def _is_over(seconds: float | None, ran: float, has_shown: bool) -> bool:
    return seconds is not None and ran >= seconds + (0.0 if has_shown else SHOWN_WITHIN)


def _show_progress(status: StatusResponse, elapsed: float, rate: Rate, shown: View) -> int:
    """Show progress, and return the number of rows that came out so far."""
    regions = status["region_states"]
    rows_in = sum(region.get("input_rows") or 0 for region in regions)
    rows_out = sum(region.get("output_rows") or 0 for region in regions)
    per_second = rate.note(elapsed, rows_in)
    marks = sorted(str(r["watermark"]) for r in regions if r.get("watermark"))
    watermark = marks[0] if marks else None
    text = f"{elapsed:6.1f} s  {status['state']:<10}"
    if regions:
        text += f"  {per_second:6.0f} records/s  {rows_in} in, {rows_out} out"
        text += f"  watermark {watermark or 'none yet'}"
    else:
        text += f"  {status['reason']}"
    shown.progress(
        text,
        state=status["state"],
        records_per_second=round(per_second, 1),
        rows_in=rows_in,
        rows_out=rows_out,
        watermark=watermark,
    )
    return rows_out


def _show_new_checkpoints(
    client: HeadgateClient, job_id: str, shown: View, outcome: DemoOutcome
) -> None:
    for one in sorted(client.checkpoints(job_id)["history"], key=lambda found: found["id"]):
        if one["status"] == "COMPLETED" and one["id"] not in outcome.checkpoints:
            outcome.checkpoints.add(one["id"])
            checkpoint = client.checkpoint(job_id, one["id"])
            took = display.duration(one["end_to_end_duration"])
            shown.say("checkpoint", _described(checkpoint, took), **checkpoint)


def _described(checkpoint: CheckpointResponse, took: str) -> str:
    acks = checkpoint["acks"]
    listed = ", ".join(
        f"{display.subtask(ack)} {display.size(ack['bytes'])}" for ack in acks[:SHOWN_ACKS]
    )
    more = f" and {len(acks) - SHOWN_ACKS} more" if len(acks) > SHOWN_ACKS else ""
    size = display.size(checkpoint["bytes"])
    return f"checkpoint {checkpoint['number']} completed in {took}, {size}; acks: {listed}{more}"


def _show_rows(output: Path, shown: View, outcome: DemoOutcome) -> None:
    if not output.is_dir():
        return
    table = arrow_dataset.dataset(output, format="parquet").to_table()
    outcome.rows = table.num_rows
    if not table.num_rows:
        return
    table = table.sort_by([("window_start", "ascending"), ("auction", "ascending")])
    rows: list[Mapping[str, Any]] = table.slice(0, FIRST_ROWS).to_pylist()
    shown.rows(rows, f"{table.num_rows} rows; the first of them:", count=table.num_rows)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore a second Ctrl-C, so that it cannot interrupt the clean-up after the first."""
    before = {one: signal.signal(one, signal.SIG_IGN) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C: the demo cleans up after either."""

    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
