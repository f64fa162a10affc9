"""The file operations of a files sink on `hdfs:` and `s3a:`.

Hadoop's clients in the driver's JVM do them, so the driver and the executors have the same settings
and credentials. HDFS renames a file in one step. An object store copies it and then deletes the old
name: after a crash both may be there, with the same content, and the next process finishes the
deletion.
"""

import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import PurePath, PurePosixPath
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from jobmanager.core.graph.connectors.files import FilesSink
from jobmanager.core.graph.file_format import FileFormat
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.paths.location import Location, remote_location
from jobmanager.core.snapshots.layout import temporary_name
from jobmanager.files.storage_port import StoreFailed
from taskrunner.sinks.output_files import LOCAL, FilePart, FilesOf, NoFooter, OutputFiles, Place

_MISSING = "java.io.FileNotFoundException"
_TAKEN = "org.apache.hadoop.fs.FileAlreadyExistsException"
_REFUSED = (
    "org.apache.hadoop.security.AccessControlException",
    "java.nio.file.AccessDeniedException",
)
_BUFFER = 1 << 20
_MOST_WORDS = 500
_OBJECT_STORES = ("s3a",)


def files_of(spark: SparkSession, sinks: Sequence[Sink]) -> FilesOf:
    """The operations on the directories of these sinks, with the settings in their options."""
    options = {
        place: one.options
        for one in sinks
        if isinstance(one.connector, FilesSink)
        if (place := remote_location(one.connector.path)) is not None
    }

    def of(place: Place) -> OutputFiles:
        if not isinstance(place, Location):
            return LOCAL
        return open_files(spark, place, options.get(place, {}))

    return of


def open_files(spark: SparkSession, place: Location, options: Mapping[str, str]) -> OutputFiles:
    """The operations on the file system that has this directory. Raises `OSError`."""
    kind = ObjectStoreFiles if place.scheme in _OBJECT_STORES else HadoopFiles
    return kind(spark, place, options)


class HadoopFiles:
    """A remote file system with directories and with renames in one step: HDFS."""

    def __init__(self, spark: SparkSession, place: Location, options: Mapping[str, str]) -> None:
        self._jvm = _any(spark._jvm)
        self._gateway: Any = spark.sparkContext._gateway
        self._root = f"{place.scheme}://{place.authority}"
        session: Any = spark._jsparkSession
        self._settings = session.sessionState().newHadoopConf()
        for name, value in options.items():
            self._settings.set(name, value)  # as Spark does with the options of a reader or writer
        with _calling(self._root):
            root = self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/")
            self._store = root.getFileSystem(self._settings)

    def uri(self, path: PurePath) -> str:
        return f"{self._root}{path}"

    def shown(self, path: PurePath) -> str:
        return self.uri(path)

    def size(self, path: PurePath) -> int | None:
        status = self._status(path)
        return int(status.getLen()) if status is not None and status.isFile() else None

    def is_directory(self, path: PurePath) -> bool:
        status = self._status(path)
        return status is not None and bool(status.isDirectory())

    def names(self, directory: PurePath) -> list[str]:
        with suppress(FileNotFoundError), _calling(self.uri(directory)):
            found = self._store.listStatus(self._path(directory))
            return sorted(str(one.getPath().getName()) for one in found)
        return []

    def files_below(self, directory: PurePath) -> Mapping[PurePosixPath, int]:
        found: dict[PurePosixPath, int] = {}
        with suppress(FileNotFoundError), _calling(self.uri(directory)):
            statuses = self._store.listFiles(self._path(directory), True)
            while statuses.hasNext():
                status = statuses.next()
                path = PurePosixPath(status.getPath().toUri().getPath())
                found[path.relative_to(directory)] = int(status.getLen())
        return dict(sorted(found.items()))

    def read(self, path: PurePath) -> str:
        with _calling(self.uri(path)), closing(self._store.open(self._path(path))) as stream:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))

    def read_part(self, path: PurePath, first: int, size: int) -> bytes:
        with _calling(self.uri(path)):
            left = int(self._store.getFileStatus(self._path(path)).getLen()) - first
            with closing(self._store.open(self._path(path))) as stream:
                stream.seek(first)
                wanted = max(0, min(size, left))
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream, wanted))

    def count_rows(self, path: PurePath, file_format: FileFormat) -> int:
        apache = self._jvm.org.apache
        try:
            if file_format is FileFormat.PARQUET:
                named = apache.parquet.hadoop.util.HadoopInputFile.fromPath(
                    self._path(path), self._settings
                )
                with closing(apache.parquet.hadoop.ParquetFileReader.open(named)) as reader:
                    return int(reader.getRecordCount())
            options = apache.orc.OrcFile.readerOptions(self._settings)
            with closing(apache.orc.OrcFile.createReader(self._path(path), options)) as reader:
                return int(reader.getNumberOfRows())
        except Py4JJavaError as error:
            raise NoFooter(_told(error)) from None

    def can_rename_into(self, directory: PurePath) -> bool:
        name = f".headgate-{uuid4().hex}"
        beside, inside = directory.parent / name, directory / name
        try:
            self._put(beside, "", replaces=False)
            self.rename(beside, inside)
        except PermissionError:
            return False
        finally:
            for one in (beside, inside):
                with suppress(OSError):
                    self.delete(one)
        return True

    def make_directory(self, path: PurePath) -> None:
        with _calling(self.uri(path)):
            self._store.mkdirs(self._path(path))

    def create(self, path: PurePath, text: str) -> bool:
        temporary = self._write_aside(path, text)
        with _calling(self.uri(path)):
            is_created = bool(self._store.rename(self._path(temporary), self._path(path)))
        if not is_created:
            self.delete(temporary)
            if self.size(path) is None:
                raise StoreFailed(f"{self.uri(path)} could not be created")
        return is_created

    def write(self, path: PurePath, text: str) -> None:
        self.rename(self._write_aside(path, text), path)

    def rename(self, before: PurePath, after: PurePath) -> None:
        kind = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
        options = self._gateway.new_array(kind, 1)
        options[0] = kind.OVERWRITE
        with _calling(self.uri(before)):
            self._store.rename(self._path(before), self._path(after), options)

    def publish(self, staged: PurePath, final: PurePath) -> None:
        self.rename(staged, final)

    def concatenate(self, parts: Iterable[FilePart], target: PurePath) -> None:
        """A stream that failed is not closed, as in `_put`."""
        copy = self._jvm.org.apache.hadoop.io.IOUtils.copyBytes
        with _calling(self.uri(target)):
            joined = self._store.create(self._path(target), False)
            for part in parts:
                with closing(self._store.open(self._path(part.path))) as stream:
                    stream.seek(part.first)
                    copy(stream, joined, _BUFFER, False)
            joined.close()

    def sync_files(self, paths: Iterable[PurePath], inside: PurePath) -> None:
        """A closed file is as durable as the file system makes it."""

    def sync(self, directory: PurePath) -> None:
        """A name is durable when the operation that made it has returned."""

    def delete(self, path: PurePath) -> None:
        with suppress(FileNotFoundError), _calling(self.uri(path)):
            self._store.delete(self._path(path), False)

    def discard(self, directory: PurePath) -> None:
        with suppress(OSError), _calling(self.uri(directory)):
            self._store.delete(self._path(directory), True)

    def _path(self, path: PurePath) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.uri(path))

    def _status(self, path: PurePath) -> Any:
        """What the file system says of a file or directory; None: it does not exist."""
        with suppress(FileNotFoundError), _calling(self.uri(path)):
            return self._store.getFileStatus(self._path(path))
        return None

    def _write_aside(self, path: PurePath, text: str) -> PurePath:
        temporary = path.with_name(temporary_name(path.name, uuid4().hex))
        self._put(temporary, text, replaces=False)
        return temporary

    def _put(self, path: PurePath, text: str, *, replaces: bool) -> None:
        """A stream that failed is not closed: to close it would publish a part of an object."""
        with _calling(self.uri(path)):
            stream = self._store.create(self._path(path), replaces)
            stream.write(bytearray(text.encode()))
            if stream.hasCapability("hsync"):
                stream.hsync()
            stream.close()


