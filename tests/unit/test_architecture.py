"""The lists of files in docs/architecture.md name files that are there, and stay short."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST = {"A submission": 37, "A checkpoint": 23, "A rescale": 29, "kill -9": 23}


def ways() -> dict[str, list[str]]:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    section = text.split("## Four ways through the code")[1].split("\n## ")[0]
    parts = re.split(r"^\*\*(.+?)\*\*$", section, flags=re.MULTILINE)[1:]
    return {
        title: re.findall(r"^\d+\. `(.+?)`", listed, flags=re.MULTILINE)
        for title, listed in zip(parts[::2], parts[1::2], strict=True)
    }


@pytest.mark.parametrize("name", MOST)
def test_a_way_through_the_code_is_short_and_its_files_are_there(name: str) -> None:
    (files,) = [files for title, files in ways().items() if title.startswith(name)]

    assert 10 < len(files) <= MOST[name]
    assert len(set(files)) == len(files)
    assert [file for file in files if not (ROOT / file).is_file()] == []
