"""The subjects that are the server's own, which no client may publish to or be answered on.

Their whole first tokens distinguish them: subjects that merely begin alike, such as the
requests to `$JS.API.` and the inboxes in `_INBOX.`, stays on the fast path.

This module is the interpreted twin of ``reserved.pxd``: there the functions are comparisons in C,
which the compiled modules inline.
"""

REPLY_PREFIX = b"_R_."
"""How the reply subjects begin that the server makes for requests to other accounts."""

RESERVED_SUBJECTS = (b"$NRG.", b"_GR_.")
"""How the subjects begin that no client may publish to."""

RESERVED_REPLIES = (REPLY_PREFIX, b"_GR_.", b"$JS.ACK.")
"""How the reply subjects begin that no client may name."""


def is_reserved_subject(data: bytearray, start: int, end: int) -> bool:
    """Return whether no client may publish to the subject in ``data[start:end]``."""
    return data.startswith(RESERVED_SUBJECTS, start, end)


def is_reserved_reply(data: bytearray, start: int, end: int) -> bool:
    """Return whether no client may name the reply subject in ``data[start:end]``."""
    return data.startswith(RESERVED_REPLIES, start, end)


def is_jetstream_request(data: bytearray, start: int, end: int) -> bool:
    """Return whether the subject in ``data[start:end]`` is one of JetStream's API."""
    return data.startswith(b"$JS.API.", start, end)
