"""Files of the lake, through whichever file system Spark has for them."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pyarrow import fs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class StoredFile:
    """A file, by its place under the root."""

    place: str
    size_bytes: int
    modified_ms: int


class Storage:
    """The directory `root`, a path or a URI; every place is relative to it, with slashes."""

    def __init__(self, spark: "SparkSession", root: str) -> None:
        self.spark = spark
        self.root = as_uri(root)
        jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no public door to Hadoop's file systems
        self._path_class = jvm.org.apache.hadoop.fs.Path
        self._io_utils = jvm.org.apache.commons.io.IOUtils
        base = self._path_class(self.root)
        self._fs = base.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
        self._qualified_root = self._fs.makeQualified(base).toString().rstrip("/") + "/"

    def uri(self, place: str) -> str:
        """Return the URI of a place."""
        return f"{self.root}/{place}"

    def exists(self, place: str) -> bool:
        """Return whether there is a file or directory."""
        return bool(self._fs.exists(self._path(place)))

    def read_text(self, place: str) -> str:
        """Return all of a small file."""
        stream = self._fs.open(self._path(place))
        try:
            return str(self._io_utils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write_text(self, place: str, text: str) -> None:
        """Write a small file; replace an existing one."""
        stream = self._fs.create(self._path(place), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def delete(self, place: str) -> None:
        """Delete a file, or a directory with its content; not an error if it does not exist."""
        self._fs.delete(self._path(place), True)

    def files(self, place: str) -> Iterator[StoredFile]:
        """Yield the visible files below a directory."""
        listing = self._fs.listFiles(self._path(place), True)
        while listing.hasNext():
            status = listing.next()
            under_root = status.getPath().toString().removeprefix(self._qualified_root)
            below = under_root.removeprefix(place).lstrip("/")
            if not any(part.startswith(("_", ".")) for part in below.split("/")):
                yield StoredFile(under_root, status.getLen(), status.getModificationTime())

    def _path(self, place: str) -> Any:
        return self._path_class(self.uri(place))


def as_uri(root: str | os.PathLike[str]) -> str:
    """Return a path as a `file:` URI with nothing escaped, as Hadoop wants it, a URI as it is."""
    text = os.fspath(root)
    if len(urlsplit(text).scheme) > 1:
        return text.rstrip("/")
    return f"file://{Path(text).expanduser().absolute()}"


def as_path(uri: str) -> str:
    """Return a `file:` URI as a bare path, whichever way it is spelled, and any other as it is."""
    if uri.startswith("file:"):
        return "/" + uri.removeprefix("file:").strip("/")
    return uri.rstrip("/")


def arrow_file_system(uri: str) -> tuple[fs.FileSystem, str]:
    """Return Arrow's file system for a URI of Hadoop, and the path in it."""
    path = as_path(uri)
    if "://" not in path:
        return fs.LocalFileSystem(), path
    # Hadoop and Arrow call the same store by two names.
    system, place = fs.FileSystem.from_uri(path.replace("s3a://", "s3://", 1))
    return system, place
