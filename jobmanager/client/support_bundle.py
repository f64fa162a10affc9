"""The bundle for support: a zip file of what the server tells about itself and its jobs, without
secrets (`secrets_in_text`).
"""

import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from importlib import metadata
from pathlib import Path
from typing import Any

from jobmanager.client import answers, operations
from jobmanager.client.api_call import ApiCall
from jobmanager.client.client import ENDED
from jobmanager.client.errors import HeadgateError
from jobmanager.client.machine_checks import Finding
from jobmanager.client.secrets_in_text import text_without_secrets, without_secrets
from jobmanager.client.sync_client import Client

_ENDED_JOBS = 10
_HISTORY = 1000
_EPOCH = (1980, 1, 1, 0, 0, 0)
_README = """\
A bundle for support of Headgate, written at {now} by version {version} from {url}.

Values that look like secrets appear as ***. Logs and exceptions may quote data of the jobs.

{files}
{missing}"""


def jobs_of_interest(jobs: Sequence[answers.JobLine]) -> list[str]:
    """Return all live jobs, and those that ended last."""
    live = [one["jid"] for one in jobs if one["state"] not in ENDED]
    ended = sorted((one for one in jobs if one["state"] in ENDED), key=lambda one: -one["end-time"])
    return live + [one["jid"] for one in ended[:_ENDED_JOBS]]


def write(
    client: Client,
    target: Path,
    jobs: Sequence[str],
    checks: Sequence[Finding],
    log_lines: int,
    now: datetime,
) -> list[str]:
    """Write the file and return the names of what is in it."""
    written: dict[str, str] = {"doctor.json": _json([asdict(one) for one in checks])}
    missing: dict[str, str] = {}
    for name, call in _calls(jobs, log_lines, now):
        try:
            written[name] = _text(client.run(call))
        except HeadgateError as error:
            missing[name] = str(error)
    files = "\n".join(written)
    absent = "\n".join(f"not there: {name}: {why}" for name, why in missing.items())
    written["README.txt"] = text_without_secrets(
        _README.format(
            now=f"{now:%Y-%m-%d %H:%M:%S} UTC",
            version=metadata.version("headgate"),
            url=client.url,
            files=files,
            missing=f"\n{absent}\n" if absent else "",
        )
    )
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in written.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    target.chmod(0o600)
    return list(written)


def _calls(
    jobs: Sequence[str], log_lines: int, now: datetime
) -> Iterator[tuple[str, ApiCall[Any]]]:
    yield "server/ready.json", operations.get_readyz()
    yield "server/overview.json", operations.get_overview()
    yield "server/config.json", operations.get_config()
    yield "server/jobmanagers.json", operations.get_jobmanagers()
    yield "server/runners.json", operations.get_runners()
    yield "server/inspector.json", operations.get_inspector()
    yield "server/jobs.json", operations.get_jobs_summary(limit=200)
    yield "server/savepoints.json", operations.get_savepoints(limit=200)
    yield "server/metrics.txt", operations.get_metrics()
    of_job: dict[str, Callable[[str], ApiCall[Any]]] = {
        "status.json": operations.get_job_status,
        "job.json": operations.get_job,
        "graph.json": operations.get_job_graph,
        "plan.json": operations.get_job_plan,
        "key-groups.json": operations.get_job_key_groups,
        "exceptions.json": operations.get_job_exceptions,
        "checkpoints.json": operations.get_job_checkpoints,
        "operations.json": operations.get_job_operations,
    }
    since = f"{now - timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
    for job_id in jobs:
        at = f"jobs/{job_id}"
        for name, make in of_job.items():
            yield f"{at}/{name}", make(job_id)
        history = operations.get_job_history(job_id, limit=_HISTORY, newest_first=True)
        yield f"{at}/history.json", history
        yield f"{at}/samples.json", operations.get_job_samples(job_id, since=since)
        if log_lines:
            yield f"{at}/runner.log", operations.get_job_logs(job_id, tail=log_lines)


def _text(answer: Any) -> str:
    return text_without_secrets(answer) if isinstance(answer, str) else _json(answer)


def _json(answer: Any) -> str:
    return json.dumps(without_secrets(answer), indent=2, ensure_ascii=False)
