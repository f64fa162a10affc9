"""The disk of a world: it can be filled, and it can lose power.

It is an ext4 file system in a file, where this user may mount one. What has not reached that file
is only in memory: a copy of the file is exactly what a machine finds after a power cut. Names that
were not synced are gone, files that were not synced are gone, empty or short, by the file system's
own rules. The journal is written by syncs only (`commit=300`), so that the file does not change
while all processes are frozen and the copy is made.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_BYTES = 2 * 1024**3
_MEMORY_BYTES = 512 * 1024**2


@dataclass(frozen=True, slots=True)
class Losses:
    """What a power cut has done to files, by their paths inside the disk."""

    gone: Sequence[str]
    emptied: Sequence[str]
    shortened: Sequence[str]

    def __str__(self) -> str:
        counts = f"{len(self.gone)} gone, {len(self.emptied)} empty, {len(self.shortened)} short"
        return f"files not on disk: {counts}"


class Disk:
    """A directory that cannot be harmed: what there is where nothing can be mounted."""

    can_be_filled = False
    can_lose_power = False

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self) -> None:
        """Takes every byte that is free. May be repeated."""
        with self._ballast.open("ab") as file:
            free = os.statvfs(self._ballast)
            wanted = free.f_bavail * free.f_frsize
            while wanted > 0:
                try:
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), wanted)
                    return
                except OSError:
                    wanted //= 2

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)

    @property
    def _ballast(self) -> Path:
        return self.path / "ballast"

    def unmount(self) -> None:
        """The directory is there; what was on the disk is not."""


class MemoryDisk(Disk):
    """tmpfs: it can be filled."""

    can_be_filled = True

    def unmount(self) -> None:
        _run("umount", "--lazy", str(self.path))


class ImageDisk(MemoryDisk):
    """ext4 in a file: it can lose power too."""

    can_lose_power = True

    def __init__(self, path: Path, image: Path) -> None:
        super().__init__(path)
        self._image = image
        self._before: dict[str, int] = {}

    def mount(self) -> bool:
        return _run("mount", "-o", "loop,commit=300", str(self._image), str(self.path))

    def lose_power(self) -> None:
        """The disk as it is now is what will be found. All processes that use it are frozen."""
        self._before = self._sizes()
        _must("cp", "--sparse=always", str(self._image), f"{self._image}.found")

    def find_again(self) -> Losses:
        """The machine is up again. All processes that used the disk have been killed."""
        self.unmount()
        Path(f"{self._image}.found").replace(self._image)
        assert self.mount(), f"{self._image} cannot be mounted after a power cut"
        found = self._sizes()
        return Losses(
            gone=sorted(self._before.keys() - found.keys()),
            emptied=[n for n, size in self._before.items() if size and found.get(n) == 0],
            shortened=[n for n, size in self._before.items() if 0 < found.get(n, size) < size],
        )

    def _sizes(self) -> dict[str, int]:
        files = [Path(at) / name for at, _, names in os.walk(self.path) for name in names]
        return {str(one.relative_to(self.path)): one.lstat().st_size for one in files}


@contextmanager
def a_disk(path: Path, image: Path) -> Iterator[Disk]:
    """The best disk that this user may have, mounted at `path`."""
    disk = _mounted(path, image)
    try:
        yield disk
    finally:
        disk.unmount()


def _mounted(path: Path, image: Path) -> Disk:
    path.mkdir(parents=True)
    with image.open("wb") as file:
        file.truncate(_BYTES)
    on_image = ImageDisk(path, image)
    if _run("mkfs.ext4", "-q", "-F", "-m", "0", str(image)) and on_image.mount():
        return on_image
    options = ["-t", "tmpfs", "-o", f"size={_MEMORY_BYTES}", "headgate-chaos", str(path)]
    return MemoryDisk(path) if _run("mount", *options) else Disk(path)


def _run(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:  # there is no such program
        return False


def _must(*command: str) -> None:
    subprocess.run(command, capture_output=True, check=True)
