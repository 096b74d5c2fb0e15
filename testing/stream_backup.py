"""Write and restore backups of streams, as `midge stream backup` and the `nats` command do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midge.protocol.errors import MidgeError

if TYPE_CHECKING:
    from os import PathLike

    from midge.testing.stream_api import Api

_METADATA_NAME = "backup.json"
_DATA_NAME = "stream.tar.s2"
_CHUNK_BYTES = 128 * 1024


def backup(api: Api, name: str, directory: str | PathLike[str]) -> None:
    """Write a backup of a stream with its consumers. Raises: MidgeError if the directory exists."""
    __tracebackhide__ = True
    folder = Path(directory)
    if folder.exists():
        raise MidgeError(f"{folder}: exists already")
    answer, data = api.snapshot(name)
    folder.mkdir(parents=True)
    kept = {"config": answer["config"], "state": answer["state"]}
    (folder / _METADATA_NAME).write_text(json.dumps(kept, indent=2), encoding="utf-8")
    (folder / _DATA_NAME).write_bytes(data)


def restore(api: Api, name: str, directory: str | PathLike[str], changes: dict[str, Any]) -> None:
    """Make the stream `name` of a backup, its configuration changed by `changes`.

    Raises:
        MidgeError: the backup does not exist, or cannot be restored with these changes.
    """
    __tracebackhide__ = True
    folder = Path(directory)
    try:
        kept = json.loads((folder / _METADATA_NAME).read_text(encoding="utf-8"))
        data = (folder / _DATA_NAME).read_bytes()
    except (OSError, ValueError) as error:
        raise MidgeError(f"there is no backup in {folder}: {error}") from None
    config = {**kept["config"], **changes, "name": name}
    answer = api.ask(f"STREAM.RESTORE.{name}", {"config": config, "state": kept["state"]})
    for start in range(0, len(data), _CHUNK_BYTES):
        api.request(answer["deliver_subject"], data[start : start + _CHUNK_BYTES])
    api.request(answer["deliver_subject"], b"")
