"""Programs of users on a real server: a PySpark script, and a graph built in Python."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.dataset
import pytest

from jobmanager.client import Client
from tests.support.renewed import Renewed, renewed
from tests.support.server import ServerProcess, a_server, eventually

PATIENCE = 180
OF_THE_SERVER = {
    "HEADGATE_TOKEN": "the token of a client",
    "PGPASSFILE": "/nowhere/the password file",
    "CREDENTIALS_DIRECTORY": "/nowhere/the credentials",
}
OF_JOBS = {"AWS_SECRET_ACCESS_KEY": "kept for jobs"}
_EXAMPLES = Path(__file__).parents[2] / "examples"
_SCRIPT = """
import sys

from pyspark.sql import SparkSession, functions as F
from rules import is_wanted  # shipped beside

spark = SparkSession.builder.appName("words").getOrCreate()
words = spark.readStream.schema("word STRING, n BIGINT").json(f"{sys.argv[1]}/words")
wanted = words.where(F.udf(is_wanted, "boolean", useArrow=False)("n"))


def upsert(batch, number):
    path = f"{sys.argv[1]}/counts.json"
    try:
        with open(path) as old:
            counts = json.load(old)
    except FileNotFoundError:
        counts = {}
    counts.update({row.word: row["count"] for row in batch.collect()})
    with open(path + ".new", "w") as new:
        json.dump(counts, new)
    os.replace(path + ".new", path)


import json
import os

wanted.groupBy("word").count().writeStream.queryName("counts").outputMode("update").option(
    "checkpointLocation", "never/used"
).foreachBatch(upsert).start()
wanted.writeStream.queryName("copy").format("parquet").option("path", f"{sys.argv[1]}/out").start()
spark.streams.awaitAnyTermination()
"""

_NUMBERED = """
import os

from jobmanager.client.builder import Environment
from taskrunner.api.process import Context, ProcessFunction, Row
from taskrunner.api.state import ValueState


class Numbered(ProcessFunction):
    seen = ValueState[int]()

    def process(self, row: Row, ctx: Context) -> None:
        number = (self.seen.value() or 0) + 1
        self.seen.update(number)
        ctx.emit({"word": ctx.key, "number": number})


COLUMNS = "word STRING, n BIGINT"

if __name__ == "__main__":
    url = os.environ["HEADGATE_URL"]
    env = Environment("numbered", parallelism=2, checkpointing={"interval": "1s"}, url=url)
    (
        env.source("files", id="words", format="json", path="numbered/words", schema=COLUMNS)
        .key_by("word")
        .process(Numbered, "word STRING, number BIGINT", id="numbered")
        .sink("files", id="out", format="json", path="numbered/out")
    )
    print(env.submit().id)
"""


_CURIOUS = """
import json
import os
from pathlib import Path

import psycopg

PLACE = Path({place!r})
SOCKETS = {sockets!r}


def look(where):
    # All that a process of a user's code finds when it looks around.
    pid, commands, environments = os.getpid(), [], [sorted(os.environ.items())]
    while pid > 0:
        process = Path(f"/proc/{{pid}}")
        commands.append((process / "cmdline").read_bytes().decode().split("\\0"))
        if "taskrunner" in commands[-1] or "java" in commands[-1][0] or pid == os.getpid():
            environments.append((process / "environ").read_bytes().decode().split("\\0"))
        pid = int((process / "stat").read_text().rpartition(")")[2].split()[1])
    try:
        psycopg.connect(host=SOCKETS, user="postgres", dbname="postgres").close()
        postgres = "let in"
    except psycopg.OperationalError as error:
        postgres = str(error)
    found = {{"commands": commands, "environments": environments, "postgres": postgres}}
    PLACE.mkdir(exist_ok=True)
    (PLACE / f"{{where}}-{{os.getpid()}}.json").write_text(json.dumps(found))


def curious(spark, rows):
    look("driver")

    def in_a_worker(batches):
        look("worker")
        yield from batches

    return rows.mapInArrow(in_a_worker, rows.schema)
