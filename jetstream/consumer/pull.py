"""Pull consumers: the choice of a request for the next message, and the status of the others."""

from __future__ import annotations

from midge.jetstream.config.consumer_config import ConsumerConfig
from midge.jetstream.consumer import statuses
from midge.jetstream.consumer.consumer import Consumer
from midge.jetstream.consumer.host import ConsumerHost
from midge.jetstream.consumer.priority import Pin
from midge.jetstream.consumer.requests import (
    BadRequestError,
    PullRequest,
    RequestBody,
    RequestQueue,
    read_body,
)
from midge.jetstream.environment.clock import Timer
from midge.jetstream.environment.sink import Receiver
from midge.jetstream.headers import add_lines
from midge.jetstream.json.times import format_duration

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


class PullConsumer(Consumer):
    """A consumer that delivers on request.

    While a turn is requested, `asks_for_one` is True if it is for a single message, which can also
    be delivered at once.

    The consumer serves the requests in rotation, one message each. A request ends when its batch is
    complete, when it expires, when its inbox has lost its subscriber, or with a status that gives
    the reason. A request with `no_wait` ends at the end of the stream, behind the messages that are
    being written to the disk.
    """

    def __init__(self, host: ConsumerHost, config: ConsumerConfig, name: bytes) -> None:
        self.requests = RequestQueue(config.max_waiting)
        self.pin: Pin | None = None
        self.last_active_ns = host.clock.monotonic_ns()
        self._served: PullRequest | None = None
        self._received: list[PullRequest] | None = None
        self.asks_for_one = False
        self._request_timer: Timer | None = None
        self._request_timer_ns = 0
        self._swept_ns = 0
        self._disk_timer: Timer | None = None
        self._is_disk_late = False
        self._inactive_timer: Timer | None = None
        self._threshold_ns = 0
        self._begin_consumer(host, config, name)

    def follow(self, config: ConsumerConfig) -> None:
        """See `Tracking.follow`."""
        Consumer.follow(self, config)
        self.priority_policy = _POLICIES[config.priority_policy]
        if self.pin is None and (self.priority_policy or config.priority_groups):
            self.pin = Pin(self)
        self.requests.is_prioritized = self.priority_policy == _PRIORITIZED
        self._adds_headers = self.priority_policy == _PINNED

    # Life.

    def stop(self) -> None:
        """See `Consumer.stop`."""
        Consumer.stop(self)
        self.requests.clear()
        if self.pin is not None:
            self.pin.stop()
        for timer in (self._request_timer, self._disk_timer, self._inactive_timer):
            if timer is not None:
                timer.cancel()
        self._request_timer = None
        self._disk_timer = None
        self._inactive_timer = None

    def release(self) -> None:
        """See `Consumer.release`."""
        for request in self.requests:
            self._say(request, statuses.CONSUMER_DELETED)
        self.requests.clear()

    def shut_down(self) -> None:
        """Answer waiting requests, as the server stops."""
        for request in self.requests:
            self._say(request, statuses.server_shutdown(request.left, request.bytes_left))
        self.requests.clear()

    def num_waiting(self) -> int:
        """Return how many requests wait, those that have ended meanwhile taken out.

        Of very many those that ended within the time of some sweeps may be among them.
        """
        if self.clock.monotonic_ns() - self._swept_ns >= self._least_pause_ns():
            self._sweep(is_at_end=False)
        return len(self.requests)

    def _least_pause_ns(self) -> int:
        """Return how long a sweep is not repeated: a share of the time is enough for them."""
        count = len(self.requests)
        return 0 if count <= _SWEPT_FREELY else count * _PAUSE_OF_REQUEST_NS

    def priority_groups(self) -> list[dict[str, str]]:
        """See `Consumer.priority_groups`."""
        groups = self.config.priority_groups
        return [self.pin.fields(groups[0])] if groups and self.pin is not None else []

    def touch(self) -> None:
        """See `Tracking.touch`."""
        if self._threshold_ns:
            self.last_active_ns = self._ticks.monotonic_ns()

    # Inactivity.

    def watch_activity(self) -> None:
        """See `Consumer.watch_activity`."""
        if self._inactive_timer is not None:
            self._inactive_timer.cancel()
            self._inactive_timer = None
        threshold_ns = self.config.inactive_threshold_ns
        self._threshold_ns = 0
        if threshold_ns > 0:
            # nats-server adds 0.1 to 1 s, so that consumers made together do not go together.
            if not self.clock.is_exact:
                threshold_ns += (100 + int(self.host.random() * 900)) * _MILLISECOND_NS
            self._threshold_ns = threshold_ns
            self._look_again(self._threshold_ns)

    def _look_again(self, delay_ns: int) -> None:
        delay_s = delay_ns / _SECOND_NS
        self._inactive_timer = self.clock.call_later(delay_s, self._check_activity)

    def _check_activity(self) -> None:
        """Delete the consumer unless it was used, has a request, or has a pending message."""
        self._inactive_timer = None
        now_ns = self.clock.monotonic_ns()
        idle_ns = now_ns - self.last_active_ns
        if idle_ns < self._threshold_ns:
            self._look_again(self._threshold_ns - idle_ns)
            return
        self._sweep(is_at_end=True)
        if len(self.requests):
            self._look_again(self._threshold_ns)
            return
        delay_ns = self._last_due_ns() + self._threshold_ns - now_ns
        if self.pending.first is not None and delay_ns > 0:
            self._look_again(delay_ns)
            return
        self.host.expired(self)

    def _last_due_ns(self) -> int:
        """Return when the last of the pending messages is to be acknowledged."""
        due_ns = 0
        entry = self.pending.first
        while entry is not None:
            again = max(self.redelivered.get(entry.seq, 0), 0)
            due_ns = max(due_ns, entry.sent_ns + self.pending.wait_ns(again))
            entry = entry.after
        return due_ns

    # Requests.

    def request(self, reply: bytes, body: bytes) -> None:
        """Take a pull request; one without a reply subject is ignored."""
        if not reply or self.is_closed:
            return
        try:
            asked = read_body(body)
        except BadRequestError as problem:
            self._refuse(reply, statuses.bad_request(str(problem)))
            return
        now_ns = self._ticks.monotonic_ns()
        refusal = self._refusal(asked) or self._refusal_of_priority(asked)
        if not refusal:
            refusal = self._refusal_now(asked, now_ns)
        if refusal:
            self._refuse(reply, refusal)
            return
        if self.requests.is_full():
            # A client that expects heartbeats notices by itself; told, it would ask at once again.
            if asked.heartbeat_ns == 0:
                self._refuse(reply, statuses.EXCEEDED_MAX_WAITING)
            return
        request = PullRequest()
        request.ask(reply, asked, now_ns)
        self.requests.add(request)
        self.last_active_ns = now_ns
        self.asks_for_one = asked.batch == 1 and len(self.requests) == 1
        self.signal()
        self.asks_for_one = False
        if not self.is_ready:
            self._sweep(is_at_end=not self._is_stalled())

    def _refusal(self, asked: RequestBody) -> bytes:
        """Return the status that tells which limit a request exceeds, empty for none."""
        config = self.config
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
        if asked.group not in self.config.priority_groups:
            return statuses.bad_request("Invalid Priority Group")
        return b"" if self.pin is None else self.pin.refusal(asked)

    def _refusal_now(self, asked: RequestBody, now_ns: int) -> bytes:
        """Return the status for a request that must not wait although it is right."""
        if self.requests.is_full() and now_ns - self._swept_ns > _SWEEP_INTERVAL_NS:
            self._sweep(is_at_end=False)
        if not asked.no_wait:
            return b""
        self._recount()
        pending = max(self.num_pending, 0) + self.pending.queued
        if (
            pending == 0
            and asked.expires_ns == 0
            and (self._is_disk_late or not self._is_more_coming())
        ):
            self.last_active_ns = now_ns
            return statuses.NO_MESSAGES
        if self._is_stalled():
            pending += self._count_coming()
        if pending > 0 and pending < self._sweep(is_at_end=False):
            self.last_active_ns = now_ns
            return statuses.REQUESTS_PENDING
        return b""

    def _refuse(self, reply: bytes, status: bytes) -> None:
        self.sink.send(reply, b"", status, b"")

    def _say(self, request: PullRequest, status: bytes) -> None:
        self.sink.send(request.reply, b"", status, b"")

    # Delivering.

    def _may_deliver(self) -> bool:
        return self.requests.first is not None and not (self.paused_until_ns and self.is_paused())

    def _is_stalled(self) -> bool:
        """Return whether too much awaits its ack for anything but redeliveries."""
        return not self.pending.queued and self.is_full()

    def _target(self, size: int) -> bytes | None:
        """Return the inbox of the request whose turn it is; end those that cannot be served."""
        requests = self.requests
        pin = self.pin
        needs_pin = pin is not None and self.priority_policy == _PINNED and not pin.pin_id
        passed = 0
        while True:
            request = requests.first
            if request is None:
                return None
            if request.expires_ns and self._now_ns >= request.expires_ns:
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
                self._served = requests.serve_first()
                return request.reply
            self._drop_head_without_interest(request)

    def _receiver(self) -> Receiver | None:
        """Return the receiver of the request whose turn it is, looked up once per turn."""
        request = self.requests.first
        if request is None or request.bytes_left > 0 or self.priority_policy == _OVERFLOW:
            return None
        if request.expires_ns and self._now_ns >= request.expires_ns:
            return None
        if request.receiver_turn != self._turn:
            request.receiver_turn = self._turn
            request.receiver = self.sink.receiver(request.reply)
            if self._received is None:
                self._received = []
            self._received.append(request)
        return request.receiver

    def _turn_over(self) -> None:
        """Hold on to no receiver between turns: its connection may have gone by the next one."""
        if self._received is not None:
            for request in self._received:
                request.receiver = None
            self._received.clear()

    def _serve(self) -> None:
        self._served = self.requests.serve_first()

    def _is_passed_over(self, request: PullRequest) -> bool:
        """Return whether a request waits although it is its turn."""
        if self.pin is not None and self.pin.pin_id:
            return request.pin_id != self.pin.pin_id
        if self.priority_policy != _OVERFLOW:
            return False
        if request.min_pending <= 0 and request.min_ack_pending <= 0:
            return False
        return not (
            0 < request.min_pending <= self.num_pending
            or 0 < request.min_ack_pending <= len(self.pending.entries)
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
        if request.checked_turn == self._turn:
            return True
        if self.sink.has_interest(request.reply):
            request.checked_turn = self._turn
            return True
        return False

    def _end_head(self, request: PullRequest, status: bytes) -> None:
        self.requests.remove_after(None)
        self._say(request, status)

    def _drop_head_without_interest(self, request: PullRequest) -> None:
        self.requests.remove_after(None)
        if request.reply.startswith(REPLY_OF_IMPORT):
            self._say(request, statuses.interest_expired(request.left, request.bytes_left))

    def _more_headers(self, headers: bytes) -> bytes:
        if self.pin is None or self.priority_policy != _PINNED:
            return headers
        return add_lines(headers, b"Nats-Pin-Id: %b\r\n" % self.pin.pin_id.encode())

    def _delivered(self, size: int) -> None:
        request = self._served
        assert request is not None
        self.last_active_ns = self._now_ns
        if request.left > 0:
            if request.heartbeat_ns > 0:
                request.heartbeat_due_ns = self._now_ns + request.heartbeat_ns
        elif request.bytes_left > 0:
            self._say(request, statuses.batch_completed(request.left, request.bytes_left))

    def _not_taken(self, target: bytes) -> None:
        request = self._served
        assert request is not None
        self.requests.restore(request)
        request.checked_turn = 0

    def _drained(self) -> None:
        self._sweep(is_at_end=not self._is_at_limit)

    # Requests that wait.

    def _sweep(self, is_at_end: bool) -> int:
        """End the requests that need wait no longer, and send heartbeats to the others.

        Returns:
            How many messages those that stay have asked for.
        """
        if not len(self.requests):
            return 0
        now_ns = self.clock.monotonic_ns()
        self._swept_ns = now_ns
        self.store.work += len(self.requests) * _REQUEST_WORK
        asked = 0
        due_ns = 0
        before: PullRequest | None = None
        request = self.requests.first
        while request is not None:
            if self._is_over(request, now_ns, is_at_end):
                self.requests.remove_after(before)
            else:
                asked += request.left
                due_ns = self._next_due(request, now_ns, due_ns)
                before = request
            request = self.requests.first if before is None else before.next
        if due_ns and (self._request_timer_ns == 0 or due_ns < self._request_timer_ns):
            self._arm_request_timer(due_ns, now_ns)
        return asked

    def _is_over(self, request: PullRequest, now_ns: int, is_at_end: bool) -> bool:
        """Return whether a request ends now, and tell its client why."""
        if request.expires_ns and now_ns >= request.expires_ns:
            self._say(request, statuses.request_timeout(request.left, request.bytes_left))
            return True
        if is_at_end and request.no_wait and (not request.expires_ns or request.delivered):
            if self._is_fetching or self._waits_for_disk(request):
                return False
            self._say(request, statuses.NO_MESSAGES)
            return True
        return not self.sink.has_interest(request.reply)

    # Requests with `no_wait`, while messages are being written to the disk.

    def _waits_for_disk(self, request: PullRequest) -> bool:
        """Return whether a request that would end waits for messages being written to the disk.

        It waits once after each message that it gets, because new messages may arrive as fast as
        the disk takes the old ones. It does not wait for a full disk.
        """
        store = self.store
        if store.visible_seq >= store.last_seq or self._is_disk_late:
            return False
        if request.awaited_after != request.delivered:
            if not self._is_more_coming():
                return False
            request.awaited_after = request.delivered
            request.awaited_seq = store.last_seq
        elif request.awaited_seq <= store.visible_seq:
            return False
        if self._disk_timer is None:
            self._disk_timer = self.clock.call_later(_DISK_WAIT_S, self._disk_late)
            store.barrier(self.disk_answered)
        return True

    def _disk_late(self) -> None:
        self._is_disk_late = True
        self._sweep(is_at_end=not self._is_stalled())

    def disk_answered(self) -> None:
        """See `Consumer.disk_answered`."""
        self._is_disk_late = False
        if self._disk_timer is not None:
            self._disk_timer.cancel()
            self._disk_timer = None
        if self.is_closed or self.is_ready:
            return
        self.signal()
        if not self.is_ready:
            self._sweep(is_at_end=not self._is_stalled())

    # When requests are looked at again.

    def _next_due(self, request: PullRequest, now_ns: int, due_ns: int) -> int:
        """Send a due heartbeat; return the earlier of `due_ns` and the request's next deadline."""
        if request.heartbeat_due_ns:
            if now_ns >= request.heartbeat_due_ns:
                self._say(request, self._heartbeat())
                request.heartbeat_due_ns = now_ns + request.heartbeat_ns
            if due_ns == 0 or request.heartbeat_due_ns < due_ns:
                due_ns = request.heartbeat_due_ns
        if request.expires_ns and (due_ns == 0 or request.expires_ns < due_ns):
            due_ns = request.expires_ns
        return due_ns

    def _heartbeat(self) -> bytes:
        return statuses.idle_heartbeat(self.next_consumer_seq - 1, max(self.next_seq - 1, 0))

    def _arm_request_timer(self, due_ns: int, now_ns: int) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
        self._request_timer_ns = due_ns
        delay_ns = max(due_ns - now_ns, _MILLISECOND_NS, self._least_pause_ns())
        self._request_timer = self.clock.call_later(delay_ns / _SECOND_NS, self._requests_due)

    def _requests_due(self) -> None:
        self._request_timer = None
        self._request_timer_ns = 0
        self._sweep(is_at_end=True)
        self.signal()
