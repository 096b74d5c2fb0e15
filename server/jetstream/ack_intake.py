"""Acks of delivered messages: from the router to the consumers that their subjects name."""

from __future__ import annotations

from midge.jetstream.account.account import JetStreamAccount
from midge.jetstream.api import routes
from midge.jetstream.consumer.ack_subject import AckNumbers
from midge.jetstream.consumer.consumer import Consumer
from midge.protocol import memory
from midge.protocol.frame import Frame
from midge.server.jetstream.ingest import charge
from midge.server.routing.client import Client
from midge.server.routing.subscription import RoutedSubscription

ACKS = b"$JS.ACK."

_ACK = b"+ACK"
_ACK_SIZE = len(_ACK)
_NUMBERS = 5
_DOT = 0x2E
_LEAST_WORK = 100  # 1 us: what an ack costs at least is charged by its verb
_FIRST_DOTS = 8  # $JS.ACK.<stream>.<consumer>.<5 numbers>
_SECOND_DOTS = 10  # $JS.ACK.<domain>.<account>.<stream>.<consumer>.<5 numbers>, or more


class AckIntake(RoutedSubscription):
    """The acks of one account, each handed to its consumer from the bytes of its subject.

    Acks come in rows for one consumer, so the latest one is kept beside the part of the subject
    that names it: the next ack with that part needs no look-up by name. What names no consumer
    counts as not delivered, so that a request gets the 503 of no responders, as from nats-server.
    """

    def __init__(self, streams: JetStreamAccount) -> None:
        RoutedSubscription.__init__(self, ACKS + b">")
        self._streams = streams
        self._prefix = b""
        self._is_second = False
        self._consumer: Consumer | None = None
        self._numbers = AckNumbers()

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        """Take an ack; False when its subject names no consumer that takes acks."""
        consumer = self._consumer
        if (
            consumer is None
            or consumer.is_closed
            or not _is_plain(frame)
            or not self._is_for_the_same(frame)
        ):
            return self._take(publisher, frame)
        if not consumer.acks.takes_acks():
            return False
        reply = frame.reply_bytes()
        before = consumer.host.store.work
        consumer.ack_plainly(self._numbers, b"" if reply is None else reply)
        if consumer.host.store.work - before > _LEAST_WORK:
            charge(publisher, consumer.host.store.work - before)
        return True

    def _is_for_the_same(self, frame: Frame) -> bool:
        """Return whether an ack is for the consumer of the one before; read its numbers if so."""
        data = frame.data
        start = frame.base + frame.subject_start
        end = frame.base + frame.subject_end
        if not memory.starts_with(data, start, end, self._prefix):
            return False
        tokens = self._numbers.read_from(data, start + len(self._prefix), end)
        return tokens == _NUMBERS or (self._is_second and tokens > _NUMBERS)

    def _take(self, publisher: Client | None, frame: Frame) -> bool:
        """Take any ack; False when its subject names no consumer that takes acks."""
        subject = frame.subject_bytes()
        dots = count_dots(subject, len(subject))
        consumer = self._consumer
        is_second = dots >= _SECOND_DOTS
        if dots != _FIRST_DOTS and not is_second:
            return False
        if (
            consumer is None
            or consumer.is_closed
            or is_second != self._is_second
            or not memory.starts_with(subject, 0, len(subject), self._prefix)
        ):
            consumer = self._look_up(subject, is_second)
            if consumer is None:
                return False
        if not consumer.acks.takes_acks():
            return False
        reply = frame.reply_bytes()
        before = consumer.host.store.work
        consumer.ack(subject, b"" if reply is None else reply, frame.payload_bytes())
        if consumer.host.store.work - before > _LEAST_WORK:
            charge(publisher, consumer.host.store.work - before)
        return True

    def _look_up(self, subject: bytes, is_second: bool) -> Consumer | None:
        """Return the consumer that a subject names, and keep it for those that follow."""
        consumer = routes.consumer_of_ack(self._streams, subject)
        count = routes.ack_names(subject)
        names = subject.split(b".", count)
        if consumer is not None and len(names) > count:
            self._consumer = consumer
            self._is_second = is_second
            self._prefix = b".".join(names[:count]) + b"."
        return consumer


def _is_plain(frame: Frame) -> bool:
    """Return whether an ack says nothing but that."""
    if frame.size == 0:
        return True
    start = frame.base + frame.payload
    return (
        frame.header_size <= 0
        and frame.size == _ACK_SIZE
        and memory.starts_with(frame.data, start, start + _ACK_SIZE, _ACK)
    )


def count_dots(subject: bytes, length: int) -> int:
    """Return how many dots `subject` holds."""
    data = subject
    dots = 0
    for i in range(length):
        dots += data[i] == _DOT
    return dots
