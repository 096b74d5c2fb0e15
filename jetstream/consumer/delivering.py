"""The loop that delivers a consumer's messages, one by one or as a run.

Most messages are copied by `sink.Receiver` from the store's memory into the output, without an
object for each. The loop reads and routes the others: redeliveries, messages that wait for their
time, messages with added headers, and messages for receivers that need further checks.
"""

from __future__ import annotations

from midge.jetstream.config.consumer_config import ConsumerConfig
from midge.jetstream.consumer.ack_subject import AckSubject
from midge.jetstream.consumer.host import ConsumerHost
from midge.jetstream.consumer.pace import Pace
from midge.jetstream.consumer.tracking import NO_ACKS, Tracking
from midge.jetstream.environment.clock import Timer
from midge.jetstream.environment.sink import Receiver
from midge.jetstream.headers import add_lines
from midge.jetstream.store.interface import StoredMessage

MESSAGE_COST = 256
"""Fixed cost of a delivery in a turn's budget, besides the message's bytes, in the time to copy one
byte."""

_MESSAGE_COST = MESSAGE_COST  # C numbers where this is compiled
_NO_ACKS = NO_ACKS
_SECOND_NS = 1_000_000_000


class Delivering(Tracking):
    """A consumer's deliveries; subclasses choose the receivers.

    `num_pending` counts the messages that are to come, from `next_seq` to `counted_seq`.
    """

    def _begin_delivering(self, host: ConsumerHost, config: ConsumerConfig, name: bytes) -> None:
        self.filters: tuple[bytes, ...] = ()
        self.headers_only = False
        self.is_ready = False
        self.num_pending = 0
        self.counted_seq = 0
        self._passed_seq = 0  # messages from `next_seq` on and before this one do not match
        self._ack_subject: AckSubject | None = None  # made late: many consumers wait idle for long
        self._pace: Pace | None = None
        self._hold_timer: Timer | None = None
        self._held_seq = 0
        self._turn = 0
        self._is_at_limit = False
        self._adds_headers = False
        self._is_fetching = False
        self._begin_tracking(host, config, name)

    def deliver(self, budget: int) -> int:
        """Deliver what takes about `budget` bytes of a turn; return what it took.

        `is_ready` tells afterwards whether there is more; the host has been asked for another turn
        by then.
        """
        spent = 0
        self.is_ready = False
        self._turn += 1
        self._now_ns = self._ticks.monotonic_ns()
        self._wall_ns = self._ticks.wall_ns()
        self._is_at_limit = False
        self._is_fetching = False
        self._recount()
        while not self.is_closed and not self._is_fetching and self._may_deliver():
            if spent >= budget:
                self._turn_over()
                self.signal()
                return spent
            cost = self._deliver_run(budget - spent)
            if not cost and not self._is_fetching:
                cost = self._deliver_next()
            if not cost:
                break
            spent += cost
        self._turn_over()
        if not self.is_closed:
            self._drained()
        return spent

    def fetched(self) -> None:
        """Called when the message that the last turn waited for has been fetched."""
        self.signal()

    def _deliver_run(self, budget: int) -> int:
        """Deliver messages straight from the store, for about `budget` bytes; return the cost.

        It ends, with 0 if at once, before a message that `_deliver_next` has to see to.
        """
        if (
            self._adds_headers
            or self.headers_only
            or self.last_per_subject_upto
            or self._pace is not None
        ):
            return 0
        view = self.host.view
        ack = self._acks()
        visible = self.store.visible_seq
        spent = 0
        while spent < budget and not self.pending.queued and not self.is_full():
            receiver = self._receiver()
            if receiver is None or self.next_seq > visible:
                break
            start = self._passed_seq if self._passed_seq > self.next_seq else self.next_seq
            found = self.store.try_next(self.filters, start, visible, view, self)
            if found <= 0:
                self._is_fetching = found < 0
                break
            if not receiver.is_open(view):
                break
            seq = view.seq
            self.next_seq = seq + 1
            pending = self.num_pending - 1
            ack.compose(1, seq, self.next_consumer_seq, view.time_ns, pending if pending > 0 else 0)
            size = view.size() + ack.end
            more = receiver.subject_size - (view.subject_end - view.subject_start)
            self._serve()
            receiver.take(view, ack.text, ack.end)
            self.num_pending -= 1
            self._note_delivery(seq, 1)
            self._delivered(size + more)
            spent += size + _MESSAGE_COST
            if self.is_closed or not self._may_deliver():
                break
        return spent

    def _deliver_next(self) -> int:
        """Deliver one message; return its cost in bytes, 0 without a message or receiver."""
        message = self._next_message()
        return 0 if message is None else self._hand_over(message)

    def _acks(self) -> AckSubject:
        """Return what composes the ack subjects."""
        if self._ack_subject is None:
            self._ack_subject = AckSubject(ack_prefix(self.host, self.name))
        return self._ack_subject

    def _may_deliver(self) -> bool:
        """Return whether there is a receiver, and delivering is allowed."""
        raise NotImplementedError

    def _target(self, size: int) -> bytes | None:
        """Return the subject that a message of this size goes to; None without a receiver."""
        raise NotImplementedError

    def _receiver(self) -> Receiver | None:
        """Return the receiver that may get the next message straight from the store, or None."""
        return None

    def _serve(self) -> None:
        """Called before the receiver of `_receiver` gets a message."""

    def _turn_over(self) -> None:
        """See to the end of a turn."""

    def _delivered(self, size: int) -> None:
        """Called after a delivery; `size` counts the bytes sent."""

    def _not_taken(self, target: bytes) -> None:
        """Handle a message that the receiver found by `_target` did not take."""

    def _held_back(self, message: StoredMessage, size: int) -> bool:
        """Return whether a message must wait: for its time in a replay, or for the rate limit."""
        if self._pace is None:
            return False
        if message.seq == self._held_seq:
            self._held_seq = 0
            return False
        delay_ns = self._pace.delay_ns(message.seq, message.time_ns, size, self._now_ns)
        if delay_ns <= 0:
            return False
        self._held_seq = message.seq
        self._hold_timer = self.clock.call_later(delay_ns / _SECOND_NS, self._release_held)
        return True

    def _release_held(self) -> None:
        self._hold_timer = None
        self.signal()

    def _more_headers(self, headers: bytes) -> bytes:
        """Add to the headers of a message what the consumer has to say with it."""
        return headers

    def _drained(self) -> None:
        """Answer waiting requests once nothing more can be delivered."""

    def _hand_over(self, message: StoredMessage) -> int:
        """Deliver a message; return its cost in bytes of a turn, 0 if it was not taken."""
        deliveries = self._deliveries
        pending = self.num_pending - (deliveries == 1)
        ack = self._acks()
        ack.compose(
            deliveries,
            message.seq,
            self.next_consumer_seq,
            message.time_ns,
            pending if pending > 0 else 0,
        )
        reply = ack.copied()
        headers = message.headers
        payload = message.payload
        if self.headers_only:
            headers = add_lines(headers, b"Nats-Msg-Size: %d\r\n" % len(payload))
            payload = b""
        size = len(message.subject) + len(reply) + len(headers) + len(payload)
        if self._held_back(message, size):
            self._put_back(message.seq, deliveries, is_first=True)
            return 0
        target = self._target(size)
        if target is None:
            self._put_back(message.seq, deliveries, is_first=False)
            return 0
        headers = self._more_headers(headers)
        if not self.sink.deliver(target, message.subject, reply, headers, payload):
            self._put_back(message.seq, deliveries, is_first=True)
            self._not_taken(target)
            return _MESSAGE_COST
        if deliveries == 1:
            self.num_pending -= 1
        self._note_delivery(message.seq, deliveries)
        self._delivered(size + len(target) - len(message.subject))
        return size + _MESSAGE_COST

    def _note_delivery(self, seq: int, deliveries: int) -> None:
        """Count a delivery, and begin to wait for its ack."""
        consumer_seq = self.next_consumer_seq
        self.next_consumer_seq = consumer_seq + 1
        self.delivered_consumer_seq = consumer_seq
        self.delivered_seq = max(self.delivered_seq, seq)
        self.last_delivery_ns = self._wall_ns
        if self.ack_policy == _NO_ACKS:
            self.floor_consumer_seq = consumer_seq
            self.floor_seq = seq
            self.shown_floor_consumer_seq = consumer_seq
            self.shown_floor_seq = max(self.shown_floor_seq, seq)
            if not self.keeps_all:
                self.host.acked(seq)
        else:
            self._track(seq, consumer_seq)
        if self.log is not None:
            if self.ack_policy == _NO_ACKS:
                self.log.moved()
            else:
                self.log.changed(seq)

    def _put_back(self, seq: int, deliveries: int, is_first: bool) -> None:
        """Undo the choice of a message."""
        if deliveries == 1:
            self.next_seq = seq
            return
        again = self.redelivered.get(seq, 0) - 1
        if again > 0:
            self.count_again(seq, again)
        else:
            self.redelivered.pop(seq, None)
        entry = self.pending.get(seq)
        if entry is None:
            return
        if is_first:
            self.pending.enqueue_first(entry)
        else:
            self.pending.enqueue(entry)

    def _next_message(self) -> StoredMessage | None:
        """Return the message to deliver next, or None, and set `_deliveries`."""
        while self.pending.queued:
            if not self._is_at_hand(self.pending.next_queued()):
                return None
            message = self._next_again()
            if message is not None:
                return message
        if self.is_full():
            self._is_at_limit = True
            return None
        self._deliveries = 1
        if self.last_per_subject_upto:
            message = self._next_last()
            if message is not None or self._is_fetching:
                return message
        visible = self.store.visible_seq
        if self.next_seq > visible:
            return None
        start = self._passed_seq if self._passed_seq > self.next_seq else self.next_seq
        seq = self.store.next_seq(self.filters, start, visible)
        if seq and not self._is_at_hand(seq):
            return None
        message = self.store.load(seq) if seq else None
        if message is None:
            self.next_seq = visible + 1
            self.num_pending = 0
            self.counted_seq = visible
            return None
        self.next_seq = message.seq + 1
        return message

    def _is_at_hand(self, seq: int) -> bool:
        """Return whether a message can be read at once; otherwise this turn ends, for another."""
        self._is_fetching = not self.store.is_at_hand(seq, self)
        return not self._is_fetching

    def _next_last(self) -> StoredMessage | None:
        """Return the next message that was its subject's last when the consumer was made."""
        upto = self.last_per_subject_upto
        while self.next_seq <= upto:
            seq = self.store.next_last_seq(self.filters, self.next_seq, upto)
            if not seq:
                break
            if not self._is_at_hand(seq):
                return None
            self.next_seq = seq + 1
            message = self.store.load(seq)
            if message is not None:
                return message
        self.next_seq = max(self.next_seq, upto + 1)
        self.last_per_subject_upto = 0
        return None

    # What `Consumer` adds.

    def _recount(self) -> None:
        """Count again if counted messages may have been removed."""
        raise NotImplementedError


def ack_prefix(host: ConsumerHost, name: bytes) -> bytes:
    """Return what the ack subjects of a consumer begin with."""
    if not host.has_second_acks:
        return b"$JS.ACK.%b.%b." % (host.stream, name)
    domain = (host.domain or "_").encode()
    return b"$JS.ACK.%b.%b.%b.%b." % (domain, host.account_hash.encode(), host.stream, name)
