"""Ships the artifacts of a job to its driver and to the Python workers, which import them.

Each artifact is shipped as a zip whose name is its hash (a single module gets a zip of its own), so
that two versions of a module never share a name. In a session that had other artifacts before:

* the driver unloads them and their modules, so that a later import finds nothing old;
* new workers are started: Spark reuses a Python worker only for the same environment, and
  `HEADGATE_ARTIFACTS` in it names the artifacts.
"""

import atexit
import importlib
import shutil
import sys
import zipfile
from collections.abc import Iterable, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from jobmanager.core.ids import ArtifactId
from jobmanager.files.artifacts import ArtifactShelf

_ENVIRONMENT = "HEADGATE_ARTIFACTS"
_EPOCH = (1980, 1, 1, 0, 0, 0)


class MissingArtifact(Exception):
    """An artifact that the job names is not in storage."""


class Shipped:
    """The artifacts that this process can import, and that its Spark context knows."""

    def __init__(self) -> None:
        self._context: SparkContext | None = None
        self._paths: dict[ArtifactId, Path] = {}

    def become(self, spark: SparkSession, storage: Path, wanted: Sequence[str]) -> None:
        """Makes only these artifacts importable from now on. Raises `MissingArtifact`."""
        context = spark.sparkContext
        ids = [ArtifactId(one) for one in wanted]
        if self._context is context and list(self._paths) == ids:
            return
        self._forget()
        self._context = context
        if ids:
            self._add(context, ArtifactShelf(storage), ids)
            importlib.invalidate_caches()

    def forget(self) -> None:
        """Makes no artifact importable any more."""
        self._forget()
        self._context = None

    def _add(self, context: SparkContext, shelf: ArtifactShelf, ids: Iterable[ArtifactId]) -> None:
        for one in ids:
            packed = _packed(shelf, one, self._home)
            context.addPyFile(str(packed))
            self._paths[one] = packed
        named = sha256(" ".join(self._paths).encode()).hexdigest()
        context.environment[_ENVIRONMENT] = named

    @cached_property
    def _home(self) -> Path:
        """The directory of the zips, kept until the process ends: executors fetch from it, and
        Spark never changes the path of a file name.
        """
        home = Path(mkdtemp(prefix="headgate-artifacts-"))
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        return home

    def _forget(self) -> None:
        names = {path.name for path in self._paths.values()}
        self._paths = {}
        if not names:
            return
        sys.path[:] = [one for one in sys.path if Path(one).name not in names]
        for name, module in list(sys.modules.items()):
            if _is_from(module, names):
                del sys.modules[name]
        if self._context is not None:
            includes = self._context._python_includes or []
            includes[:] = [one for one in includes if Path(one).name not in names]
            self._context.environment.pop(_ENVIRONMENT, None)


shipped = Shipped()
"""One for the process: imports belong to the process, not to a session."""


def _packed(shelf: ArtifactShelf, artifact_id: ArtifactId, home: Path) -> Path:
    try:
        source = shelf.path_of(artifact_id)
    except OSError as error:
        raise MissingArtifact(str(error)) from error
    target = home / f"{artifact_id}.zip"
    if target.exists():
        return target
    if source.suffix == ".py":
        with zipfile.ZipFile(target, "w") as archive:
            archive.writestr(zipfile.ZipInfo(source.name, _EPOCH), source.read_bytes())
    else:
        shutil.copyfile(source, target)
    return target


def _is_from(module: Any, zips: set[str]) -> bool:
    origin = getattr(module, "__file__", None)
    places = [origin] if isinstance(origin, str) else list(getattr(module, "__path__", ()))
    return any(not zips.isdisjoint(Path(place).parts) for place in map(str, places))
