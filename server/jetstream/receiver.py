"""A client's subscription as the only receiver of what a consumer delivers.

A delivery is one line that is put together here, and the stored bytes behind it, which are copied
once: from the store's buffer to the client's output.

No subject that would end its line gets into one. `write` checks its subjects here. The store has
checked those that `ClientReceiver.take` writes, each once, and `AckSubject` what ack subjects begin
with, once for each consumer.
"""

from typing import Any

from midge.jetstream.environment.sink import Receiver
from midge.jetstream.store.interface import MessageView
from midge.protocol import digits, lines, memory
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.router import Router
from midge.server.routing.slow_path import BEHIND, NO_HEADERS
from midge.server.routing.subscription import RoutedSubscription
from midge.sublist.result import SubListResult

_MSG = b"MSG "
_HMSG = b"HMSG "
_SPACE = 0x20
_CR = 0x0D
_LF = 0x0A
_ROOM_BYTES = 64  # for the verb, two sizes, blanks and the end of the line
_LINE_BYTES = 192  # most lines are not longer; to make one longer takes 1,000 instructions


class MessageLine:
    """The first line of a message, put together in place: ``data[:end]``.

    While it `is_busy`, it is being copied to an output, whose transport may call back.
    """

    __slots__ = ("data", "end", "is_busy")

    def __init__(self) -> None:
        self.is_busy = False
        self.data = bytearray(_LINE_BYTES)
        self.end = 0

    def begin(
        self, headers_size: int, subject: bytes | bytearray, start: int, end: int, sid: bytes
    ) -> None:
        """Begin with the verb, the subject ``subject[start:end]``, the sid and a blank each."""
        verb = _HMSG if headers_size > 0 else _MSG
        self._make_room(end - start + len(sid))
        data = self.data
        memory.copy_bytes(data, 0, verb)
        at = len(verb)
        memory.copy(data, at, subject, start, end)
        at += end - start
        data[at] = _SPACE
        memory.copy_bytes(data, at + 1, sid)
        at += 1 + len(sid)
        data[at] = _SPACE
        self.end = at + 1

    def add(self, piece: bytes | bytearray, start: int, end: int) -> None:
        """Add the reply subject ``piece[start:end]`` and a blank."""
        self._make_room(self.end + end - start)
        memory.copy(self.data, self.end, piece, start, end)
        self.end += end - start
        self.data[self.end] = _SPACE
        self.end += 1

    def finish(self, headers_size: int, size: int) -> None:
        """Add the sizes, in bytes, of headers, if there are any, and of headers and payload."""
        data = self.data
        at = self.end
        if headers_size > 0:
            at = digits.write_number(data, at, headers_size)
            data[at] = _SPACE
            at += 1
        at = digits.write_number(data, at, size)
        data[at] = _CR
        data[at + 1] = _LF
        self.end = at + 2

    def append(self, piece: bytes | bytearray, start: int, end: int) -> None:
        """Add ``piece[start:end]``, which follows the line, as it is."""
        self._make_room(self.end + end - start)
        memory.copy(self.data, self.end, piece, start, end)
        self.end += end - start

    def _make_room(self, length: int) -> None:
        """Make room for `length` bytes and the rest of the line."""
        if len(self.data) < length + _ROOM_BYTES:
            self.data.extend(bytes(length + _ROOM_BYTES - len(self.data)))


class ProducersTurn:
    """In whose name deliveries go out: `producer` is held when their receiver is far behind."""

    __slots__ = ("producer",)

    def __init__(self) -> None:
        self.producer: Client | None = None


