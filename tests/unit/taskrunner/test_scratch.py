"""A directory that nobody keeps is gone, even if Spark still writes a last file into it."""

import threading
from pathlib import Path

from taskrunner.inspector import scratch


def test_what_is_written_while_it_is_deleted_is_deleted_too(tmp_path: Path) -> None:
    directory = tmp_path / "scratch"
    deep = directory / "state" / "0" / "0"
    deep.mkdir(parents=True)
    started = threading.Event()

    def write() -> None:
        for number in range(2_000):
            try:
                (deep / f"{number}.delta").touch()
            except FileNotFoundError:
                break
            started.set()

    writer = threading.Thread(target=write)
    writer.start()
    started.wait()
    scratch.delete(directory)
    writer.join()
    assert not directory.exists()
