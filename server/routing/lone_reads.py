"""Whether the output of a read is written at once, or after all other sockets were read.

It matters for the sockets that a loop calls back for one by one, those of TLS and WebSockets; plain
ones are read together, and then written to.
"""

# A flush that the loop calls costs 3,300 instructions more than one at the end of a read, a quarter
# of a small message: a handle, and the interpreter's lock once more; and the first of several reads
# waits for the others. It pays when they have receivers in common, which then get one write. That
# shows only where the loop calls it: four turns in a row without are hardly chance. To look again
# after the reads of 8 turns costs 400 instructions a turn, and a crowd that begins to share
# receivers gets at most 8 writes too many for each socket that was ready.
_LONE_TURNS = 4
_TURNS_AT_ONCE = 8
_READS_MAX = 1024


class LoneReads:
    """Notices when no two reads of a turn have a receiver in common, so that none shares a flush.

    `is_reading` says that a batch of reads has begun and not ended.
    """

    __slots__ = ("_before", "_each", "_is_shared", "_left", "_turns", "is_reading")

    def __init__(self) -> None:
        self.is_reading = False
        self._before = 0
        self._each = 0
        self._is_shared = False
        self._turns = 0  # in a row, without receivers in common
        self._left = 0

    def are_expected(self) -> bool:
        """Return whether the current batch is written at its end."""
        return self.is_reading and self._left > 0

    def begin_read(self, receivers: int) -> None:
        """Note the begin of a batch, and how many receivers wait to be written to."""
        self.is_reading = True
        self._before = receivers

    def end_read(self, receivers: int) -> bool:
        """Note the end of a batch, and how many receivers wait; tell whether to write now.

        A batch that has added fewer receivers than the first of the turn shares some with it.
        """
        is_lone = self.are_expected()
        self.is_reading = False
        if is_lone:
            self._left -= 1
        elif self._before == 0:
            self._each = receivers
        elif receivers - self._before < self._each:
            self._is_shared = True
        return is_lone

    def end_turn(self, batches: int) -> None:
        """Record the end of a turn with `batches` batches since its first output."""
        if batches == 0 or self._is_shared:
            self._turns = self._left = 0
            self._is_shared = False
            return
        self._turns += 1
        if self._turns >= _LONE_TURNS:
            self._left = min(batches * _TURNS_AT_ONCE, _READS_MAX)
