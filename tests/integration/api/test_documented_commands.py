"""The recipes in docs/operations.md, as they are printed there, in a real shell against a real
server with Postgres; the runners are played.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.support.builders import a_document, a_document_with
from tests.support.played_crew import a_served_crew

ROOT = Path(__file__).parents[3]
ID = r"[0-9a-f]{32}"


def recipes() -> list[str]:
    text = (ROOT / "docs" / "operations.md").read_text()
    section = text.split("\n## Recipes\n")[1].split("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


DONE = rf"costs: created as job {ID}\nrevenue: upgraded to revision 2: big.where\n"
EXPECTED = [
    rf"^{ID}\njob {ID}: running\n$",
    rf"^{ID}\n$",
    rf"^costs: not there\nrevenue:\nCHANGED .*\nbig.where .*price > 100 .*price > 200 *\n{DONE}$",
    r"^rescaled from 2 to 4: \d+ key groups moved\n\d+\n$",
    r"^(\d+\n){2}$",
    rf"^{ID}\n$",
]
"""What each recipe prints. Another recipe needs another line."""


@dataclass
class Workplace:
    url: str
    directory: Path

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        backups = self.directory / "backups"
        return subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", script],
            cwd=self.directory,
            env={**os.environ, "PATH": path, "HEADGATE_URL": self.url, "BACKUPS": str(backups)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


@pytest.fixture(scope="module")
def workplace(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    directory = tmp_path_factory.mktemp("work")
    (directory / "jobs").mkdir()
    with a_served_crew(database_url, tmp_path_factory.mktemp("storage")) as served:
        yield Workplace(served.url, directory)


def test_the_recipes_do_what_they_say(workplace: Workplace) -> None:
    jobs = workplace.directory / "jobs"
    graph = a_document(max_parallelism=8)
    (jobs / "revenue.yaml").write_text(yaml.safe_dump(graph))
    started = workplace.run("headgate apply -f jobs/ && headgate wait revenue --for state=running")
    assert started.returncode == 0, started.stderr

    assert len(recipes()) == len(EXPECTED)
    for number, (script, pattern) in enumerate(zip(recipes(), EXPECTED, strict=True)):
        if number == 2:  # as somebody who has edited the files
            changed = a_document_with("big", where="price > 200") | {"max_parallelism": 8}
            (jobs / "revenue.yaml").write_text(yaml.safe_dump(changed))
            other = a_document_with("out", path="costs") | {"name": "costs"}
            (jobs / "costs.yaml").write_text(yaml.safe_dump(other))
        said = workplace.run(script)
        assert said.returncode == 0, f"{script}\n{said.stdout}\n{said.stderr}"
        assert re.search(pattern, said.stdout), f"{script}\n{said.stdout}\n{said.stderr}"
