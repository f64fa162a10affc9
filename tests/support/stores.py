"""An fsspec store in this process that counts calls and fails on request: `moody:`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

SCHEME = "moody"


class StoreIsFull(OSError):
    pass


class MoodyStore(MemoryFileSystem):  # type: ignore[misc]
    """Keeps files in memory, writes down what was uploaded and read, and fails when told to."""

    protocol = SCHEME
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    uploads: ClassVar[list[str]] = []
    reads: ClassVar[list[str]] = []
    fails_at: ClassVar[int | None] = None
    """The upload, counted from now on, that breaks off in its middle, with all after it."""

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return super()._strip_protocol(str(path).removeprefix(f"{SCHEME}://"))

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        if mode == "rb":
            self.reads.append(path)
            return super()._open(path, mode, **kwargs)
        if MoodyStore.fails_at is not None:
            MoodyStore.fails_at -= 1
            if MoodyStore.fails_at < 0:
                data = kwargs.pop("data", None)
                broken = _Broken(self, path)
                broken.commit()
                if data is not None:
                    broken.write(data)
                return broken
        self.uploads.append(path)
        return super()._open(path, mode, **kwargs)


class _Broken(MemoryFile):  # type: ignore[misc]
    def write(self, data: bytes) -> int:
        super().write(data[: len(data) // 2])
        raise StoreIsFull("the store is full")


fsspec.register_implementation(SCHEME, MoodyStore, clobber=True)


def forget() -> None:
    """An empty store, and nothing written down."""
    MoodyStore.store.clear()
    MoodyStore.uploads.clear()
    MoodyStore.reads.clear()
    MoodyStore.fails_at = None


@contextmanager
def failing(after: int) -> Iterator[None]:
    """The store takes so many uploads more, and no other."""
    MoodyStore.fails_at = after
    try:
        yield
    finally:
        MoodyStore.fails_at = None


def uploaded() -> list[str]:
    """The names that were uploaded since the last time."""
    names = [path.rpartition("/")[2] for path in MoodyStore.uploads]
    MoodyStore.uploads.clear()
    return names
