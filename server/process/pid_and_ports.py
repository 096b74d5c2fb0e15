"""The pid file and the ports file, by which other programs find a server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import json

from midge.server.process.names import executable_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def write_pid_file(path: str) -> None:
    """Write this process's id, without a line end, as nats-server does.

    Raises: OSError.
    """
    from pathlib import Path  # noqa: PLC0415 - few servers write any file

    Path(path).write_text(str(os.getpid()), encoding="ascii")


class PortsFile:
    """`<executable>_<pid>.ports` in a directory: the URLs of all listeners as JSON.

    It is written by renaming, so a reader that polls for it never sees a partial file.
    """

    def __init__(self, directory: str) -> None:
        """Set the file's name; nothing is written yet."""
        from pathlib import Path  # noqa: PLC0415 - as above

        self.path = Path(directory) / f"{executable_name()}_{os.getpid()}.ports"

    def write(self, urls: Mapping[str, Sequence[str]], *, is_encrypted: bool = False) -> None:
        """Write the URLs by kind of listener, with nats-server's schemes.

        `is_encrypted` is whether clients speak TLS.

        Raises: OSError.
        """
        schemes = {"nats": "tls" if is_encrypted else "nats", "cluster": "nats"}
        content = {}
        for kind, found in urls.items():
            if found:
                own = found[0].partition("://")[0]
                scheme = schemes.get(kind, own)
                content[kind] = [f"{scheme}://{url.partition('://')[2]}" for url in found]
        partial = self.path.with_name(f".{self.path.name}")
        partial.write_bytes(json.encode(content))
        partial.replace(self.path)

    def remove(self) -> None:
        """Remove the file, if it is there."""
        self.path.unlink(missing_ok=True)
