"""Pull consumers: the choice of a request for the next message, and the status of the others."""

from __future__ import annotations

from midge.jetstream.config.consumer_config import ConsumerConfig
from midge.jetstream.consumer import statuses
from midge.jetstream.consumer.consumer import Consumer
from midge.jetstream.consumer.priority import Pin
from midge.jetstream.consumer.receivers import Receivers
from midge.jetstream.consumer.requests import (
    BadRequestError,
    PullRequest,
    RequestBody,
    RequestQueue,
    read_body,
)
from midge.jetstream.environment.clock import Timer
from midge.jetstream.environment.sink import Receiver
from midge.jetstream.json.times import format_duration
from midge.jetstream.store.interface import MessageView

_SECOND_NS = 1_000_000_000
_MILLISECOND_NS = 1_000_000
_DISK_WAIT_S = 1.0  # most that requests wait which must not; a disk that is well takes 0.1 ms
_SWEEP_INTERVAL_NS = _SECOND_NS  # how often a full queue is searched for requests without interest

_SWEPT_FREELY = 1_000  # waiting requests, which a sweep looks at in 0.4 ms
_PAUSE_OF_REQUEST_NS = 8_000  # twenty times what a sweep takes for one
_REQUEST_WORK = 40  # items of 10 ns; see `Store.work`

REPLY_OF_IMPORT = b"_R_."
"""Prefix of the reply subjects of requests from other accounts."""

_NO_PRIORITY = 0
_OVERFLOW = 1
_PINNED = 2
_PRIORITIZED = 3
_POLICIES = {
    "none": _NO_PRIORITY,
    "overflow": _OVERFLOW,
    "pinned_client": _PINNED,
    "prioritized": _PRIORITIZED,
}


