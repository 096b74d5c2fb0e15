"""Results that hold for every subject with the same prefix.

Where a walk through the trie reaches nothing but a `>`, the rest of the subject does not matter:
with a subscription to ``svc.>`` alone, all subjects below ``svc.`` match the same. So subjects that
are used only once, such as those of acks and replies, are matched without a walk.
"""

from midge.sublist import octets
from midge.sublist.result import SubListResult
from midge.sublist.subjects import has_empty_token

_ENTRIES_MAX = 4


class Broad:
    """The result of all subjects that begin with `prefix` and have no literal subscription."""

    __slots__ = ("generation", "length", "prefix", "result")

    def __init__(self, prefix: bytes, result: SubListResult, generation: int) -> None:
        self.prefix = prefix
        self.length = len(prefix)
        self.result = result
        self.generation = generation


class BroadMatches:
    """The latest few of such results; results of an earlier generation are ignored."""

    __slots__ = ("_entries", "_next")

    def __init__(self) -> None:
        self._entries: list[Broad] = []
        self._next = 0

    def find(self, subject: bytes, generation: int) -> SubListResult | None:
        """Return the result for `subject` without literal subscriptions; None when not known."""
        length = len(subject)
        for broad in self._entries:
            if (
                broad.generation == generation
                and length > broad.length
                and octets.equals(broad.prefix, subject, 0, broad.length)
            ):
                return None if has_empty_token(subject, broad.length) else broad.result
        return None

    def keep(self, prefix: bytes, result: SubListResult, generation: int) -> None:
        """Remember that all valid subjects that begin with `prefix` matched `result`."""
        broad = Broad(prefix, result, generation)
        for i in range(len(self._entries)):
            if self._entries[i].prefix == prefix:
                self._entries[i] = broad
                return
        if len(self._entries) < _ENTRIES_MAX:
            self._entries.append(broad)
        else:
            self._entries[self._next] = broad
            self._next = (self._next + 1) % _ENTRIES_MAX

    def clear(self) -> None:
        """Forget everything: it is outdated, and it keeps closed clients alive."""
        if self._entries:
            self._entries = []
            self._next = 0
