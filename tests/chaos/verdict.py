"""What is looked at after a run: output, database, processes, files."""

import json
import signal
from pathlib import Path
from typing import Any

from tests.chaos import invariants
from tests.chaos.world import World
from tests.e2e.test_exactly_once import RATE
from tests.support.oracle import Bids, read_windows, twice
from tests.support.server import eventually

_LEFTOVERS = {"checkpoint", "pool_file", "savepoint_draft"}
"""What dies at the wrong moment may leave behind: `headgate gc` finds and deletes it."""
_STOP_TRIES = 3


def check_meanwhile(world: World) -> None:
    """What holds at any moment, with the job running."""
    assert not twice(read_windows(world.output)), "rows are there twice"
    broken = invariants.broken(world.postgres.url, has_ended=False)
    assert not broken, broken
    _check_completions(world)
    attempts = list((world.storage / "jobs" / world.job / "attempts").iterdir())
    assert len(attempts) <= 3, f"attempts pile up: {attempts}"


def check_end(world: World) -> None:
    """Ends the job with all its output, and looks at everything."""
    _operations_end(world)
    seconds = _stop(world)
    written = read_windows(world.output)
    assert not twice(written), "rows are there twice"
    expected = Bids(RATE, world.began_ms).windows(seconds * RATE, 2000)
    missing, wrong = expected - set(written), set(written) - expected
    assert (len(missing), len(wrong)) == (0, 0), f"missing {missing}, not asked for {wrong}"
    if not world.warm_runners:
        _no_process_is_left(world)
    eventually(lambda: not _broken(world), within=60, explain=lambda: str(_broken(world)))
    _check_completions(world)
    _check_savepoints(world)
    _check_files(world)
    for server in world.servers:
        assert server.stop(signal.SIGTERM) == 0, server.log.read_text()[-2000:]
    _no_process_is_left(world)


def _no_process_is_left(world: World) -> None:
    eventually(lambda: not world.processes(), within=60, explain=lambda: str(world.processes()))


def _operations_end(world: World) -> None:
    def ended() -> bool:
        found = invariants.broken(world.postgres.url, has_ended=True)
        return not any(name.startswith("every operation") for name in found)

    eventually(ended, within=120, explain=lambda: str(_broken(world)))


def _stop(world: World) -> int:
    """Stops the job with every window emitted; how many seconds of input it has read."""
    for _ in range(_STOP_TRIES):
        world.recover()
        answer = world.ask("POST", f"/v1/jobs/{world.job}/stop", json={"drain": True})
        assert answer.status_code == 202, answer.text
        operation = _ended(world, answer.json()["request-id"])
        if operation["status"] == "completed":
            savepoint = world.get(f"/v1/savepoints/{operation['result']['savepoint']}")
            return int(savepoint["regions"]["out"]["offsets"]["bids"])
    raise AssertionError(f"the job cannot be stopped: {world.status()}")


def _ended(world: World, operation: str) -> dict[str, Any]:
    def ended() -> dict[str, Any] | None:
        found: dict[str, Any] = world.get(f"/v1/operations/{operation}")
        return found if found["status"] != "in_progress" else None

    return eventually(ended, within=120)


def _broken(world: World) -> dict[str, list[dict[str, Any]]]:
    return invariants.broken(world.postgres.url, has_ended=True)


def _check_completions(world: World) -> None:
    often = {one: times for one, times in world.said.completions.items() if times > 1}
    assert not often, f"completed more than once: {often}"


def _check_savepoints(world: World) -> None:
    for one in world.get("/v1/savepoints")["items"]:
        if one["status"] == "completed":
            found = world.ask("POST", f"/v1/savepoints/{one['id']}/verify").json()
            assert found["faults"] == [], found


def _check_files(world: World) -> None:
    found = world.ask("POST", "/v1/gc", params={"dry_run": True}).json()
    unexpected = [one for one in found["items"] if one["kind"] not in _LEFTOVERS]
    assert not unexpected, unexpected
    world.ask("POST", "/v1/gc")
    again = world.ask("POST", "/v1/gc", params={"dry_run": True}).json()
    assert again["items"] == [], again

    job = world.storage / "jobs" / world.job
    assert not list((job / "attempts").iterdir())
    named = set()
    for manifest in job.glob("checkpoints/*/manifest.json"):
        named |= _locations(json.loads(manifest.read_text()))
    pooled = {str(one.relative_to(job)) for one in (job / "pool").rglob("*") if one.is_file()}
    assert pooled <= named, f"nobody names {pooled - named}"
    private = world.output.parent / f".{world.output.name}.headgate" / world.job / "out"
    assert not _staged(private)
    undecided = [one.name for one in private.glob("*.*.json")]
    assert not undecided, undecided


def _staged(private: Path) -> list[Path]:
    return list((private / "staging").iterdir()) if (private / "staging").exists() else []


def _locations(document: Any) -> set[str]:
    """Every text in a manifest: whatever it names is among them."""
    if isinstance(document, str):
        return {document}
    if isinstance(document, dict):
        return set().union(*map(_locations, document.values()), document.keys())
    if isinstance(document, list):
        return set().union(*map(_locations, document))
    return set()