class ObjectStoreFiles(HadoopFiles):
    """A store of objects: an object appears when its upload is complete, directories are only parts
    of names, and a rename is a copy and a deletion.
    """

    def can_rename_into(self, directory: PurePath) -> bool:
        return True

    def make_directory(self, path: PurePath) -> None:
        """There are none."""

    def create(self, path: PurePath, text: str) -> bool:
        if self.size(path) is not None:
            return False
        try:
            self._put(path, text, replaces=False)
        except FileExistsError:
            return False
        return True

    def write(self, path: PurePath, text: str) -> None:
        self._put(path, text, replaces=True)

    def rename(self, before: PurePath, after: PurePath) -> None:
        there = self.size(after)
        if there is not None and there == self.size(before):
            self.delete(before)  # an earlier process copied it, and died before the deletion
            return
        if there is not None:
            self.delete(after)
        with _calling(self.uri(before)):
            if not self._store.rename(self._path(before), self._path(after)):
                raise StoreFailed(f"{self.uri(before)} could not be renamed to {self.uri(after)}")


def _any(value: Any) -> Any:
    """For objects of the JVM, whose methods only the JVM knows."""
    return value


@contextmanager
def _calling(name: str) -> Iterator[None]:
    """Turns an exception of the JVM into an `OSError` that names the file."""
    try:
        yield
    except Py4JJavaError as error:
        kinds = list(_classes_of(error))
        if _MISSING in kinds:
            raise FileNotFoundError(errno.ENOENT, _told(error), name) from None
        if _TAKEN in kinds:
            raise FileExistsError(errno.EEXIST, _told(error), name) from None
        if any(one in kinds for one in _REFUSED):
            raise PermissionError(errno.EACCES, _told(error), name) from None
        raise StoreFailed(f"{name}: {_told(error)}") from error


def _classes_of(error: Py4JJavaError) -> Iterator[str]:
    """The names of the exception's class and of the classes that it extends."""
    kind = error.java_exception.getClass()
    while kind is not None:
        yield str(kind.getName())
        kind = kind.getSuperclass()


def _told(error: Py4JJavaError) -> str:
    """What the exception says, without the stack."""
    return " ".join(str(error.java_exception.toString()).split())[:_MOST_WORDS]
