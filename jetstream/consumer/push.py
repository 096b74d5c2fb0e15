"""Push consumers: messages go to a subject while it is subscribed to, as fast as they are taken.

Flow control sends a request after half a window of bytes, and stops after a whole one until it is
answered. The window begins at a sixteenth of the limit and doubles with every answer.
"""

from __future__ import annotations

from midge.jetstream import headers as header_block
from midge.jetstream.config import names
from midge.jetstream.config.consumer_config import ConsumerConfig
from midge.jetstream.consumer import statuses
from midge.jetstream.consumer.consumer import Consumer
from midge.jetstream.consumer.host import ConsumerHost
from midge.jetstream.consumer.tracking import ACK_FLOW_CONTROL
from midge.jetstream.environment.clock import Timer
from midge.jetstream.environment.sink import Receiver

WINDOW_LIMIT_BYTES = 32 * 1024 * 1024
_FIRST_WINDOW_BYTES = WINDOW_LIMIT_BYTES // 16
_SECOND_NS = 1_000_000_000
_LETTERS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class PushConsumer(Consumer):
    """A consumer that delivers to its deliver subject.

    `is_active` is True while that has a subscription: to exactly the deliver subject, in the
    deliver group if there is one. `outstanding_bytes` counts the bytes sent since the last answer
    to a flow control request; `flow_reply` is the subject of the unanswered request.
    """

    def __init__(self, host: ConsumerHost, config: ConsumerConfig, name: bytes) -> None:
        self.deliver_subject = b""
        self.is_active = False
        self.window_bytes = _FIRST_WINDOW_BYTES
        self.outstanding_bytes = 0
        self.flow_bytes = 0
        self.flow_reply = b""
        self._interest: object = None
        self._heartbeat_timer: Timer | None = None
        self._heartbeat_ns = 0
        self._heartbeat_due_ns = 0
        self._inactive_timer: Timer | None = None
        self._found_receiver: Receiver | None = None
        self._receiver_turn = 0
        self._begin_consumer(host, config, name)

    def follow(self, config: ConsumerConfig) -> None:
        """See `Tracking.follow`."""
        Consumer.follow(self, config)
        self.deliver_subject = names.to_bytes(config.deliver_subject)
        self._heartbeat_ns = config.idle_heartbeat_ns

    # Life.

    def start(self) -> None:
        """See `Consumer.start`."""
        self._watch_interest()
        Consumer.start(self)
        if self._heartbeat_ns:
            now_ns = self.clock.monotonic_ns()
            self._heartbeat_due_ns = now_ns + self._heartbeat_ns
            self._arm_heartbeat(self._heartbeat_ns)

    def stop(self) -> None:
        """See `Consumer.stop`."""
        Consumer.stop(self)
        self._found_receiver = None
        self._unwatch_interest()
        for timer in (self._heartbeat_timer, self._inactive_timer):
            if timer is not None:
                timer.cancel()
        self._heartbeat_timer = None
        self._inactive_timer = None

    def change(self, config: ConsumerConfig) -> None:
        """See `Consumer.change`."""
        is_moved = config.deliver_subject != self.config.deliver_subject
        if is_moved and len(self.pending):
            self._redeliver_all()
        super().change(config)
        if is_moved:
            self._found_receiver = None
            self._unwatch_interest()
            self._watch_interest()
            self.watch_activity()
            self.signal()

    def request(self, reply: bytes, body: bytes) -> None:
        """Refuse a pull request."""
        if reply:
            self.sink.send(reply, b"", statuses.PUSH_BASED, b"")

    def is_push_bound(self) -> bool:
        """See `Consumer.is_push_bound`."""
        return self.is_active

    def _redeliver_all(self) -> None:
        """Redeliver everything pending to the new deliver subject."""
        entry = self.pending.first
        while entry is not None:
            after = entry.after
            if not self.pending.is_queued(entry) and not self._has_max_deliveries(entry.seq):
                self.pending.enqueue(entry)
            entry = after

    # Interest.

    def _watch_interest(self) -> None:
        group = names.to_bytes(self.config.deliver_group)
        self._interest = self.sink.watch_interest(
            self.deliver_subject, self._interest_changed, group
        )
        self.is_active = self.sink.is_subscribed(self.deliver_subject, group)

    def _unwatch_interest(self) -> None:
        if self._interest is not None:
            self.sink.unwatch_interest(self._interest)
            self._interest = None

    def _interest_changed(self, is_there: bool) -> None:
        """Go on, or stop, as the deliver subject gains or loses its subscriber."""
        was_active = self.is_active
        self.is_active = is_there
        self._found_receiver = None
        if is_there:
            if self._inactive_timer is not None:
                self._inactive_timer.cancel()
                self._inactive_timer = None
            if not was_active:
                self.signal()
        elif self._inactive_timer is None:
            self.watch_activity()

    def watch_activity(self) -> None:
        """See `Consumer.watch_activity`."""
        if self._inactive_timer is not None:
            self._inactive_timer.cancel()
            self._inactive_timer = None
        threshold_ns = self.config.inactive_threshold_ns
        if threshold_ns > 0 and not self.is_active:
            delay_s = threshold_ns / _SECOND_NS
            self._inactive_timer = self.clock.call_later(delay_s, self._check_activity)

    def touch(self) -> None:
        """See `Tracking.touch`."""
        if self._inactive_timer is not None:
            self.watch_activity()

    def _check_activity(self) -> None:
        self._inactive_timer = None
        if not self.is_active:
            self.host.expired(self)

    # Delivering.

    def _may_deliver(self) -> bool:
        return (
            self.is_active
            and (not self.has_flow_control or self.outstanding_bytes <= self.window_bytes)
            and not (self.paused_until_ns and self.is_paused())
        )

    def _target(self, size: int) -> bytes | None:
        return self.deliver_subject

    def _receiver(self) -> Receiver | None:
        """Return the receiver of the deliver subject, looked up at most once in a turn."""
        receiver = self._found_receiver
        if self._receiver_turn != self._turn and (receiver is None or not receiver.is_current()):
            self._receiver_turn = self._turn
            self._found_receiver = receiver = self.sink.receiver(self.deliver_subject)
        return receiver

    def _delivered(self, size: int) -> None:
        if self._heartbeat_ns:
            self._heartbeat_due_ns = self._now_ns + self._heartbeat_ns
        if self.has_flow_control:
            self._count_bytes(size)

    def _not_taken(self, target: bytes) -> None:
        """Wait for a subscriber, though none was seen to leave."""
        self._interest_changed(False)

    # Flow control.

    def _count_bytes(self, size: int) -> None:
        """Count sent bytes, and request an answer after half a window."""
        self.outstanding_bytes += size
        if self.flow_reply:
            if self.outstanding_bytes - self.flow_bytes >= self.window_bytes:
                self.flow_bytes += size
        elif self.outstanding_bytes > self.window_bytes // 2 or (
            self.ack_policy == ACK_FLOW_CONTROL and self.is_full()
        ):
            self._ask_for_flow()

    def _ask_for_flow(self) -> None:
        self.flow_reply = self._flow_prefix() + self._flow_token()
        self.flow_bytes = self.outstanding_bytes
        self.sink.send(self.deliver_subject, self.flow_reply, statuses.FLOW_CONTROL, b"")

    def _flow_prefix(self) -> bytes:
        host = self.host
        if not host.has_second_acks:
            return b"$JS.FC.%b.%b." % (host.stream, self.name)
        domain = (host.domain or "_").encode()
        account = host.account_hash.encode()
        return b"$JS.FC.%b.%b.%b.%b." % (domain, account, host.stream, self.name)

    def _flow_token(self) -> bytes:
        number = int(self.host.random() * len(_LETTERS) ** 4)
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
        self.signal()
        if self.ack_policy == ACK_FLOW_CONTROL and headers:
            consumer_seq = _number(headers, b"Nats-Last-Consumer")
            seq = _number(headers, b"Nats-Last-Stream")
            if seq > 0:
                self._settle(seq, max(consumer_seq, 0), 1, b"", False)

    # Heartbeats.

    def _arm_heartbeat(self, delay_ns: int) -> None:
        delay_s = delay_ns / _SECOND_NS
        self._heartbeat_timer = self.clock.call_later(delay_s, self._heartbeat)

    def _heartbeat(self) -> None:
        """Send a heartbeat, unless a message was sent meanwhile."""
        now_ns = self.clock.monotonic_ns()
        rest_ns = self._heartbeat_due_ns - now_ns
        if rest_ns > 0:
            self._arm_heartbeat(rest_ns)
            return
        if self.is_active:
            seq = max(self.next_seq, 1) - 1
            status = statuses.idle_heartbeat(self.next_consumer_seq - 1, seq, self.flow_reply)
            self.sink.send(self.deliver_subject, b"", status, b"")
            is_owed = self.ack_policy == ACK_FLOW_CONTROL and len(self.pending) > 0
            if is_owed and not self.flow_reply:
                self._ask_for_flow()
        self._heartbeat_due_ns = now_ns + self._heartbeat_ns
        self._arm_heartbeat(self._heartbeat_ns)


def _number(headers: bytes, name: bytes) -> int:
    """Return the number in a header, -1 without one."""
    value = header_block.find(headers, name)
    return int(value) if value and value.isdigit() else -1
