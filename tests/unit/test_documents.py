"""What the documents name is there: files that are linked to, and commands of make."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: str(one.relative_to(ROOT)))
def test_every_link_to_a_file_leads_to_one(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", document.read_text())
    files = [link for link in links if "://" not in link]

    assert [link for link in files if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "docs/dashboard.md"])
def test_every_make_command_that_is_named_exists(name: str) -> None:
    named = set(re.findall(r"\bmake ([a-z]+)(?=[ `,)\n])", (ROOT / name).read_text()))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    assert named
    assert named <= targets


def test_the_map_of_the_house_is_that_of_the_house() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    paths = re.findall(r"`((?:jobmanager|taskrunner|tests|docs|web|migrations)/[\w./-]*)`", text)
    packages = {
        f"jobmanager/{path.name}/"
        for path in (ROOT / "jobmanager").iterdir()
        if (path / "__init__.py").exists()
    }

    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert packages <= set(paths)


def test_make_help_lists_every_command_a_developer_types() -> None:
    makefile = (ROOT / "Makefile").read_text()
    told = set(re.findall(r"echo 'make ([a-z]+) ", makefile))

    assert {"demo", "test", "unit", "fix", "lint", "chaos", "setup", "web", "clean"} <= told
