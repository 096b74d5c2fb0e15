"""A stream's store in plain Python: a dictionary and linear scans, to compare real stores with."""

from __future__ import annotations

from dataclasses import dataclass, field

from midge.sublist.subjects import matches

Message = tuple[int, bytes, bytes, bytes]  # time, subject, headers, payload


@dataclass
class Oracle:
    """The expected answers of a store, computed naively."""

    kept: dict[int, Message] = field(default_factory=dict)
    last_seq: int = 0
    last_time: int = 0
    is_cleared: bool = False
    """Purge everything: the first sequence is known even before the first message."""

    def append(
        self, subject: bytes, headers: bytes, payload: bytes, time: int, seq: int = 0
    ) -> int:
        self.last_seq = seq or self.last_seq + 1
        self.last_time = max(time, self.last_time)
        self.kept[self.last_seq] = (self.last_time, subject, headers, payload)
        return self.last_seq

    def first_seq(self) -> int:
        if self.kept:
            return min(self.kept)
        return self.last_seq + 1 if self.last_seq or self.is_cleared else 0

    def matching(self, filters: tuple[bytes, ...], start: int, end: int) -> list[int]:
        return [
            seq
            for seq, (_, subject, _, _) in sorted(self.kept.items())
            if start <= seq <= end
            and (not filters or any(matches(subject, pattern) for pattern in filters))
        ]

    def lasts(self, filters: tuple[bytes, ...], start: int, end: int) -> list[int]:
        newest = {self.kept[seq][1]: seq for seq in self.matching(filters, 1, end)}
        return sorted(seq for seq in newest.values() if seq >= start)

    def remove(self, seq: int) -> bool:
        return self.kept.pop(seq, None) is not None

    def purge(self, subject: bytes | None, upto: int, keep: int) -> int:
        if subject in (None, b">") and not keep and (not upto or upto > self.last_seq):
            self.is_cleared = True
        found = self.matching((subject,) if subject else (), 1, self.last_seq)
        if keep:
            found = found[:-keep]
        if upto:
            found = [seq for seq in found if seq < upto]
        for seq in found:
            del self.kept[seq]
        return len(found)

    def trim(self, subject: bytes, keep: int) -> int:
        found = [seq for seq, message in sorted(self.kept.items()) if message[1] == subject]
        gone = found[: max(0, len(found) - keep)]
        for seq in gone:
            del self.kept[seq]
        return len(gone)

    def expire(self, before: int, limit: int) -> int:
        gone = []
        for seq in sorted(self.kept):
            if self.kept[seq][0] >= before or len(gone) == limit:
                break
            gone.append(seq)
        for seq in gone:
            del self.kept[seq]
        return len(gone)

    def at_time(self, time: int) -> int:
        found = [seq for seq, message in sorted(self.kept.items()) if message[0] >= time]
        return found[0] if found else self.last_seq + 1