class PullRequests(Receivers):
    """The pull requests of a consumer, which are served in rotation, one message each.

    A request ends when its batch is complete, when it expires, when its inbox has lost its
    subscriber, or with a status that gives the reason. A request with `no_wait` ends at the end of
    the stream, behind the messages that are being written to the disk.
    """

    def __init__(self, consumer: Consumer) -> None:
        self.header_line = b""
        self._consumer = consumer
        self.queue = RequestQueue(consumer.acks.config.max_waiting)
        self.pin: Pin | None = None
        self._served: PullRequest | None = None
        self._timer: Timer | None = None
        self._timer_ns = 0
        self._swept_ns = 0
        self._disk_timer: Timer | None = None
        self._is_disk_late = False
        self.follow(consumer.acks.config)

    def follow(self, config: ConsumerConfig) -> None:
        """See `Receivers.follow`."""
        self.priority_policy = _POLICIES[config.priority_policy]
        if self.pin is None and (self.priority_policy or config.priority_groups):
            self.pin = Pin(self._consumer)
        self.queue.is_prioritized = self.priority_policy == _PRIORITIZED
        if self.priority_policy != _PINNED:
            self.header_line = b""

    # Life.

    def stop(self) -> None:
        """See `Receivers.stop`."""
        self.queue.clear()
        if self.pin is not None:
            self.pin.stop()
        for timer in (self._timer, self._disk_timer):
            if timer is not None:
                timer.cancel()
        self._timer = None
        self._disk_timer = None

    def release(self) -> None:
        """See `Receivers.release`."""
        self.end_all(statuses.CONSUMER_DELETED)

    def end_all(self, status: bytes) -> int:
        """End all requests with a status; return how many there were."""
        count = len(self.queue)
        for request in self.queue:
            self._send_status(request, status)
        self.queue.clear()
        return count

    def shut_down(self) -> None:
        """Answer waiting requests, as the server stops."""
        for request in self.queue:
            self._send_status(request, statuses.server_shutdown(request.left, request.bytes_left))
        self.queue.clear()

    def num_waiting(self) -> int:
        """Return how many requests wait, those that have ended meanwhile taken out.

        Of very many those that ended within the time of some sweeps may be among them.
        """
        if self._consumer.host.clock.monotonic_ns() - self._swept_ns >= self._least_pause_ns():
            self._sweep(is_at_end=False)
        return len(self.queue)

    def _least_pause_ns(self) -> int:
        """Return how long a sweep is not repeated: a share of the time is enough for them."""
        count = len(self.queue)
        return 0 if count <= _SWEPT_FREELY else count * _PAUSE_OF_REQUEST_NS

    def priority_groups(self) -> list[dict[str, str]]:
        """See `Receivers.priority_groups`."""
        groups = self._consumer.acks.config.priority_groups
        return [self.pin.fields(groups[0])] if groups and self.pin is not None else []

    def used_until_ns(self, now_ns: int) -> int:
        """See `Receivers.used_until_ns`: a request or a pending message is a use."""
        self._sweep(is_at_end=True)
        return now_ns if len(self.queue) else self._consumer.acks.last_due_ns()

    # Requests.

    def request(self, reply: bytes, body: bytes) -> None:
        """See `Receivers.request`."""
        consumer = self._consumer
        try:
            asked = read_body(body)
        except BadRequestError as problem:
            self._refuse(reply, statuses.bad_request(str(problem)))
            return
        now_ns = consumer.host.ticks.monotonic_ns()
        refusal = self._refusal(asked) or self._refusal_of_priority(asked)
        if not refusal:
            refusal = self._refusal_now(asked, now_ns)
        if refusal:
            self._refuse(reply, refusal)
            return
        if self.queue.is_full():
            # A client that expects heartbeats notices by itself; a status would make it ask again.
            if asked.heartbeat_ns == 0:
                self._refuse(reply, statuses.EXCEEDED_MAX_WAITING)
            return
        request = PullRequest()
        request.ask(reply, asked, now_ns)
        self.queue.add(request)
        consumer.last_active_ns = now_ns
        consumer.asks_for_one = asked.batch == 1 and len(self.queue) == 1
        consumer.signal()
        consumer.asks_for_one = False
        if not consumer.is_ready:
            self._sweep(is_at_end=not self._is_stalled())

    def _refusal(self, asked: RequestBody) -> bytes:
        """Return the status that says which limit a request exceeds, empty for none."""
        config = self._consumer.acks.config
        if 0 < config.max_batch < asked.batch:
            return statuses.exceeded("MaxRequestBatch", config.max_batch)
        if asked.expires_ns and 0 < config.max_expires_ns < asked.expires_ns:
            return statuses.exceeded("MaxRequestExpires", format_duration(config.max_expires_ns))
        if 0 < config.max_bytes < asked.max_bytes:
            return statuses.exceeded("MaxRequestMaxBytes", config.max_bytes)
        return b""

    def _refusal_of_priority(self, asked: RequestBody) -> bytes:
        """Return the status for a fault in a request's priority, empty for none."""
        if not asked.has_options:
            return b""
        policy = self.priority_policy
        if (asked.min_pending or asked.min_ack_pending) and policy != _OVERFLOW:
            return statuses.bad_request("Not a Overflow Priority consumer")
        if asked.pin_id and policy != _PINNED:
            return statuses.bad_request("Not a Pinned Client Priority consumer")
        if not 0 <= asked.priority <= 9:
            return statuses.bad_request("Priority must be between 0 and 9")
        if policy == _NO_PRIORITY:
            return b""
        if not asked.group:
            return statuses.bad_request("Priority Group missing")
        if asked.group not in self._consumer.acks.config.priority_groups:
            return statuses.bad_request("Invalid Priority Group")
        return b"" if self.pin is None else self.pin.refusal(asked)

    def _refusal_now(self, asked: RequestBody, now_ns: int) -> bytes:
        """Return the status for a request that must not wait although it is right."""
        if self.queue.is_full() and now_ns - self._swept_ns > _SWEEP_INTERVAL_NS:
            self._sweep(is_at_end=False)
        if not asked.no_wait:
            return b""
        acks = self._consumer.acks
        acks.recount()
        pending = max(acks.num_pending, 0) + acks.pending.queued
        if (
            pending == 0
            and asked.expires_ns == 0
            and (self._is_disk_late or not acks.is_more_coming())
        ):
            self._consumer.last_active_ns = now_ns
            return statuses.NO_MESSAGES
        if self._is_stalled():
            pending += acks.count_coming()
        if pending > 0 and pending < self._sweep(is_at_end=False):
            self._consumer.last_active_ns = now_ns
            return statuses.REQUESTS_PENDING
        return b""

    def _refuse(self, reply: bytes, status: bytes) -> None:
        self._consumer.host.sink.send(reply, b"", status, b"")

    def _send_status(self, request: PullRequest, status: bytes) -> None:
        self._consumer.host.sink.send(request.reply, b"", status, b"")

    # Delivering.

    def is_open(self) -> bool:
        """See `Receivers.is_open`."""
        return self.queue.first is not None

    def _is_stalled(self) -> bool:
        """Return whether too much awaits its ack for anything but redeliveries."""
        acks = self._consumer.acks
        return not acks.pending.queued and acks.is_full()

    def next_subject(self, size: int) -> bytes | None:
        """Return the inbox of the request whose turn it is; end those that cannot be served."""
        requests = self.queue
        now_ns = self._consumer.host.now_ns
        pin = self.pin
        needs_pin = pin is not None and self.priority_policy == _PINNED and not pin.pin_id
        passed = 0
        while True:
            request = requests.first
            if request is None:
                return None
            if request.expires_ns and now_ns >= request.expires_ns:
                status = statuses.request_timeout(request.left, request.bytes_left)
                self._end_head(request, status)
                continue
            if pin is not None and self.priority_policy != _NO_PRIORITY:
                if request.pin_id and request.pin_id != pin.pin_id:
                    status = statuses.wrong_pin_id(request.left, request.bytes_left)
                    self._end_head(request, status)
                    continue
                if not needs_pin and self._is_passed_over(request):
                    requests.rotate()
                    passed += 1
                    if passed >= len(requests):
                        return None
                    continue
            if request.bytes_left > 0 and not self._fits(request, size):
                continue
            if self._has_interest(request):
                if needs_pin and pin is not None and request.group:
                    pin.assign(request)
                if pin is not None and self.priority_policy == _PINNED:
                    self.header_line = b"Nats-Pin-Id: %b\r\n" % pin.pin_id.encode()
                self._served = requests.serve_first()
                return request.reply
            self._drop_head_without_interest(request)

    def next_receiver(self, view: MessageView) -> Receiver | None:
        """Return the receiver of the request whose turn it is, looked up once per turn."""
        request = self.queue.first
        if (
            request is None
            or request.bytes_left > 0
            or self.priority_policy == _OVERFLOW
            or self.priority_policy == _PINNED
        ):
            return None
        host = self._consumer.host
        if request.expires_ns and host.now_ns >= request.expires_ns:
            return None
        if request.receiver_turn != host.turn:
            request.receiver_turn = host.turn
            request.receiver = host.sink.receiver(request.reply)
            host.receiving.append(request)
        receiver = request.receiver
        if receiver is None or not receiver.is_open(view):
            return None
        self._served = self.queue.serve_first()
        return receiver

    def _is_passed_over(self, request: PullRequest) -> bool:
        """Return whether a request waits although it is its turn."""
        if self.pin is not None and self.pin.pin_id:
            return request.pin_id != self.pin.pin_id
        if self.priority_policy != _OVERFLOW:
            return False
        if request.min_pending <= 0 and request.min_ack_pending <= 0:
            return False
        acks = self._consumer.acks
        return not (
            0 < request.min_pending <= acks.num_pending
            or 0 < request.min_ack_pending <= len(acks.pending.entries)
        )

    def _fits(self, request: PullRequest, size: int) -> bool:
        """Take a message off the request's bytes; end the request if it is too large."""
        if size > request.bytes_left:
            status = statuses.exceeds_max_bytes(request.left, request.bytes_left)
            self._end_head(request, status)
            return False
        request.bytes_left -= size
        if request.bytes_left == 0:
            request.left = 1
        return True

    def _has_interest(self, request: PullRequest) -> bool:
        """Return whether a request's inbox is subscribed to; asked once in a turn."""
        host = self._consumer.host
        if request.checked_turn == host.turn:
            return True
        if host.sink.has_interest(request.reply):
            request.checked_turn = host.turn
            return True
        return False

    def _end_head(self, request: PullRequest, status: bytes) -> None:
        self.queue.remove_after(None)
        self._send_status(request, status)

    def _drop_head_without_interest(self, request: PullRequest) -> None:
        self.queue.remove_after(None)
        if request.reply.startswith(REPLY_OF_IMPORT):
            self._send_status(request, statuses.interest_expired(request.left, request.bytes_left))

    def delivered(self, size: int, *, is_taken: bool) -> None:
        """See `Receivers.delivered`."""
        request = self._served
        assert request is not None
        if not is_taken:
            self.queue.restore(request)
            request.checked_turn = 0
            return
        now_ns = self._consumer.host.now_ns
        self._consumer.last_active_ns = now_ns
        if request.left > 0:
            if request.heartbeat_ns > 0:
                request.heartbeat_due_ns = now_ns + request.heartbeat_ns
        elif request.bytes_left > 0:
            self._send_status(request, statuses.batch_completed(request.left, request.bytes_left))

    def end_turn(self, *, is_drained: bool, is_at_end: bool) -> None:
        """Hold on to no receiver between turns: its connection may have gone by the next one."""
        receiving = self._consumer.host.receiving
        for request in receiving:
            request.receiver = None
        receiving.clear()
        if is_drained:
            self._sweep(is_at_end=is_at_end)

    # Requests that wait.

    def _sweep(self, is_at_end: bool) -> int:
        """End the requests that need wait no longer, and send heartbeats to the others.

        Returns:
            How many messages those that stay have asked for.
        """
        if not len(self.queue):
            return 0
        now_ns = self._consumer.host.clock.monotonic_ns()
        self._swept_ns = now_ns
        self._consumer.host.store.work += len(self.queue) * _REQUEST_WORK
        asked = 0
        due_ns = 0
        before: PullRequest | None = None
        request = self.queue.first
        while request is not None:
            if self._is_over(request, now_ns, is_at_end):
                self.queue.remove_after(before)
            else:
                asked += request.left
                due_ns = self._next_due(request, now_ns, due_ns)
                before = request
            request = self.queue.first if before is None else before.next
        if due_ns and (self._timer_ns == 0 or due_ns < self._timer_ns):
            self._arm_timer(due_ns, now_ns)
        return asked

    def _is_over(self, request: PullRequest, now_ns: int, is_at_end: bool) -> bool:
        """Return whether a request ends now; send its client the reason."""
        if request.expires_ns and now_ns >= request.expires_ns:
            self._send_status(request, statuses.request_timeout(request.left, request.bytes_left))
            return True
        if is_at_end and request.no_wait and (not request.expires_ns or request.delivered):
            if self._consumer.is_fetching or self._waits_for_disk(request):
                return False
            self._send_status(request, statuses.NO_MESSAGES)
            return True
        return not self._consumer.host.sink.has_interest(request.reply)

    # Requests with `no_wait`, while messages are being written to the disk.

    def _waits_for_disk(self, request: PullRequest) -> bool:
        """Return whether a request that would end waits for messages being written to the disk.

        It waits once after each message that it gets, because new messages may arrive as fast as
        the disk takes the old ones. It does not wait for a full disk.
        """
        store = self._consumer.host.store
        if store.visible_seq >= store.last_seq or self._is_disk_late:
            return False
        if request.awaited_after != request.delivered:
            if not self._consumer.acks.is_more_coming():
                return False
            request.awaited_after = request.delivered
            request.awaited_seq = store.last_seq
        elif request.awaited_seq <= store.visible_seq:
            return False
        if self._disk_timer is None:
            self._disk_timer = self._consumer.host.clock.call_later(_DISK_WAIT_S, self._disk_late)
            store.barrier(self.disk_answered)
        return True

    def _disk_late(self) -> None:
        self._is_disk_late = True
        self._sweep(is_at_end=not self._is_stalled())

    def disk_answered(self) -> None:
        """See `Receivers.disk_answered`."""
        consumer = self._consumer
        self._is_disk_late = False
        if self._disk_timer is not None:
            self._disk_timer.cancel()
            self._disk_timer = None
        if consumer.is_closed or consumer.is_ready:
            return
        consumer.signal()
        if not consumer.is_ready:
            self._sweep(is_at_end=not self._is_stalled())

    # When requests are looked at again.

    def _next_due(self, request: PullRequest, now_ns: int, due_ns: int) -> int:
        """Send a due heartbeat; return the earlier of `due_ns` and the request's next deadline."""
        if request.heartbeat_due_ns:
            if now_ns >= request.heartbeat_due_ns:
                self._send_status(request, self._heartbeat())
                request.heartbeat_due_ns = now_ns + request.heartbeat_ns
            if due_ns == 0 or request.heartbeat_due_ns < due_ns:
                due_ns = request.heartbeat_due_ns
        if request.expires_ns and (due_ns == 0 or request.expires_ns < due_ns):
            due_ns = request.expires_ns
        return due_ns

    def _heartbeat(self) -> bytes:
        acks = self._consumer.acks
        return statuses.idle_heartbeat(acks.next_consumer_seq - 1, max(acks.next_seq - 1, 0))

    def _arm_timer(self, due_ns: int, now_ns: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = due_ns
        delay_ns = max(due_ns - now_ns, _MILLISECOND_NS, self._least_pause_ns())
        self._timer = self._consumer.host.clock.call_later(
            delay_ns / _SECOND_NS, self._requests_due
        )

    def _requests_due(self) -> None:
        self._timer = None
        self._timer_ns = 0
        self._sweep(is_at_end=True)
        self._consumer.signal()
