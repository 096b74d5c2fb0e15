"""How interest is told over a leaf node link."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from midge.server.links.told import Key


class LeafDialect:
    """The lines LS+ and LS-."""

    names_origins = False

    def began(self, key: Key, weight: int) -> bytes:
        """Write that there is interest, or that a queue group has another weight."""
        subject, queue, _ = key
        if queue is None:
            return b"LS+ %b\r\n" % subject
        return b"LS+ %b %b %d\r\n" % (subject, queue, weight)

    def ended(self, key: Key) -> bytes:
        """Write that interest has ended."""
        subject, queue, _ = key
        if queue is None:
            return b"LS- %b\r\n" % subject
        return b"LS- %b %b\r\n" % (subject, queue)
