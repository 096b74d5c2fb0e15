"""A set of subject patterns for permissions, which answers whether any matches or covers a subject.

The patterns are in a trie that is built once and never changes. A query costs the depth of the
subject, not the number of patterns; it visits each node at most once, however many wildcards there
are. The subject's tokens are looked up in place, without a copy. See `midge.sublist.subjects` for
the rules of a subject.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.sublist import octets
from midge.sublist.subjects import has_empty_token, is_valid_subject

if TYPE_CHECKING:
    from collections.abc import Iterable

_DOT = 0x2E
_GREATER = 0x3E
_FEWEST_SLOTS = 4

SubjectQueue = tuple[bytes, "bytes | None"]
"""A subject pattern, and the pattern of its queue groups, or None for all."""


def split_subject_queue(where: str, text: str) -> SubjectQueue:
    """Read a ``subject`` or ``subject queue`` entry of the list called `where`.

    Raises:
        ValueError: there are more parts, or a part is not a valid subject.
    """
    parts = [part.encode() for part in text.split()]
    if len(parts) not in {1, 2} or not all(is_valid_subject(part) for part in parts):
        raise ValueError(f"{where}: expected a subject or 'subject queue', got {text!r}")
    return parts[0], parts[1] if len(parts) == 2 else None


class PatternSet:
    """Patterns, each for all queue groups or for some; immutable.

    `steps` counts the nodes that queries have visited, so that the caller can be charged.
    """

    __slots__ = ("_root", "_size", "steps")

    def __init__(self, patterns: Iterable[SubjectQueue]) -> None:
        """Build the trie of `patterns`, which must be valid."""
        self._root = _Node(b"")
        self._size = 0
        self.steps = 0
        queues: dict[_Node, list[SubjectQueue]] = {}
        for subject, queue in patterns:
            node = self._root
            for token in subject.split(b"."):
                node = node.ensure(token)
            if queue is None:
                node.is_plain = True
            else:
                queues.setdefault(node, []).append((queue, None))
            self._size += 1
        for node, names in queues.items():
            node.queues = PatternSet(names)

    def __len__(self) -> int:
        """Return the number of patterns."""
        return self._size

    def matches(self, subject: bytes) -> bool:
        """Return whether a pattern for all queue groups matches `subject`, read as a literal."""
        return self._find(subject, False, None)

    def covers(self, subject: bytes) -> bool:
        """Return whether a pattern for all queue groups covers `subject`."""
        return self._find(subject, True, None)

    def matching_queues(self, subject: bytes) -> list[PatternSet]:
        """List the queue parts of the patterns that match `subject`, read as a literal."""
        found: list[PatternSet] = []
        self._find(subject, False, found)
        return found

    def covering_queues(self, subject: bytes) -> list[PatternSet]:
        """List the queue parts of the patterns that cover `subject`."""
        found: list[PatternSet] = []
        self._find(subject, True, found)
        return found

    def _find(self, subject: bytes, whole: bool, queues: list[PatternSet] | None) -> bool:  # noqa: C901 - one scan loop
        """Return whether a plain pattern matches or, with `whole`, covers `subject`.

        With `queues`, all nodes are visited, and the queue parts of the matching patterns are added
        to it. Only ``>`` covers ``>``; ``*`` also matches a literal token that looks like ``>``. No
        pattern matches or covers a subject with an empty token.
        """
        length = len(subject)
        if self._size == 0 or length == 0 or has_empty_token(subject):
            return False
        data = subject
        others: list[tuple[_Node, int]] | None = None  # few subjects have wildcards
        is_plain = False
        node: _Node | None = self._root
        start = 0
        while node is not None:
            self.steps += 1
            end = start
            while end < length and data[end] != _DOT:
                end += 1
            is_last = end == length
            fwc = node.fwc
            if fwc is not None:
                is_plain = is_plain or fwc.is_plain
                fwc.add_queues(queues)
            one = two = None
            if not (whole and is_last and end == start + 1 and data[start] == _GREATER):
                one = node.pwc
                two = node.find(data, start, end)
            if is_last:
                if one is not None:
                    is_plain = is_plain or one.is_plain
                    one.add_queues(queues)
                if two is not None:
                    is_plain = is_plain or two.is_plain
                    two.add_queues(queues)
                one = two = None
            if is_plain and queues is None:
                return True
            if two is None:
                node = one
            else:
                node = two
                if one is not None:
                    if others is None:
                        others = []
                    others.append((one, end + 1))
            start = end + 1
            if node is None and others:
                node, start = others.pop()
        return is_plain


class _Node:
    """A node for one token of the patterns.

    `is_plain` and `queues` hold the patterns that end here; the next tokens are in `pwc`, in `fwc`,
    and in a table of literal tokens: open addressing, at most half full.
    """

    __slots__ = ("_count", "_table", "fwc", "is_plain", "pwc", "queues", "token")

    def __init__(self, token: bytes) -> None:
        self.token = token
        self.is_plain = False
        self.queues: PatternSet | None = None
        self.pwc: _Node | None = None
        self.fwc: _Node | None = None
        self._table: list[_Node | None] = []
        self._count = 0

    def find(self, data: bytes, start: int, end: int) -> _Node | None:
        """Return the node of the literal token in ``data[start:end]``."""
        table = self._table
        if not table:
            return None
        most = len(table) - 1
        place = octets.digest(data, start, end) & most
        while True:
            node = table[place]
            if node is None or octets.equals(node.token, data, start, end):
                return node
            place = (place + 1) & most

    def ensure(self, token: bytes) -> _Node:
        """Return the node of `token`; make it if there is none."""
        if token == b"*":
            self.pwc = self.pwc or _Node(token)
            return self.pwc
        if token == b">":
            self.fwc = self.fwc or _Node(token)
            return self.fwc
        node = self.find(token, 0, len(token))
        if node is None:
            node = _Node(token)
            self._count += 1
            self._put(node)
        return node

    def add_queues(self, queues: list[PatternSet] | None) -> None:
        """Add the queue parts of the patterns that end here to `queues`, unless it is None."""
        if queues is not None and self.queues is not None:
            queues.append(self.queues)

    def _put(self, node: _Node) -> None:
        """Insert `node`, whose token is not in the table yet."""
        present = [known for known in self._table if known is not None]
        if 2 * self._count > len(self._table):
            self._table = [None] * max(2 * len(self._table), _FEWEST_SLOTS)
        else:
            present = []
        for known in (*present, node):
            place = octets.digest(known.token, 0, len(known.token)) & (len(self._table) - 1)
            while self._table[place] is not None:
                place = (place + 1) & (len(self._table) - 1)
            self._table[place] = known
