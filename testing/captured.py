"""A captured, recorded or stored message."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midge.protocol.errors import MidgeError
from midge.protocol.text import encode
from midge.sublist.subjects import matches

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike


@dataclass(frozen=True, slots=True)
class Captured:
    """One message, published or delivered."""

    subject: str
    payload: bytes
    headers: dict[str, list[str]] = field(default_factory=dict)
    reply: str | None = None
    client: str = ""
    """Name of the client that published or got it; empty for the process itself."""
    deliveries: int = 0
    """Number of subscriptions that have taken it."""
    stream: str = ""
    """Stream of a stored message."""
    seq: int = 0
    """Its sequence in the stream."""

    @property
    def text(self) -> str:
        """The payload as text; bytes that are not UTF-8 are shown as escapes."""
        return self.payload.decode("utf-8", "backslashreplace")

    @property
    def json(self) -> Any:
        """The payload, parsed as JSON. Raises: ValueError."""
        return json.loads(self.payload)


_COLUMNS = ["time", "subject", "reply", "headers", "payload"]


def read_recording(directory: str | PathLike[str], pattern: str = ">") -> Iterator[Captured]:
    """Yield the messages of a recorder's directory on subjects of `pattern`, oldest first.

    Messages on `$` and `_INBOX` subjects, which JetStream and request/reply use internally, are
    left out unless `pattern` begins with one of these.

    Raises:
        MidgeError: the recording does not exist, or pyarrow is missing.
    """
    __tracebackhide__ = True
    rows = _rows(Path(directory) / "messages")
    wanted = encode(pattern)
    is_whole = pattern.startswith(("$", "_INBOX"))
    for row in rows:
        subject = str(row["subject"])
        if not is_whole and subject.startswith(("$", "_INBOX.")):
            continue
        if matches(encode(subject), wanted):
            yield Captured(
                subject=subject,
                payload=row["payload"] or b"",
                headers=dict(row["headers"] or ()),
                reply=row["reply"],
            )


def _rows(folder: Path) -> list[dict[str, Any]]:
    __tracebackhide__ = True
    try:
        import pyarrow.parquet  # noqa: PLC0415 - only tests that start from a recording need it
    except ModuleNotFoundError:
        from midge.extras import install_command  # noqa: PLC0415 - only for this message

        needed = install_command("recorder")
        raise MidgeError(f"a recording cannot be read without pyarrow; {needed}") from None

    paths = [path for path in sorted(folder.rglob("*.parquet")) if not path.name.startswith(".")]
    if not paths:
        raise MidgeError(
            f"there is no recording in {folder.parent}: expected {folder}/**/*.parquet"
        )
    read = pyarrow.parquet.read_table
    rows = [row for path in paths for row in read(path, columns=_COLUMNS).to_pylist()]
    rows.sort(key=lambda row: row["time"])
    return rows
