"""Whether what is read of a socket is written at once, or after all other sockets were read."""

# A flush that the loop calls costs 3,300 instructions more than one at the end of a read, a quarter
# of a small message: a handle, and the interpreter's lock once more. It pays when several sockets
# are ready at a time. That shows only where the loop calls it: four turns in a row with one read
# are hardly chance. To look again after 8 reads costs 400 instructions a read, and a crowd that is
# ready at once gets at most 8 writes too many.
_LONE_TURNS = 4
_READS = 8


class LoneReads:
    """Notices when one socket at a time is ready, so that no other could share a flush.

    `is_reading` says that a batch of reads has begun and not ended.
    """

    __slots__ = ("_left", "_turns", "is_reading")

    def __init__(self) -> None:
        self.is_reading = False
        self._turns = 0  # in a row, with one read each
        self._left = 0

    def are_expected(self) -> bool:
        """Tell whether the batch at hand is to be written at its end."""
        return self.is_reading and self._left > 0

    def end_read(self) -> bool:
        """Note the end of a batch; tell whether to write it now."""
        is_lone = self.are_expected()
        self.is_reading = False
        if is_lone:
            self._left -= 1
        return is_lone

    def end_turn(self, batches: int) -> None:
        """Note the end of a turn with so many batches since its first output."""
        if batches != 1:
            self._turns = self._left = 0
            return
        self._turns += 1
        if self._turns >= _LONE_TURNS:
            self._left = _READS
