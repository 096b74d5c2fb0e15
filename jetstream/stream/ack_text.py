"""The text of a plain ack; compiled, it is put together in C, as `ack_text.pxd` says."""

from __future__ import annotations


def plain(head: bytes, seq: int) -> bytes:
    """Return `head`, the digits of `seq` and the brace that ends an ack."""
    return head + b"%d}" % seq