class ClientReceiver(Receiver):
    """Writes to the client of `subscription`, on behalf of the producer whose `turn` it is.

    It caches the match of the deliver subject in the account's SubList, until the interest changes.
    All receivers of an account share one `line`, because making one takes 600 instructions.
    """

    def aim(
        self,
        account: Account,
        subscription: RoutedSubscription,
        client: Client,
        router: Router,
        turn: ProducersTurn,
        line: MessageLine,
    ) -> None:
        """Take what a receiver is made of; `__init__` would take 1,000 instructions more."""
        self._account = account
        self._generation = account.sublist.generation
        self._subscription = subscription
        self._client = client
        self._router = router
        self._turn = turn
        self._sid: bytes = subscription.sid
        self._line = line

    def is_current(self) -> bool:
        """Return whether the account's interest has not changed since this match."""
        return self._account.sublist.generation == self._generation

    def is_open(self, message: MessageView) -> bool:
        """Return whether nothing has to be looked at before the client gets `message`."""
        if not self.is_current() or self._router.observer is not None or self._line.is_busy:
            return False
        if message.payload_start > message.headers_start and self._router.spans is not None:
            return False
        checks = self._client.deliver_checks
        if not checks:
            return True
        if checks & NO_HEADERS and message.headers_start == message.payload_start:
            checks &= ~NO_HEADERS
        return not checks & ~BEHIND and self._client.has_room(self._turn.producer)

    def take(self, message: MessageView, reply: bytearray, reply_end: int) -> None:
        """Append `message` to the client's output, as the router's `deliver` does."""
        line = self._line
        size = message.payload_end - message.headers_start
        headers_size = message.payload_start - message.headers_start
        line.begin(
            headers_size, message.subject, message.subject_start, message.subject_end, self._sid
        )
        line.add(reply, 0, reply_end)
        line.finish(headers_size, size)
        _append(line, self._client, message.body, message.headers_start, message.payload_end)
        _count(self._client, self._subscription, self._router, size)


def receiver_of(
    account: Account,
    result: SubListResult,
    router: Router,
    turn: ProducersTurn,
    line: MessageLine,
    subject: bytes,
) -> ClientReceiver | None:
    """Return the only client in `result`, which is for `subject`; None unless there is one."""
    subscription = single(result)
    if subscription is None or subscription.client is None:
        return None
    receiver = ClientReceiver(len(subject))
    receiver.aim(account, subscription, subscription.client, router, turn, line)
    return receiver


def single(result: SubListResult) -> RoutedSubscription | None:
    """Return the only subscription in `result` if a client has it; None otherwise.

    A subscription with a maximum of messages does not count.
    """
    if result.queues or result.remotes is not None or len(result.plain) != 1:
        return None
    subscriptions: tuple[Any, ...] = result.plain  # routed ones, in the SubLists of a server
    subscription: RoutedSubscription = subscriptions[0]
    if subscription.client is None or subscription.max_messages:
        return None
    return subscription


def write(
    subscription: RoutedSubscription,
    router: Router,
    line: MessageLine,
    subject: bytes,
    reply: bytes,
    headers: bytes,
    payload: bytes,
) -> bool:
    """Append a message to the output of a client; False when that needs a closer look first."""
    client = subscription.client
    headers_size = len(headers)
    if client is None or router.observer is not None or line.is_busy:
        return False
    checks = client.deliver_checks
    if checks and (headers_size > 0 or checks & ~NO_HEADERS):
        return False
    if lines.has_blank(subject, 0, len(subject)):
        return False
    if reply and lines.has_blank(reply, 0, len(reply)):
        return False
    size = headers_size + len(payload)
    line.begin(headers_size, subject, 0, len(subject), subscription.sid)
    if reply:
        line.add(reply, 0, len(reply))
    line.finish(headers_size, size)
    if headers:
        line.append(headers, 0, headers_size)
    _append(line, client, payload, 0, len(payload))
    router.offers += 1
    _count(client, subscription, router, size)
    return True


def write_stored(
    subscription: RoutedSubscription,
    router: Router,
    line: MessageLine,
    subject: bytes,
    head: bytearray,
    head_end: int,
    message: MessageView,
) -> bool:
    """Do what `write` does with the payload of `message` and ``head[:head_end]`` for headers."""
    client = subscription.client
    if client is None or client.deliver_checks or router.observer is not None or line.is_busy:
        return False
    if lines.has_blank(subject, 0, len(subject)):
        return False
    size = head_end + message.payload_end - message.payload_start
    line.begin(head_end, subject, 0, len(subject), subscription.sid)
    line.finish(head_end, size)
    line.append(head, 0, head_end)
    _append(line, client, message.body, message.payload_start, message.payload_end)
    router.offers += 1
    _count(client, subscription, router, size)
    return True


def _append(
    line: MessageLine, client: Client, body: bytes | bytearray, start: int, end: int
) -> None:
    """Append `line` and ``body[start:end]`` behind it to the output of `client`."""
    line.is_busy = True
    try:
        client.outbound.append_parts(line.data, line.end, body, start, end)
    finally:
        line.is_busy = False


def _count(client: Client, subscription: RoutedSubscription, router: Router, size: int) -> None:
    """Count a message that was appended, and have it written, as the router's `deliver` does."""
    client.out_messages += 1
    client.out_bytes += size
    subscription.delivered += 1
    router.touch(client)
    if client.outbound.behind and not client.deliver_checks & BEHIND:
        client.flushed()  # it has filled a chunk that its socket did not take
