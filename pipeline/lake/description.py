"""The description of a lake: the settings that shape its tables, their columns, the versions.

It is kept in the lake as `_lake.json` and compared at every run that adds to the lake: sums over
windows of a minute and of an hour in one table give wrong results without an error.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from midge.pipeline.lake.lake_table import LakeError
from midge.pipeline.lake.settings import PipelineSettings
from midge.pipeline.lake.storage import as_uri
from midge.pipeline.lake.tables import TABLES
from midge.version import __version__

FILE = "_lake.json"
"""Its place in the lake; the underscore hides it from readers of Parquet."""

LAKE_VERSION = 2
"""Goes up by one when equal records and settings give other rows in a table, or other files."""

SHAPING_SETTINGS = (
    "records_directory",
    "prefix_tokens",
    "window_s",
    "late_after_s",
    "request_timeout_s",
)
"""The settings that rows depend on; the others decide how and when the work is done."""

REMEDY = "run it with what it was made with, name another --lake, or make it over with --rebuild"


@dataclass(frozen=True)
class Description:
    """The description of a lake."""

    settings: Mapping[str, Any]
    tables: Mapping[str, str]
    """The columns of each table, as Spark's DDL."""
    versions: Mapping[str, Any]
    """Of the lake, of midge, and of Spark."""

    @property
    def is_old(self) -> bool:
        """Whether the lake has format 1, which a run converts."""
        return self.versions.get("lake") == 1

    @classmethod
    def of(cls, settings: PipelineSettings) -> "Description":
        """Return the description of a lake that is made now with `settings`."""
        import pyspark

        chosen = {name: getattr(settings, name) for name in SHAPING_SETTINGS}
        chosen["records_directory"] = as_uri(settings.records_directory)
        columns = {table.name: table.columns for table in TABLES.values()}
        versions = {"lake": LAKE_VERSION, "midge": __version__, "spark": pyspark.__version__}
        return cls(chosen, columns, versions)

    @classmethod
    def from_json(cls, text: str) -> "Description":
        """Return what `to_json` wrote.

        Raises:
            ValueError: the text is something else.
        """
        document = json.loads(text)
        names = ("settings", "tables", "versions")
        parts = {
            name: part
            for name in names
            if isinstance(document, dict) and isinstance(part := document.get(name), dict)
        }
        if len(parts) < len(names):
            raise ValueError(f"expected objects {', '.join(names)}")
        return cls(**parts)

    def to_json(self) -> str:
        """Return the text of the file."""
        return json.dumps(asdict(self), indent=2) + "\n"


def read_description(lake: str, text: str) -> Description:
    """Return the description in the file of a lake.

    Raises:
        LakeError: the file holds none.
    """
    try:
        return Description.from_json(text)
    except ValueError as error:
        raise LakeError(
            f"{lake}: {FILE} cannot be read ({error}), so what it was made with is unknown; "
            "make it over with --rebuild"
        ) from error


def require_same(lake: str, kept: Description, wanted: Description) -> None:
    """Check that a lake was made with what a run wants to make it with.

    Raises:
        LakeError: it was not; the text names both.
    """
    found = list(_differences(kept, wanted))
    if found:
        was = ", ".join(f"{name} = {old}" for name, old, _ in found)
        now = ", ".join(f"{name} = {new}" for name, _, new in found)
        raise LakeError(f"{lake}: was made with {was}, and this run says {now}; {REMEDY}")


def require_readable(lake: str, kept: Description) -> None:
    """Check that the tables of a lake are those that this midge knows.

    Raises:
        LakeError: they are not; the text names both.
    """
    if kept.is_old:
        raise LakeError(f"{lake}: was filled by an older midge; midge pipeline run converts it")
    columns = {table.name: table.columns for table in TABLES.values()}
    same = Description(kept.settings, columns, {**kept.versions, "lake": LAKE_VERSION})
    require_same(lake, kept, same)


def _differences(kept: Description, wanted: Description) -> Iterator[tuple[str, str, str]]:
    """Yield the name and both values of everything that may not differ."""
    for name in SHAPING_SETTINGS:
        old, new = kept.settings.get(name), wanted.settings.get(name)
        if old != new:
            yield name, repr(old), repr(new)
    old, new = kept.versions.get("lake"), wanted.versions["lake"]
    if old != new and not kept.is_old:
        midges = kept.versions.get("midge"), wanted.versions["midge"]
        yield "lake version", f"{old} (midge {midges[0]})", f"{new} (midge {midges[1]})"
    # Spark reads the checkpoints of its own major version.
    old, new = (str(each.versions.get("spark")) for each in (kept, wanted))
    if old.split(".")[0] != new.split(".")[0]:
        yield "Spark", old, new
    for name in sorted({*kept.tables, *wanted.tables}):
        old, new = (each.tables.get(name, "") for each in (kept, wanted))
        # A run makes a derived table that an older midge did not know.
        is_new = not old and not TABLES[name].is_growing
        if old != new and not is_new:
            yield f"columns of {name}", f"({old})", f"({new})"
