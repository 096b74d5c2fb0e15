"""The conventions of NATS clients for key-value buckets: names, subjects, headers and limits.

A bucket is the stream `KV_<bucket>`, a key is the subject `$KV.<bucket>.<key>`, and a revision is a
sequence. Deleting and purging leave a marker with the header `KV-Operation`. The server leaves one
with `Nats-Marker-Reason` when a key expires. The server's own key-value interface, the commands and
the test fixtures follow these conventions; none of them is enforced by a server.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

STREAM_PREFIX: Final = "KV_"
PUT, DELETE, PURGE = "PUT", "DEL", "PURGE"
OPERATION: Final = "KV-Operation"
MARKER_REASON: Final = "Nats-Marker-Reason"
WRONG_SEQUENCES: Final = (10071, 10164)
"""JetStream's `err_code`s when a key is at another revision than the expected one."""

KEY: Final = re.compile(r"[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*")
"""The keys that all clients accept."""

_OF_REASON = {"Remove": DELETE, "MaxAge": PURGE, "Purge": PURGE}


def stream_of(bucket: str) -> str:
    """Return the name of the stream that stores a bucket."""
    return STREAM_PREFIX + bucket


def subject_of(bucket: str, key: str = "") -> str:
    """Return the subject of a key or pattern; without one, the beginning of all subjects."""
    return f"$KV.{bucket}.{key}"


def stream_settings(history: int) -> dict[str, Any]:
    """Return the settings of the stream of a bucket that keeps `history` values of each key."""
    return {
        "discard": "new",
        "max_msgs_per_subject": history,
        "allow_rollup_hdrs": True,
        "deny_delete": True,
        "allow_direct": True,
    }


def marker_headers(*, purges: bool) -> dict[str, str]:
    """Return the headers of a marker that deletes a key, with its history if it `purges`."""
    return {OPERATION: PURGE, "Nats-Rollup": "sub"} if purges else {OPERATION: DELETE}


def expected_revision(revision: int) -> dict[str, str]:
    """Return the headers of a message that is stored only if `revision` is its key's last one."""
    return {"Nats-Expected-Last-Subject-Sequence": str(revision)}


def operation_of(headers: Mapping[str, list[str]]) -> str:
    """Return `PUT`, `DEL` or `PURGE`, from the headers of an entry."""
    if named := headers.get(OPERATION, [""])[0]:
        return named
    return _OF_REASON.get(headers.get(MARKER_REASON, [""])[0], PUT)
