"""The recorded files that a lake's last complete run found: a run without new ones needs no Spark.

`run` lists the files before Spark looks for new ones, and writes the list after all tables are
built. So every file of the list is in the tables, or in the quarantine. A lake or records behind a
URI have no such list.
"""

import json
from pathlib import Path

from midge.pipeline.lake.settings import PipelineSettings
from midge.pipeline.lake.storage import as_path
from midge.pipeline.lake.tables import GOLD
from midge.pipeline.records.format import is_hidden
from midge.version import __version__

FILE = "_taken.json"
"""Its place in the lake."""


def recorded_files(settings: PipelineSettings) -> dict[str, list[int]]:
    """Return size and time of change of every recorded file, by its place among the records."""
    root = Path(settings.records_directory).expanduser()
    found: dict[str, list[int]] = {}
    for path in root.rglob("*"):
        if path.is_file() and not is_hidden(path, root):
            status = path.stat()
            found[str(path.relative_to(root))] = [status.st_size, status.st_mtime_ns]
    return found


def is_complete(settings: PipelineSettings) -> bool:
    """Return whether the lake has all that is recorded, by the list of its last complete run."""
    if "://" in settings.records_directory or "://" in settings.lake_directory:
        return False
    try:
        here = recorded_files(settings)
    except OSError:
        return False
    kept = _kept(settings)
    return (
        kept is not None
        and all(kept.get(place) == about for place, about in here.items())
        and all((_lake(settings) / table.name / "_delta_log").is_dir() for table in GOLD)
    )


def new_bytes(settings: PipelineSettings, files: dict[str, list[int]]) -> int:
    """Return the size of the files that the last complete run did not find."""
    kept = _kept(settings) or {}
    return sum(about[0] for place, about in files.items() if kept.get(place) != about)


def _kept(settings: PipelineSettings) -> dict[str, list[int]] | None:
    """Return the list of this midge's last complete run, None without one."""
    try:
        document = json.loads((_lake(settings) / FILE).read_text(encoding="utf-8"))
        files: dict[str, list[int]] = document["files"]
        return files if document["midge"] == __version__ else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def note_complete(settings: PipelineSettings, files: dict[str, list[int]]) -> None:
    """Write the list of files that a run found before it and has taken, in one step."""
    scratch = _lake(settings) / f".{FILE}.new"
    text = json.dumps({"midge": __version__, "files": files})
    scratch.write_text(text, encoding="utf-8")
    scratch.replace(scratch.with_name(FILE))


def _lake(settings: PipelineSettings) -> Path:
    return Path(as_path(settings.lake_directory)).expanduser()
