"""Jars: upload a file that can be run, as Flink's clients do; list, plan, run, delete."""

import io
import json
import zipfile
from typing import Any

import pytest

from jobmanager.protocol.inspection import ScriptDescribed, ScriptQuery, ScriptQuerySink
from tests.support.builders import a_document
from tests.support.cluster import EVERYONE, Cluster

pytestmark = pytest.mark.anyio
CODE = b"def work(spark, rows):\n    return rows\n"


def a_zip(**files: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "."), text)
    return content.getvalue()


async def upload(cluster: Cluster, name: str, content: bytes) -> Any:
    return await cluster.http.post("/jars/upload", files={"jarfile": (name, content)})


async def uploaded(cluster: Cluster, name: str, content: bytes) -> str:
    answer = await upload(cluster, name, content)
    assert answer.status_code == 200, answer.text
    assert answer.json()["status"] == "success"
    return str(answer.json()["filename"]).rsplit("/", 1)[-1]


def a_graph(**changes: Any) -> bytes:
    return json.dumps(a_document(**changes)).encode()


async def test_a_job_graph_is_uploaded_listed_planned_run_and_deleted(cluster: Cluster) -> None:
    jar = await uploaded(cluster, "orders.json", a_graph(name="orders", max_parallelism=8))

    [listed] = [one for one in (await cluster.get("/jars"))["files"] if one["id"] == jar]
    assert (listed["name"], listed["entry"][0]["name"]) == ("orders.json", "orders")
    by_get = await cluster.get(f"/jars/{jar}/plan?parallelism=4")
    by_post = (await cluster.http.post(f"/jars/{jar}/plan", json={"parallelism": 4})).json()
    assert by_get == by_post
    assert by_get["plan"]["nodes"][-1]["parallelism"] == 4

    asked = {"parallelism": 4, "flinkConfiguration": {"pipeline.name": "renamed"}}
    answer = await cluster.http.post(f"/jars/{jar}/run?parallelism=2", json=asked)
    assert answer.status_code == 200, answer.text
    job = await cluster.get(f"/jobs/{answer.json()['jobid']}")
    assert (job["name"], job["vertices"][-1]["parallelism"]) == ("renamed", 4)

    assert (await cluster.http.delete(f"/jars/{jar}")).status_code == 200
    gone = await cluster.http.delete(f"/jars/{jar}")
    assert (gone.status_code, list(gone.json())) == (404, ["errors"])


async def test_a_client_may_choose_the_id_of_the_job_once(cluster: Cluster) -> None:
    jar = await uploaded(cluster, "job.yaml", a_graph())
    mine = {"jobId": "e" * 32}

    first = await cluster.http.post(f"/jars/{jar}/run", json=mine)
    again = await cluster.http.post(f"/jars/{jar}/run", json=mine)
    other = await cluster.http.post(f"/jars/{jar}/run", json={**mine, "parallelism": 1})
    known = await cluster.submit(a_document(name="known"))
    taken = await cluster.http.post(f"/jars/{jar}/run", json={"jobId": known})

    assert first.json()["jobid"] == again.json()["jobid"] == "e" * 32
    assert (other.status_code, taken.status_code) == (409, 409)


async def test_a_zip_has_a_job_graph_and_its_code(cluster: Cluster) -> None:
    graph = a_graph(name="zipped")
    jar = await uploaded(cluster, "job-1.0.jar", a_zip(job__json=graph, work__py=CODE))

    answer = await cluster.http.post(f"/jars/{jar}/run-application")

    assert answer.status_code == 202, answer.text
    stored = await cluster.get(f"/v1/jobs/{answer.json()['applicationid']}/graph")
    [artifact] = stored["graph"]["artifacts"]
    assert (await cluster.get(f"/v1/artifacts/{artifact}"))["name"] == "job-1.0.zip"
    assert (await cluster.http.delete(f"/jars/{jar}")).status_code == 200
    await cluster.get(f"/v1/artifacts/{artifact}")  # a job uses the code
    bare = await uploaded(cluster, "bare.zip", a_zip(job__json=graph))
    assert (await cluster.http.post(f"/jars/{bare}/run")).status_code == 200


async def test_code_that_came_with_a_jar_goes_with_it(cluster: Cluster) -> None:
    mine = b"def mine(spark, rows):\n    return rows\n"
    first = await uploaded(cluster, "mine.py", mine)
    second = await uploaded(cluster, "again.py", mine)

    async def artifacts() -> list[str]:
        return [one["name"] for one in (await cluster.get("/v1/artifacts"))["items"]]

    await cluster.http.delete(f"/jars/{second}")
    assert "mine.py" in await artifacts()
    await cluster.http.delete(f"/jars/{first}")
    assert "mine.py" not in await artifacts()


