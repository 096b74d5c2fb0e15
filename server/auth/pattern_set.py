"""A set of subject patterns, asked as a whole: is this subject matched, is that one covered.

What permissions, exports and mappings are looked up in. The patterns stand in a trie that is
built once and never changes, so a question costs the depth of the subject, not the number of
patterns; it visits each node at most once, however many wildcards there are. See
`midge.sublist.subjects` for the rules of a subject.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.sublist.subjects import is_valid_subject

if TYPE_CHECKING:
    from collections.abc import Iterable

SubjectQueue = tuple[bytes, "bytes | None"]
"""A subject pattern, and the pattern of queue groups it is for, or None when it is for all."""


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
    """Hold patterns, each for all queue groups or for some; immutable."""

    def __init__(self, patterns: Iterable[SubjectQueue]) -> None:
        """Take valid `patterns`."""
        self._root = _Node()
        self._size = 0
        for subject, queue in patterns:
            node = self._root
            for token in subject.split(b"."):
                node = node.next.setdefault(token, _Node())
            if queue is None:
                node.plain = True
            else:
                node.queues = (*node.queues, queue)
            self._size += 1

    def __len__(self) -> int:
        """Return the number of patterns."""
        return self._size

    def matches(self, subject: bytes) -> bool:
        """Tell whether a pattern for all queue groups matches `subject`, taken as a literal."""
        return self._size != 0 and any(node.plain for node in self._find(subject, False))

    def covers(self, subject: bytes) -> bool:
        """Tell whether a pattern for all queue groups stands for all that `subject` stands for."""
        return self._size != 0 and any(node.plain for node in self._find(subject, True))

    def matching_queues(self, subject: bytes) -> list[bytes]:
        """List the queue parts of the patterns that match `subject`, taken as a literal."""
        return [queue for node in self._find(subject, False) for queue in node.queues]

    def covering_queues(self, subject: bytes) -> list[bytes]:
        """List the queue parts of the patterns that cover `subject`."""
        return [queue for node in self._find(subject, True) for queue in node.queues]

    def _find(self, subject: bytes, whole: bool) -> list[_Node]:
        """List the nodes where patterns that match, or with `whole` cover, `subject` end.

        Only ``>`` covers ``>``; a literal token that looks like it is matched by ``*`` as well. A
        subject with an empty token is matched and covered by nothing.
        """
        tokens = subject.split(b".")
        if b"" in tokens:
            return []
        last = len(tokens) - 1
        found: list[_Node] = []
        pending = [(self._root, 0)]
        while pending:
            node, depth = pending.pop()
            if depth > last:
                found.append(node)
                continue
            token = tokens[depth]
            fwc = node.next.get(b">")
            if fwc is not None:
                found.append(fwc)
            if whole and depth == last and token == b">":
                continue
            pwc = node.next.get(b"*")
            if pwc is not None:
                pending.append((pwc, depth + 1))
            literal = node.next.get(token)
            if literal is not None and literal is not pwc and literal is not fwc:
                pending.append((literal, depth + 1))
        return found


class _Node:
    """Stand for one token of the patterns; `plain` and `queues` tell which patterns end here."""

    __slots__ = ("next", "plain", "queues")

    def __init__(self) -> None:
        self.next: dict[bytes, _Node] = {}
        self.plain = False
        self.queues: tuple[bytes, ...] = ()
