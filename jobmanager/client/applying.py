"""Makes a server run what files describe, for `headgate apply` and `headgate diff`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from jobmanager.client import (
    answers,
    desired_jobs,
    display,
    flows,
    graph_file,
    local_artifacts,
    output,
    submission,
)
from jobmanager.client.desired_jobs import (
    ApplyChoices,
    CreateJob,
    DescribedJob,
    JobStep,
    LeaveJob,
    PastJob,
    PresentJob,
    RescaleJob,
    UpgradeJob,
)
from jobmanager.client.errors import HeadgateError, fault_line
from jobmanager.client.sync_client import Client
from jobmanager.core.snapshots.upgrade import FieldChange

_ENDINGS = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class PlannedJob:
    wanted: DescribedJob
    directory: Path
    step: JobStep

    def described(self) -> dict[str, Any]:
        """For programs."""
        said: dict[str, Any] = {"name": self.wanted.name, "file": self.wanted.file}
        match self.step:
            case CreateJob(savepoint, checkpoint):
                return said | {"action": "create", "savepoint": savepoint, "checkpoint": checkpoint}
            case RescaleJob(job_id, before, after):
                moved = {"from": before, "to": after}
                return said | {"action": "rescale", "jobid": job_id, "parallelism": moved}
            case UpgradeJob(job_id, changes, _):
                listed = [_change(one) for one in changes]
                return said | {"action": "upgrade", "jobid": job_id, "changes": listed}
            case LeaveJob(job_id, why):
                return said | {"action": "none", "jobid": job_id, "reason": why}


def apply(
    url: str,
    files: Sequence[str],
    choices: ApplyChoices,
    *,
    dry_run: bool,
    allow_loss: bool,
    wait: float,
    as_json: bool,
) -> None:
    """Check all files, then do what has to be done for each; print what was done."""
    with Client(url) as client:
        planned = list(_planned(client, files, choices, upload=True))
        for one in planned:
            _check(client, one, allow_loss)
        done = []
        for one in planned:
            said = one.described()
            if not dry_run:
                said |= _carry_out(client, one, allow_loss, wait)
            done.append(said)
            if not as_json:
                typer.echo(f"{one.wanted.name}: {_sentence(said, dry_run)}")
    if as_json:
        output.emit(done)


def diff(url: str, files: Sequence[str], choices: ApplyChoices, *, as_json: bool) -> bool:
    """Print how files and server differ, and return whether they do."""
    with Client(url) as client:
        planned = list(_planned(client, files, choices, upload=False))
    different = [one for one in planned if not isinstance(one.step, LeaveJob)]
    if as_json:
        output.emit([one.described() for one in planned])
    else:
        for one in different:
            _show_difference(one)
    return bool(different)


def _planned(
    client: Client, files: Sequence[str], choices: ApplyChoices, *, upload: bool
) -> Iterator[PlannedJob]:
    """Read all files, look at the server, and decide about each file."""
    read = [(path, graph_file.read(path)) for path in _paths(files)]
    names = [str(graph.get("name")) for _, graph in read]
    for path, graph in read:
        if names.count(str(graph.get("name"))) > 1:
            raise HeadgateError(f"{path}: another file describes a job {graph.get('name')!r}, too")
    for path, graph in read:
        directory = graph_file.directory_of(path)
        if not desired_jobs.are_comparable(graph):
            faults = client.dry_run(graph)["faults"]
            raise _refused(path, "is not a job graph", [fault_line(one) for one in faults])
        if upload:
            graph = client.follow(submission.with_uploads(graph, directory))
        wanted = DescribedJob(path, {**graph, **_artifact_ids(client, graph, directory)})
        known = _jobs_called(client, wanted.name)
        live = [one["id"] for one in known if one["state"] not in flows.ENDED]
        past = _past(client, known[0]["id"]) if known and not live else None
        step = desired_jobs.decide(wanted, [_present(client, one) for one in live], past, choices)
        yield PlannedJob(wanted, directory, step)


def _jobs_called(client: Client, name: str) -> list[answers.SummaryItem]:
    """Return all jobs of that name, the newest first."""
    found: list[answers.SummaryItem] = []
    cursor: str | None = None
    while True:
        page = client.get_jobs_summary(q=name, limit=200, cursor=cursor)
        found += [one for one in page["items"] if one["name"] == name]
        cursor = page["next"]
        if cursor is None:
            return found


def _paths(files: Sequence[str]) -> Iterator[str]:
    for one in files:
        if one != graph_file.STANDARD_INPUT and Path(one).is_dir():
            found = sorted(str(path) for path in Path(one).iterdir() if path.suffix in _ENDINGS)
            if not found:
                raise HeadgateError(f"the directory {one} has no files {', '.join(_ENDINGS)}")
            yield from found
        else:
            yield one


def _artifact_ids(client: Client, graph: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Return the graph's artifacts as the server stores them: by id."""
    named = graph.get("artifacts")
    if not isinstance(named, list) or not named:
        return {}
    known: dict[str, str] = {}
    for one in reversed(client.get_artifacts(limit=1000)["items"]):
        known[one["name"]] = one["id"]
    ids: list[str] = []
    for name in named:
        file = directory / str(name)
        if file.is_file() or file.is_dir():
            ids.append(sha256(local_artifacts.named_content(file)[1]).hexdigest())
        else:
            ids.append(known.get(str(name), str(name)))
    return {"artifacts": ids}