"""


class Words:
    """Input files, and what plain Python makes of them."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._files = 0
        self.wanted: Counter[str] = Counter()
        self.all: Counter[str] = Counter()

    def feed(self, rows: int = 50) -> None:
        first = self._files * rows
        made = [(f"w{n % 11}", n % 4) for n in range(first, first + rows)]
        self.wanted.update(word for word, n in made if n != 0)
        self.all.update(word for word, _ in made)
        text = "".join(json.dumps({"word": word, "n": n}) + "\n" for word, n in made)
        self._files += 1
        (self._data / "words").mkdir(parents=True, exist_ok=True)
        aside = self._data / f".words-{self._files}"
        aside.write_text(text)
        aside.rename(self._data / "words" / f"{self._files}.json")

    def counts(self) -> dict[str, int]:
        path = self._data / "counts.json"
        found: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def copied(self) -> Counter[str]:
        place = self._data / "out"
        if not place.exists():
            return Counter()
        rows = pyarrow.dataset.dataset(place, format="parquet").to_table().to_pylist()
        return Counter(str(row["word"]) for row in rows)

    def until_through(self) -> None:
        eventually(
            lambda: self.counts() == self.wanted and self.copied() == self.wanted,
            PATIENCE,
            lambda: f"{self.wanted} wanted, {self.counts()} counted, {self.copied()} copied",
        )


@pytest.fixture(scope="module")
def servers_in_turn(postgres_url: str) -> Iterator[Renewed[ServerProcess]]:
    environment = {**OF_THE_SERVER, **OF_JOBS}
    with renewed(
        lambda: a_server(postgres_url, environment=environment), lambda server: server.is_running
    ) as shared:
        yield shared


def headgate(server: ServerProcess, *arguments: str) -> Any:
    return json.loads(run_python(server, "-m", "jobmanager", *arguments))


