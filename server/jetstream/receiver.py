"""A client's subscription as the only receiver of what a consumer delivers.

A delivery is one line that is put together here, and the stored bytes behind it, which are copied
once: from the store's buffer to the client's output.
"""

from typing import Any

from midge.jetstream.sink import Receiver
from midge.jetstream.store.interface import MessageView
from midge.protocol import digits, memory
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


class ProducersTurn:
    """In whose name deliveries go out: `producer` is held when their receiver is far behind."""

    __slots__ = ("producer",)

    def __init__(self) -> None:
        self.producer: Client | None = None


class ClientReceiver(Receiver):
    """Writes to the client of `subscription`, on behalf of the producer whose `turn` it is.

    It stands for what the account's SubList has found for the deliver subject, until that changes.
    """

    def __init__(
        self,
        account: Account,
        subscription: RoutedSubscription,
        client: Client,
        router: Router,
        turn: ProducersTurn,
        subject_size: int,
    ) -> None:
        Receiver.__init__(self, subject_size)
        self._account = account
        self._generation = account.sublist.generation
        self._subscription = subscription
        self._client = client
        self._router = router
        self._turn = turn
        self._line = bytearray(_ROOM_BYTES)

    def is_current(self) -> bool:
        """Tell whether the account's interest is the one that this stands for."""
        return self._account.sublist.generation == self._generation

    def is_open(self, message: MessageView) -> bool:
        """Tell whether nothing has to be looked at before the client gets `message`."""
        if not self.is_current() or self._router.observer is not None:
            return False
        checks = self._client.deliver_checks
        if not checks:
            return True
        if checks & NO_HEADERS and message.headers_start == message.payload_start:
            checks &= ~NO_HEADERS
        return not checks & ~BEHIND and self._client.has_room(self._turn.producer)

    def take(self, message: MessageView, reply: bytearray, reply_end: int) -> None:
        """Append `message` to the client's output, as the router's `deliver` does."""
        client = self._client
        end = self._write_line(message, reply, reply_end)
        client.outbound.append_parts(
            self._line, end, message.body, message.headers_start, message.payload_end
        )
        client.out_messages += 1
        client.out_bytes += message.payload_end - message.headers_start
        self._subscription.delivered += 1
        self._router.touch(client)
        if client.outbound.behind and not client.deliver_checks & BEHIND:
            client.flushed()  # it has filled a chunk that its socket did not take

    def _write_line(self, message: MessageView, reply: bytearray, reply_end: int) -> int:
        """Write the line that a delivery begins with; return where it ends."""
        sid = self._subscription.sid
        room = _ROOM_BYTES + message.subject_end - message.subject_start + len(sid) + reply_end
        if len(self._line) < room:
            self._line = bytearray(room)
        line = self._line
        has_headers = message.payload_start > message.headers_start
        verb = _HMSG if has_headers else _MSG
        memory.copy_bytes(line, 0, verb)
        at = len(verb)
        memory.copy(line, at, message.subject, message.subject_start, message.subject_end)
        at += message.subject_end - message.subject_start
        line[at] = _SPACE
        at += 1
        memory.copy_bytes(line, at, sid)
        at += len(sid)
        line[at] = _SPACE
        at += 1
        memory.copy(line, at, reply, 0, reply_end)
        at += reply_end
        line[at] = _SPACE
        at += 1
        if has_headers:
            at = digits.write_number(line, at, message.payload_start - message.headers_start)
            line[at] = _SPACE
            at += 1
        at = digits.write_number(line, at, message.payload_end - message.headers_start)
        line[at] = _CR
        line[at + 1] = _LF
        return at + 2


def receiver_of(
    account: Account, result: SubListResult, router: Router, turn: ProducersTurn, subject: bytes
) -> ClientReceiver | None:
    """Return the only client in `result`, which is for `subject`; None unless there is one."""
    if result.queues or result.remotes is not None or len(result.plain) != 1:
        return None
    subscriptions: tuple[Any, ...] = result.plain  # routed ones, in the SubLists of a server
    subscription: RoutedSubscription = subscriptions[0]
    client = subscription.client
    if client is None or subscription.max_messages:
        return None
    return ClientReceiver(account, subscription, client, router, turn, len(subject))