def _present(client: Client, job_id: str) -> PresentJob:
    found = client.get_job_graph(job_id)
    return PresentJob(job_id, found["graph"], found["parallelism"])


def _past(client: Client, job_id: str) -> PastJob:
    """Look for the newest state that the job has left."""
    status, graph = client.get_job_status(job_id), client.get_job_graph(job_id)["graph"]
    stops = [one for one in client.get_job_operations(job_id)["items"] if one["kind"] == "stop"]
    saved = [
        one
        for one in client.get_savepoints(limit=1000)["items"]
        if one["job"] == job_id and one["status"] == "completed"
    ]
    newest = max(saved, key=lambda one: one["completed_at"] or "", default=None)
    last = status["last_checkpoint"]
    found = PastJob(
        job_id,
        status["state"],
        graph,
        ran_to_its_end=status["state"] == "finished" and not stops,
        savepoint=newest["id"] if newest else None,
        checkpoint=f"{job_id}:{last['number']}" if last else None,
    )
    if newest and last and last["completed_at"] > (newest["completed_at"] or ""):
        return PastJob(**{**found.__dict__, "savepoint": None})
    return PastJob(**{**found.__dict__, "checkpoint": None}) if newest else found


def _check(client: Client, planned: PlannedJob, allow_loss: bool) -> None:
    """Let the server check a step before any step is carried out."""
    match planned.step:
        case CreateJob(savepoint, checkpoint):
            call = submission.dry_run(
                planned.wanted.graph,
                savepoint=savepoint,
                checkpoint=checkpoint,
                allow_non_restored_state=allow_loss,
            )
            faults = client.follow(call)["faults"]
            if faults:
                lines = [fault_line(one) for one in faults]
                raise _refused(planned.wanted.file, "cannot be created", lines)
        case UpgradeJob(job_id, _, parallelism):
            plan = client.follow(
                flows.plan_upgrade(
                    job_id,
                    planned.wanted.graph,
                    parallelism=parallelism,
                    allow_non_restored_state=allow_loss,
                )
            )
            if plan["verdict"] != "compatible":
                verdict = plan["verdict"].replace("_", " ")
                what = f"cannot be upgraded ({verdict})"
                raise _refused(planned.wanted.file, what, plan["reasons"])
        case _:
            pass


def _refused(file: str, what: str, reasons: Sequence[str]) -> HeadgateError:
    error = HeadgateError(f"{file} {what}; nothing was done")
    error.faults = list(reasons)
    return error


def _carry_out(
    client: Client, planned: PlannedJob, allow_loss: bool, wait: float
) -> dict[str, Any]:
    """Do a step and return what it made."""
    match planned.step:
        case CreateJob(savepoint, checkpoint):
            job = client.submit(
                planned.wanted.graph,
                savepoint=savepoint,
                checkpoint=checkpoint,
                allow_non_restored_state=allow_loss,
            )
            return {"jobid": job.id}
        case RescaleJob(job_id, before, after):
            typer.echo(f"{planned.wanted.name}: rescaling from {before} to {after} …", err=True)
            client.follow(flows.rescale(job_id, after, timeout=wait))
            return {}
        case UpgradeJob(job_id, _, parallelism):
            typer.echo(f"{planned.wanted.name}: upgrading …", err=True)
            flow = flows.upgrade(
                job_id,
                planned.wanted.graph,
                parallelism=parallelism,
                allow_non_restored_state=allow_loss,
                timeout=wait,
            )
            changed = client.follow(flow)
            revision = changed["graph_revision"]["to"]
            return {"revision": revision, "savepoint": changed["savepoint"]}
        case _:
            return {}


def _sentence(said: Mapping[str, Any], dry_run: bool) -> str:
    would = "would be " if dry_run else ""
    match said["action"]:
        case "create":
            origin = said["savepoint"] or said["checkpoint"]
            state = f" from {origin}" if origin else ""
            return f"{would}created{state}" + ("" if dry_run else f" as job {said['jobid']}")
        case "rescale":
            moved = said["parallelism"]
            return f"{would}rescaled from {moved['from']} to {moved['to']}"
        case "upgrade":
            fields = ", ".join(_field(one) for one in said["changes"])
            after = "" if dry_run else f" to revision {said['revision']}"
            return f"{would}upgraded{after}: {fields}"
        case _:
            return str(said["reason"])


def _field(change: Mapping[str, Any]) -> str:
    return ".".join(part for part in (change["vertex"], change["field"]) if part)


def _change(one: FieldChange) -> dict[str, Any]:
    return {"vertex": one.vertex, "field": one.field, "before": one.before, "after": one.after}


def _show_difference(planned: PlannedJob) -> None:
    name = planned.wanted.name
    match planned.step:
        case CreateJob():
            typer.echo(f"{name}: not there")
        case RescaleJob(_, before, after):
            typer.echo(f"{name}: parallelism {before} on the server, {after} in the file")
        case UpgradeJob(_, changes, _):
            typer.echo(f"{name}:")
            table = Table(box=None, header_style="bold", pad_edge=False)
            for title in ("CHANGED", "ON THE SERVER", "IN THE FILE"):
                table.add_column(title, overflow="fold")
            for one in changes:
                where = _field(_change(one)) or "graph"
                table.add_row(where, display.short(one.before), display.short(one.after))
            display.console().print(table)