def run_python(server: ServerProcess, *arguments: str) -> str:
    """What a program said that talks to the server."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "HEADGATE_URL": server.url},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.timeout(600)
@pytest.mark.long
def test_a_script_is_a_job_through_kill_and_rescale(server: ServerProcess, tmp_path: Path) -> None:
    words = Words(server.directory / "data" / "killed")
    words.feed()

    job = submit_script(server, tmp_path, "killed", "--parallelism", "2")
    words.until_through()
    server.until_checkpoint(job, 1)
    os.kill(server.status(job)["runner"]["pid"], signal.SIGKILL)
    words.feed()
    words.until_through()
    with Client(server.url) as client:
        handle = client.jobs[job]
        handle.rescale(3)
        words.feed()
        words.until_through()
        savepoint = client.get_savepoint(handle.stop())

    assert set(savepoint["regions"]) == {"counts", "copy"}
    assert savepoint["parallelism"] == 3
    groups = server.get(f"/v1/jobs/{job}/key-groups")
    assert [(one["vertex"], len(one["subtasks"])) for one in groups["vertices"]] == [
        ("counts_query", 3)
    ]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_script_goes_on_from_a_savepoint_at_another_parallelism(
    server: ServerProcess, tmp_path: Path
) -> None:
    words = Words(server.directory / "data" / "continued")
    words.feed()
    job = submit_script(server, tmp_path, "continued", "--parallelism", "2")
    words.until_through()
    with Client(server.url) as client:
        savepoint = client.jobs[job].stop()
        words.feed()
        options = ("--parallelism", "4", "--from-savepoint", savepoint)
        again = submit_script(server, tmp_path, "continued", *options)
        words.until_through()
        client.jobs[again].cancel()


def submit_script(server: ServerProcess, tmp_path: Path, place: str, *options: str) -> str:
    (tmp_path / "app.py").write_text(_SCRIPT)
    (tmp_path / "rules.py").write_text("def is_wanted(n):\n    return n != 0\n")
    shipped = ("--py-files", str(tmp_path / "rules.py"))
    script = (str(tmp_path / "app.py"), place)
    return str(headgate(server, "submit-script", "--json", *options, *shipped, *script)["jobid"])


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_function_with_state_is_right_through_kill_and_rescale(
    server: ServerProcess, tmp_path: Path
) -> None:
    data = server.directory / "data" / "numbered"
    words = Words(data)
    words.feed()
    (tmp_path / "app.py").write_text(_NUMBERED)

    job = run_python(server, str(tmp_path / "app.py")).strip()
    until_numbered(words, data / "out")
    server.until_checkpoint(job, 1)
    os.kill(server.status(job)["runner"]["pid"], signal.SIGKILL)
    words.feed()
    until_numbered(words, data / "out")
    with Client(server.url) as client:
        handle = client.jobs[job]
        for parallelism in (4, 1):
            words.feed()
            handle.rescale(parallelism)
            words.feed()
            until_numbered(words, data / "out")
        handle.cancel()


def until_numbered(words: Words, out: Path) -> None:
    """Each word has been seen as often as it was fed, and no number twice."""

    def found() -> Counter[tuple[str, int]]:
        lines = [line for one in out.glob("*.json") for line in one.read_text().splitlines()]
        rows = [json.loads(line) for line in lines]
        return Counter((row["word"], row["number"]) for row in rows)

    wanted = Counter((word, n) for word, last in words.all.items() for n in range(1, last + 1))
    eventually(
        lambda: found() == wanted,
        PATIENCE,
        lambda: f"missing {wanted - found()}, too many {found() - wanted}",
    )


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("example", "place"),
    [
        ("streaming_etl", "out/rejected"),
        ("stream_analytics", "out/analytics"),
        ("event_driven", None),  # its first reminder comes after a minute
    ],
)
def test_an_example_runs(example: str, place: str | None, server: ServerProcess) -> None:
    told = run_python(server, str(_EXAMPLES / f"{example}.py"))
    job = told.split()[1].rstrip(":")

    server.until_checkpoint(job, 1)
    if place is not None:
        out = server.directory / "data" / place
        eventually(lambda: any(one.stat().st_size for one in out.glob("*.*")), PATIENCE)
    with Client(server.url) as client:
        client.jobs[job].cancel()


def test_user_code_finds_no_secret_of_the_server(
    server: ServerProcess, postgres_url: str, tmp_path: Path
) -> None:
    address = psycopg.conninfo.conninfo_to_dict(postgres_url)
    place, sockets = server.directory / "data" / "found", str(address["host"])
    (tmp_path / "curious.py").write_text(_CURIOUS.format(place=str(place), sockets=sockets))
    with Client(server.url) as client:
        artifact = client.upload_artifact((tmp_path / "curious.py").read_bytes(), name="curious.py")
        graph = a_curious_graph(artifact["id"])
        client.submit(graph, analyse=True).wait()  # in the inspector first
    looks = {path.stem: json.loads(path.read_text()) for path in place.glob("*.json")}

    kinds = {name.partition("-")[0] for name in looks}
    processes = {" ".join(one["commands"][0]).partition(" --")[0] for one in looks.values()}
    assert kinds == {"driver", "worker"}
    for program in ("taskrunner.inspector", "taskrunner", "pyspark.daemon"):
        assert any(f"-m {program}" in one for one in processes), processes
    hashes = stored_hashes(server)
    for name, found in looks.items():
        assert "no password supplied" in found["postgres"], name
        text = json.dumps([found["commands"], found["environments"]])
        assert "kept for jobs" in text, name  # so that what is missing was taken out
        for secret in (str(address["password"]), *OF_THE_SERVER.values()):
            assert secret not in text, name
        words = set(re.findall(r"[A-Za-z0-9_-]{20,}", text))
        assert not {one for one in words if sha256(one.encode()).hexdigest() in hashes}, name


def a_curious_graph(artifact: str) -> dict[str, Any]:
    source = {"connector": "generator", "rows_per_second": 10, "rows": 10, "columns": {"k": "id"}}
    return {
        "name": "curious",
        "mode": "batch",
        "artifacts": [artifact],
        "vertices": [
            {"id": "rows", "op": "source", **source},
            {
                "id": "look",
                "op": "spark",
                "inputs": ["rows"],
                "function": "curious:curious",
                "output": "k BIGINT",
            },
            {"id": "out", "op": "sink", "inputs": ["look"], "connector": "blackhole"},
        ],
    }


def stored_hashes(server: ServerProcess) -> set[str]:
    """Of the secrets of all runners and the tokens of all attempts."""
    with psycopg.connect(server.environment["HEADGATE_DATABASE_URL"]) as connection:
        rows = connection.execute(
            "SELECT token_hash FROM runners UNION SELECT token_hash FROM attempts"
        )
        found = {str(row[0]) for row in rows if row[0]}
    assert len(found) >= 2
    return found


@pytest.mark.long
def test_a_graph_built_in_python_runs_with_its_own_code(server: ServerProcess) -> None:
    assert ": finished" in run_python(server, str(_EXAMPLES / "batch_report.py"))
    rows = [
        json.loads(line)
        for path in (server.directory / "data" / "out/report").glob("*.json")
        for line in path.read_text().splitlines()
    ]
    totals: Counter[tuple[int, int]] = Counter()
    for n in range(20_000):
        totals[n % 4, n * 31 % 97] += n % 50 + 1
    best = {
        (region, customer, total)
        for region in range(4)
        for customer, total in sorted(
            ((c, t) for (r, c), t in totals.items() if r == region),
            key=lambda one: (-one[1], one[0]),
        )[:3]
    }
    assert {(row["region"], row["customer"], row["total"]) for row in rows} == best
