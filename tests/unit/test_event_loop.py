"""Nothing that blocks is called on the event loop: a large directory there costs the lease."""

from pathlib import Path

import pytest

import jobmanager
from tests.unit.blocking_calls import blocking_calls

ROOT = Path(jobmanager.__file__).parent
_BLOCKS = """
import asyncio, shutil

async def first(path):
    shutil.rmtree(path)

async def second(path):
    _look(path)

def _look(path):
    for one in path.iterdir():
        _look(one)

class Third:
    async def run(self):
        self._tidy()

    def _tidy(self):
        self.path.write_text("")
"""
_HANDS_OVER = """
import asyncio, shutil

async def first(path):
    await asyncio.to_thread(shutil.rmtree, path)

async def second(path):
    await asyncio.to_thread(lambda: shutil.rmtree(path))

async def third(path):
    def work():
        shutil.rmtree(path)
    await asyncio.to_thread(work)

def fourth(path):
    shutil.rmtree(path)
"""


def test_no_async_function_of_the_jobmanager_blocks() -> None:
    found = [
        str(call)
        for path in sorted(ROOT.rglob("*.py"))
        for call in blocking_calls(path, path.relative_to(ROOT.parent).as_posix())
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            _BLOCKS,
            [
                ("first", "shutil.rmtree"),
                ("second", "path.iterdir"),
                ("run", "self.path.write_text"),
            ],
        ),
        (_HANDS_OVER, []),
    ],
    ids=["blocks", "hands over"],
)
def test_calls_that_block_are_found(
    tmp_path: Path, text: str, expected: list[tuple[str, str]]
) -> None:
    module = tmp_path / "module.py"
    module.write_text(text)
    found = [(one.function, one.call) for one in blocking_calls(module, "module.py")]
    assert found == expected
