"""Push consumers: messages go to a subject while it is subscribed to, as fast as they are taken.

Flow control sends a request after half a window of bytes, and stops after a whole one until it is
answered. The window begins at a sixteenth of the limit and doubles with every answer.
"""

from __future__ import annotations

from midge.jetstream import headers as header_block
from midge.jetstream.config import names
from midge.jetstream.config.consumer_config import ConsumerConfig
from midge.jetstream.consumer import statuses
from midge.jetstream.consumer.ack_tracker import ACK_FLOW_CONTROL
from midge.jetstream.consumer.consumer import Consumer
from midge.jetstream.consumer.receivers import Receivers
from midge.jetstream.environment.clock import LONGEST_NS, Timer
from midge.jetstream.environment.sink import Receiver
from midge.jetstream.store.interface import MessageView

WINDOW_LIMIT_BYTES = 32 * 1024 * 1024
_FIRST_WINDOW_BYTES = WINDOW_LIMIT_BYTES // 16
_SECOND_NS = 1_000_000_000
_LETTERS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class DeliverSubject(Receivers):
    """The deliver subject of a consumer.

    `is_active` is True while it has a subscription: to exactly the deliver subject, in the deliver
    group if there is one. `outstanding_bytes` counts the bytes sent since the last answer to a flow
    control request; `flow_reply` is the subject of the unanswered request.
    """

    def __init__(self, consumer: Consumer) -> None:
        self.header_line = b""
        self._consumer = consumer
        self.subject = b""
        self.is_active = False
        self.window_bytes = _FIRST_WINDOW_BYTES
        self.outstanding_bytes = 0
        self.flow_bytes = 0
        self.flow_reply = b""
        self._interest: object = None
        self._heartbeat_timer: Timer | None = None
        self._heartbeat_ns = 0
        self._heartbeat_due_ns = 0
        self._receiver: Receiver | None = None
        self._receiver_turn = 0
        self.follow(consumer.acks.config)

    def follow(self, config: ConsumerConfig) -> None:
        """See `Receivers.follow`; a new subject gets everything pending again."""
        self.has_flow_control = config.flow_control
        self._heartbeat_ns = min(config.idle_heartbeat_ns, LONGEST_NS)
        subject = names.to_bytes(config.deliver_subject)
        if subject == self.subject:
            return
        self.subject = subject
        self._receiver = None
        if self._interest is not None:
            self._consumer.acks.queue_all()
            self._unwatch_interest()
            self._watch_interest(config)
            self._consumer.touch()

    # Life.

    def start(self) -> None:
        """See `Receivers.start`."""
        self._watch_interest(self._consumer.acks.config)
        if self._heartbeat_ns:
            self._heartbeat_due_ns = self._consumer.host.clock.monotonic_ns() + self._heartbeat_ns
            self._arm_heartbeat(self._heartbeat_ns)

    def stop(self) -> None:
        """See `Receivers.stop`."""
        self._receiver = None
        self._unwatch_interest()
        if self._heartbeat_timer is not None:
            self._heartbeat_timer.cancel()
            self._heartbeat_timer = None

    def request(self, reply: bytes, body: bytes) -> None:
        """Refuse a pull request."""
        self._consumer.host.sink.send(reply, b"", statuses.PUSH_BASED, b"")

    def is_bound(self) -> bool:
        """See `Receivers.is_bound`."""
        return self.is_active

    def used_until_ns(self, now_ns: int) -> int:
        """See `Receivers.used_until_ns`."""
        return now_ns if self.is_active else 0

    # Interest.

    def _watch_interest(self, config: ConsumerConfig) -> None:
        sink = self._consumer.host.sink
        group = names.to_bytes(config.deliver_group)
        self._interest = sink.watch_interest(self.subject, self._interest_changed, group)
        self.is_active = sink.is_subscribed(self.subject, group)

    def _unwatch_interest(self) -> None:
        if self._interest is not None:
            self._consumer.host.sink.unwatch_interest(self._interest)
            self._interest = None

    def _interest_changed(self, is_there: bool) -> None:
        """Go on, or stop, as the deliver subject gains or loses its subscriber."""
        was_active = self.is_active
        self.is_active = is_there
        self._receiver = None
        if not is_there:
            self._consumer.touch()
        elif not was_active:
            self._consumer.signal()

    # Delivering.

    def is_open(self) -> bool:
        """See `Receivers.is_open`."""
        return self.is_active and (
            not self.has_flow_control or self.outstanding_bytes <= self.window_bytes
        )

    def next_subject(self, size: int) -> bytes | None:
        """See `Receivers.next_subject`."""
        return self.subject

    def next_receiver(self, view: MessageView) -> Receiver | None:
        """Return the receiver of the deliver subject, looked up at most once in a turn."""
        receiver = self._receiver
        host = self._consumer.host
        if self._receiver_turn != host.turn and (receiver is None or not receiver.is_current()):
            self._receiver_turn = host.turn
            self._receiver = receiver = host.sink.receiver(self.subject)
        return receiver if receiver is not None and receiver.is_open(view) else None

    def delivered(self, size: int, *, is_taken: bool) -> None:
        """See `Receivers.delivered`."""
        if not is_taken:
            self._interest_changed(False)  # wait for a subscriber: the last one has gone
            return
        if self._heartbeat_ns:
            self._heartbeat_due_ns = self._consumer.host.now_ns + self._heartbeat_ns
        if self.has_flow_control:
            self._count_bytes(size)

    # Flow control.

    def _count_bytes(self, size: int) -> None:
        """Count sent bytes, and request an answer after half a window."""
        acks = self._consumer.acks
        self.outstanding_bytes += size
        if self.flow_reply:
            if self.outstanding_bytes - self.flow_bytes >= self.window_bytes:
                self.flow_bytes += size
        elif self.outstanding_bytes > self.window_bytes // 2 or (
            acks.ack_policy == ACK_FLOW_CONTROL and acks.is_full()
        ):
            self._ask_for_flow()

    def _ask_for_flow(self) -> None:
        consumer = self._consumer
        prefix = consumer.host.subject_of(b"FC", consumer.acks.name)
        self.flow_reply = prefix + self._flow_token()
        self.flow_bytes = self.outstanding_bytes
        consumer.host.sink.send(self.subject, self.flow_reply, statuses.FLOW_CONTROL, b"")

    def _flow_token(self) -> bytes:
        number = int(self._consumer.host.around.random.random() * len(_LETTERS) ** 4)
        token = bytearray()
        for _ in range(4):
            number, place = divmod(number, len(_LETTERS))
            token.append(_LETTERS[place])
        return bytes(token)

    def flow_control(self, subject: bytes, headers: bytes) -> None:
        """Take an answer to a flow control request; only the latest counts."""
        if not self.flow_reply or subject != self.flow_reply:
            return
        self.window_bytes = min(self.window_bytes * 2, WINDOW_LIMIT_BYTES)
        self.outstanding_bytes = max(self.outstanding_bytes - self.flow_bytes, 0)
        self.flow_reply = b""
        self.flow_bytes = 0
        acks = self._consumer.acks
        if acks.ack_policy == ACK_FLOW_CONTROL and headers:
            consumer_seq = header_block.parse_number(_found(headers, b"Nats-Last-Consumer"))
            seq = header_block.parse_number(_found(headers, b"Nats-Last-Stream"))
            if seq > 0:
                acks.settle(seq, max(consumer_seq, 0), 1, b"", False)
        self._consumer.signal()

    # Heartbeats.

    def _arm_heartbeat(self, delay_ns: int) -> None:
        delay_s = delay_ns / _SECOND_NS
        self._heartbeat_timer = self._consumer.host.clock.call_later(delay_s, self._heartbeat)

    def _heartbeat(self) -> None:
        """Send a heartbeat, unless a message was sent meanwhile."""
        host = self._consumer.host
        acks = self._consumer.acks
        now_ns = host.clock.monotonic_ns()
        rest_ns = self._heartbeat_due_ns - now_ns
        if rest_ns > 0:
            self._arm_heartbeat(rest_ns)
            return
        if self.is_active:
            seq = max(acks.next_seq, 1) - 1
            status = statuses.idle_heartbeat(acks.next_consumer_seq - 1, seq, self.flow_reply)
            host.sink.send(self.subject, b"", status, b"")
            is_owed = acks.ack_policy == ACK_FLOW_CONTROL and len(acks.pending) > 0
            if is_owed and not self.flow_reply:
                self._ask_for_flow()
        self._heartbeat_due_ns = now_ns + self._heartbeat_ns
        self._arm_heartbeat(self._heartbeat_ns)


def _found(headers: bytes, name: bytes) -> bytes:
    return header_block.find(headers, name) or b""
