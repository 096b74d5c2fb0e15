"""The router's observer for the recorder: one short call per message or run.

Everything here runs on the loop, between two deliveries. Therefore nothing allocates, waits or
reads the clock per message: rows go into columns, all messages of a batch of reads have the same
time, and the filters' answer is kept while the subject stays the same.
"""

from collections.abc import Callable

from midge.protocol import memory
from midge.protocol.frame import Frame
from midge.server.recorder.message_rows import NOT_COUNTED, MessageRows
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.message_observer import MessageObserver
from midge.server.routing.role import Role
from midge.server.routing.router import Router
from midge.sublist.bounded_cache import BoundedCache

HOUR_US = 3_600_000_000

SKIPPED, BARE, WHOLE = 0, 1, 2
"""The ways to record a message: nothing, a row without its payload, a row with it."""

_SKIPPED, _WHOLE, _HOUR_US = SKIPPED, WHOLE, HOUR_US  # C constants in the compiled build
_NOT_COUNTED, _WORKER = NOT_COUNTED, int(Role.WORKER)

_CHOICES_MAX = 65536  # most subjects whose choice is cached, since inboxes are endless


class MessageTap(MessageObserver):
    """Records every routed message in `rows`, which `exchange` swaps when they are full.

    `exchange` takes full rows and returns empty ones, or None when the writer is too far behind:
    messages are then `dropped`, and each new batch of reads tries again. `choose` returns how to
    record a subject's messages; None records everything. `wall` returns seconds since the epoch.
    """

    def __init__(
        self,
        router: Router,
        rows: MessageRows,
        exchange: Callable[[MessageRows], MessageRows | None],
        choose: Callable[[bytes], int] | None,
        wall: Callable[[], float],
    ) -> None:
        self.rows = rows
        self.dropped = 0
        self._router = router
        self._exchange = exchange
        self._choose = choose
        self._choices = BoundedCache(_CHOICES_MAX)
        self._codes: dict[bytes, int] = {}  # code and choice of each subject in `rows`
        self._wall = wall
        self._batch = 0
        self._time_us = 0
        self._refused = False
        self._account: Account | None = None
        self._subject = b""
        self._subject_length = -1
        self._choice = _WHOLE
        self._account_code = -1
        self._subject_code = -1
        self._frame: Frame | None = None  # the last message that passed the filters
        self._plain = 0
        self._queued = 0
        self._repeatable = False  # whether an equal message may share its row
        self.begin_batch()

    def message_routed(
        self, account: Account, publisher: Client | None, frame: Frame, plain: int, queued: int
    ) -> None:
        """Record a message: count it in the last row, or add a row.

        A message from another worker is recorded by that worker. The deliveries of a message that
        went over a link are not known here; they count as `NOT_COUNTED`.
        """
        if publisher is not None and publisher.role == _WORKER:
            return
        if self._router.crossed:
            plain, queued = _NOT_COUNTED, 0
        if not self._count_again(frame, 1, plain, queued):
            self._note(account, publisher, frame, plain, queued)

    def sees_runs(self) -> bool:
        """Return True, because a run usually needs only one row."""
        return True

    def run_routed(
        self, account: Account, publisher: Client | None, frame: Frame, count: int, plain: int
    ) -> None:
        """Record messages that differ only in payload and headers."""
        if publisher is not None and publisher.role == _WORKER:
            return
        if self._router.crossed:
            plain = _NOT_COUNTED
        first = frame.base
        seen = 0
        while seen < count:
            frame.base = first + seen * frame.end
            again = self._count_again(frame, count - seen, plain, 0)
            if again == 0:
                self._note(account, publisher, frame, plain, 0)
                if self._choice == _SKIPPED:
                    break  # the others are as well
                again = 1
            seen += again
        frame.base = first

    def _count_again(self, frame: Frame, count: int, plain: int, queued: int) -> int:
        """Record or drop up to `count` messages equal to the last; return how many.

        Returns 0 if `frame` needs its own row.
        """
        # A repeated frame has the control line of the previous one, in the same batch of reads.
        if (
            not frame.repeated
            or frame is not self._frame
            or plain != self._plain
            or queued != self._queued
        ):
            return 0
        if self._refused:
            self.dropped += count
            return count
        return self.rows.repeat(count) if self._repeatable else 0

    def _note(
        self, account: Account, publisher: Client | None, frame: Frame, plain: int, queued: int
    ) -> None:
        """Record a message in its own row, unless it is filtered out or the rows are full."""
        if self._router.batches != self._batch:
            self.begin_batch()
        start = frame.base + frame.subject_start
        length = frame.subject_end - frame.subject_start
        if (
            account is not self._account
            or length != self._subject_length
            or not memory.starts_with(frame.data, start, start + length, self._subject)
        ):
            self._change_subject(account, frame)
        if self._choice == _SKIPPED:
            self._frame = None
            return
        self._frame = frame
        self._plain = plain
        self._queued = queued
        if self.rows.is_full() and (self._refused or not self.swap()):
            self.dropped += 1
            return
        if self._account_code < 0:
            self._account_code = self.rows.account_code(account.name)
        if self._subject_code < 0:
            self._subject_code = self.rows.subject_code(self._subject)
            self._codes[self._subject] = self._subject_code << 2 | self._choice
        self.rows.add(
            self._time_us,
            self._account_code,
            0 if publisher is None else publisher.cid,
            self._subject_code,
            frame,
            plain,
            queued,
            self._choice == _WHOLE,
        )
        self._repeatable = (
            self._choice != _WHOLE and frame.header_size <= 0 and not frame.has_reply()
        )

    def begin_batch(self) -> None:
        """Read the time for a new batch of reads; rows never span two hours."""
        self._batch = self._router.batches
        self._refused = False
        self._repeatable = False
        self._time_us = int(self._wall() * 1e6)
        hour = self._time_us // _HOUR_US
        if hour != self.rows.hour:
            if self.rows.count:
                self.rows.closed = True
            else:
                self.rows.hour = hour

    def swap(self) -> bool:
        """Exchange the rows for empty ones; False if none are left."""
        rows = self._exchange(self.rows)
        if rows is None:
            self._refused = True
            return False
        rows.hour = self._time_us // _HOUR_US
        self._repeatable = False
        self.rows = rows
        self._account_code = -1
        self._subject_code = -1
        self._codes.clear()
        return True

    def _change_subject(self, account: Account, frame: Frame) -> None:
        """Switch to the subject of `frame`."""
        if account is not self._account:
            self._account = account
            self._account_code = -1
        self._repeatable = False
        self._subject = frame.subject_bytes()
        self._subject_length = len(self._subject)
        found = self._codes.get(self._subject)
        if found is None:
            self._subject_code = -1
            self._choice = self._chosen(self._subject)
        else:
            known: int = found
            self._subject_code = known >> 2
            self._choice = known & 3

    def _chosen(self, subject: bytes) -> int:
        """Return the filters' answer for `subject`."""
        if self._choose is None:
            return _WHOLE
        choice: int | None = self._choices.get(subject)
        if choice is None:
            choice = self._choose(subject)
            self._choices.put(subject, choice)
        return choice
