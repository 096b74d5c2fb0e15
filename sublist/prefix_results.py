"""Results that hold for every subject with the same prefix.

If a walk through the trie arrives at a level with no node, or with only a `>`, the rest of the
subject does not matter: if ``svc.>`` is the only subscription there, all subjects below ``svc.``
have the same result. If the level has a `*` but no literal tokens, a last token does not matter:
all subjects with one token below ``_INBOX.x.`` match ``_INBOX.x.*``. Therefore subjects that are
used only once, such as ack and reply subjects, are matched without a walk.
"""

from midge.sublist import octets
from midge.sublist.result import SubListResult
from midge.sublist.subjects import has_dot, has_empty_token

_ENTRIES_MAX = 4


class PrefixResult:
    """The result of all subjects that begin with `prefix` and have no literal subscription.

    With `is_last_token`, only of subjects with exactly one token behind the prefix.
    """

    __slots__ = ("generation", "is_last_token", "is_used", "length", "prefix", "result")

    def __init__(
        self, prefix: bytes, is_last_token: bool, result: SubListResult, generation: int
    ) -> None:
        self.prefix = prefix
        self.length = len(prefix)
        self.is_last_token = is_last_token
        self.is_used = False
        self.result = result
        self.generation = generation


class PrefixResults:
    """A few such results; unused ones are replaced before used ones.

    Results of an earlier generation are ignored.
    """

    __slots__ = ("_entries", "_next")

    def __init__(self) -> None:
        self._entries: list[PrefixResult] = []
        self._next = 0

    def find(self, subject: bytes, generation: int) -> SubListResult | None:
        """Return the result for `subject` without literal subscriptions, or None if unknown."""
        length = len(subject)
        for entry in self._entries:
            if (
                entry.generation == generation
                and length > entry.length
                and octets.equals(entry.prefix, subject, 0, entry.length)
            ):
                if entry.is_last_token:
                    if has_dot(subject, entry.length):
                        continue
                elif has_empty_token(subject, entry.length):
                    return None
                entry.is_used = True
                return entry.result
        return None

    def keep(
        self, prefix: bytes, is_last_token: bool, result: SubListResult, generation: int
    ) -> None:
        """Remember that all valid subjects that begin with `prefix` have `result`.

        With `is_last_token`, only subjects with exactly one token behind the prefix have it.
        """
        entry = PrefixResult(prefix, is_last_token, result, generation)
        for i in range(len(self._entries)):
            known = self._entries[i]
            if known.prefix == prefix:
                entry.is_used = known.is_used
                self._entries[i] = entry
                return
        if len(self._entries) < _ENTRIES_MAX:
            self._entries.append(entry)
            return
        for _ in range(_ENTRIES_MAX):  # replace an unused entry: many prefixes occur only once
            oldest = self._entries[self._next]
            if not oldest.is_used:
                break
            oldest.is_used = False
            self._next = (self._next + 1) % _ENTRIES_MAX
        self._entries[self._next] = entry
        self._next = (self._next + 1) % _ENTRIES_MAX

    def clear(self) -> None:
        """Drop all results: they are outdated, and they keep closed clients in memory."""
        if self._entries:
            self._entries = []
            self._next = 0