async def test_a_program_is_run_with_its_arguments(cluster: Cluster) -> None:
    jar = await uploaded(cluster, "program.py", b"import sys\n")
    sink = ScriptQuerySink(
        format="console", path=None, options={}, partition_by=[], table=None, function=None
    )
    query = ScriptQuery(
        name="out", sources=["rate"], state=[], output_mode="append", trigger={}, sink=sink
    )
    cluster.inspector.before_answer = lambda question: None
    cluster.inspector.answers = [ScriptDescribed(queries=[query])]

    answer = await cluster.http.post(f"/jars/{jar}/run", json={"programArgs": "--day '1 May'"})

    assert answer.status_code == 200, answer.text
    asked = cluster.inspector.asked[-1].model_dump()
    assert asked["arguments"] == ["--day", "1 May"]
    assert (await cluster.get(f"/jobs/{answer.json()['jobid']}"))["name"] == "program"


async def test_a_jar_is_run_from_a_savepoint_or_the_path_of_a_checkpoint(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document(max_parallelism=8))
    await cluster.http.post(f"/v1/jobs/{job}/checkpoints")
    await runner.ack(1, *EVERYONE)
    path = (await cluster.get(f"/jobs/{job}/checkpoints/details/1"))["external_path"]
    jar = await uploaded(cluster, "job.json", a_graph(max_parallelism=8))

    nowhere = await cluster.http.post(f"/jars/{jar}/run", json={"savepointPath": "file:///no"})
    unknown = path.removesuffix("/1") + "/99"
    missing = await cluster.http.post(f"/jars/{jar}/run", json={"savepointPath": unknown})
    known = await cluster.http.post(f"/jars/{jar}/run", json={"savepointPath": path})

    assert nowhere.status_code in (404, 422), nowhere.text
    assert (missing.status_code, "has no checkpoint 99" in missing.text) == (404, True)
    assert "manifest.json" in known.json()["errors"][0]  # played runners write no files


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("job.exe", b"x", "upload a job graph"),
        ("job.json", b"[]", "not a job graph"),
        ("job.yaml", b"a: [", "is not YAML"),
        ("job.jar", b"PK", "not a zip file"),
        ("job.jar", a_zip(Main__class=b"\xca\xfe\xba\xbe"), "has no job graph"),
        ("work.py", b"def (", "is not Python"),
    ],
)
async def test_what_cannot_be_run_is_refused_with_the_reason(
    cluster: Cluster, name: str, content: bytes, told: str
) -> None:
    answer = await upload(cluster, name, content)

    assert answer.status_code in (400, 422), answer.text
    assert told in answer.json()["errors"][0]


async def test_a_graph_takes_no_arguments_and_its_faults_are_told(cluster: Cluster) -> None:
    jar = await uploaded(cluster, "job.json", a_graph())
    faulty = await uploaded(cluster, "faulty.json", b'{"name": "x", "vertices": []}')

    arguments = await cluster.http.post(f"/jars/{jar}/run", json={"programArgsList": ["--x"]})
    faults = await cluster.http.post(f"/jars/{faulty}/run")
    claim = await cluster.http.post(f"/jars/{jar}/run", json={"claimMode": "maybe"})

    assert "takes no program arguments" in arguments.json()["errors"][0]
    assert "The job graph has faults" in faults.json()["errors"][0]
    assert claim.status_code == 400


async def test_an_upload_is_in_the_audit_and_a_jar_that_is_run_too(cluster: Cluster) -> None:
    jar = await uploaded(cluster, "job.json", a_graph())
    job = (await cluster.http.post(f"/jars/{jar}/run")).json()["jobid"]
    other, _ = await cluster.running(a_document())
    await cluster.http.get(f"/jobs/{other}/yarn-cancel")

    rows = (await cluster.get("/v1/audit?limit=10"))["items"]
    found = {(one["method"], one["route"]): one["subject"] for one in reversed(rows)}

    assert found["POST", "/jars/upload"] == jar
    assert found["POST", "/jars/{jarid}/run"] == job
    assert found["GET", "/jobs/{jobid}/yarn-cancel"] == other


async def test_web_pages_of_others_cannot_upload_or_cancel(cluster: Cluster) -> None:
    job, _ = await cluster.running(a_document())
    foreign = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    silent = {"User-Agent": "Mozilla/5.0 (old)"}
    form = {"jarfile": ("job.json", a_graph())}

    for headers in (foreign, silent):
        posted = await cluster.http.post("/jars/upload", files=form, headers=headers)
        cancelled = await cluster.http.get(f"/jobs/{job}/yarn-cancel", headers=headers)
        assert (posted.status_code, cancelled.status_code) == (403, 403)
    own = {**silent, "Sec-Fetch-Site": "same-origin"}
    assert (await cluster.http.post("/jars/upload", files=form, headers=own)).status_code == 200
    assert await cluster.state(job) == "RUNNING"
