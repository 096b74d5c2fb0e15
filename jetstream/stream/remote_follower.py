"""Mirrors and sources whose origin is in another domain or account.

The follower creates a consumer by the origin's API under `external.api`. It begins behind the last
message taken, needs no acks and delivers to a subject of this account. The sequences of deliveries
and heartbeats show lost messages; then, and when no heartbeat arrives, the follower creates the
consumer again. It skips messages that the origin no longer has, and reports the gap.

It answers flow control when all earlier messages are durable here, because an origin with work
queue retention removes messages by these answers.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import msgspec

from midge.jetstream import errors, headers
from midge.jetstream.config.names import SEQ_MAX, is_valid_publish_subject, short_hash, to_bytes
from midge.jetstream.config.source import ExternalStream, StreamSource
from midge.jetstream.consumer.ack_subject import AckNumbers
from midge.jetstream.errors import ApiError
from midge.jetstream.json.encode import encode
from midge.jetstream.json.times import SECOND_NS, format_time
from midge.jetstream.store.interface import LoadedMessage
from midge.jetstream.stream.follower import Follower
from midge.jetstream.stream.stream_host import StreamHost

_TICK_S = 0.5
"""How often it is looked whether the origin can be reached; a look is one match of a subject."""

_SILENCE_NS = 10 * SECOND_NS
"""How long nothing may come, of heartbeats one a second, as on nats-server."""

_ANSWER_NS = 10 * SECOND_NS
"""How long to wait for the answer that a consumer has been made; nats-server waits 30 seconds."""

_RETRY_NS = 2 * SECOND_NS
"""Least time from one request to the next, as on nats-server."""

_RETRY_MAX_NS = 60 * SECOND_NS
_ACK_WAIT_NS = 22 * 3600 * SECOND_NS  # as nats-server asks for; nothing is redelivered
_CONTROL = b"NATS/1.0 100"
_IDENTITY = b"Nats-Stream-Identity"
_REQUIRED_LEVEL = b"Nats-Required-Api-Level"
_LAST_CONSUMER = b"Nats-Last-Consumer"
_LAST_STREAM = b"Nats-Last-Stream"
_STALLED = b"Nats-Consumer-Stalled"
_LEVELS = (5, 4, 0)
"""API levels that are asked for in turn: one that shows that a stream was made again, one that
knows of consumers for sources, and none, of servers before that."""

_LEVEL_ERRORS = {errors.REQUIRED_API_LEVEL.err_code, errors.INVALID_JSON.err_code}
_ACK_TOKENS = 9
_CONSUMER_TOKEN = 3
_TOKENS_BEFORE = 2  # domain and account, in acks of the second form


_DESCRIPTION_MAX = 1024  # of an error that the origin's server describes, letters

_Number = Annotated[int, msgspec.Meta(ge=0, le=SEQ_MAX - 1)]


class _Error(msgspec.Struct):
    """An error that the origin's server answers with."""

    code: _Number = 500
    err_code: _Number = 0
    description: str = ""


class _Config(msgspec.Struct):
    """The parts of a consumer's configuration that are used."""

    deliver_subject: str = ""
    ack_policy: str = ""


class _Delivered(msgspec.Struct):
    """How far a consumer has got."""

    stream_seq: _Number


class _ConsumerAnswer(msgspec.Struct):
    """The answer to a request for a consumer, from a server that need not be trusted."""

    error: _Error | None = None
    config: _Config = msgspec.field(default_factory=_Config)
    name: str = ""
    delivered: _Delivered = msgspec.field(default_factory=lambda: _Delivered(0))
    num_pending: _Number = 0


_ANSWER = msgspec.json.Decoder(_ConsumerAnswer)


class Delivery(NamedTuple):
    """The fields of a delivery's ack subject."""

    consumer: bytes
    deliveries: int
    seq: int
    consumer_seq: int
    time_ns: int
    pending: int


class RemoteFollower(Follower):
    """One origin of a stream, reached by its API."""

    def __init__(self, stream: StreamHost, source: StreamSource, *, is_mirror: bool) -> None:
        Follower.__init__(self, stream, source, is_mirror=is_mirror)
        self._sink = stream.sink
        self._notes = stream.surroundings.origin_notes
        self._external = source.external or ExternalStream()
        self._name = "JS_MIRROR_" if is_mirror else "JS_SRC_"
        own = f"{stream.surroundings.account} {stream.config.name} {stream.created_ns}"
        self._name += short_hash(f"{own} {source.index_name()}")
        self._answers: object = None
        self._deliveries: object = None
        self._consumer = b""
        self._consumer_seq = 0
        self._lag = 0
        self._level = 0
        self._asked_ns = 0
        self._heard_ns = 0
        self._fails = 0
        self._is_away = False
        self._is_stopped = False

    # As the stream's origins see it.

    def connect(self, origin: StreamHost | None) -> None:
        """Begin; no stream of this account is the origin, whatever its name is."""
        if self._timer is None and not self._stream.is_closed:
            self._is_stopped = False
            self._tick()

    def stop(self) -> None:
        """Take nothing more."""
        self._is_stopped = True
        self._unsubscribe()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def lag(self) -> int:
        """Return how many messages of the origin are still to be taken, as it said last."""
        return self._lag

    # Making a consumer, and noticing that there is none any more.

    def _tick(self) -> None:
        """Look whether there is something to be done, and come again."""
        self._timer = self._stream.clock.call_later(_TICK_S, self._tick)
        now_ns = self._stream.clock.monotonic_ns()
        is_reached = self._sink.has_interest(self._subject("CONSUMER.INFO"))
        if self._deliveries is not None:
            if not is_reached:
                self._is_away = True
            elif self._is_away or now_ns - self._heard_ns > _SILENCE_NS:
                self._begin_anew()
        elif self._answers is not None:
            if now_ns - self._asked_ns > _ANSWER_NS:
                self._fail(None)
        elif is_reached and now_ns - self._asked_ns >= self._delay_ns():
            self._ask(now_ns)

    def _delay_ns(self) -> int:
        """Return how long after the last request the next one may be."""
        if not self._asked_ns:
            return 0
        return int(min(_RETRY_NS * (1 + self._fails * self._fails), _RETRY_MAX_NS))

    def _ask(self, now_ns: int) -> None:
        """Request a consumer that begins behind the last message taken."""
        self._asked_ns = now_ns
        self._is_away = False
        if self.is_mirror:
            self.last_seq = max(self.last_seq, self._stream.store.last_seq)
        level = _LEVELS[self._level]
        block = headers.add(b"", _REQUIRED_LEVEL, b"%d" % level) if level else b""
        if level and not self.is_mirror and self.identity:
            block = headers.add(block, _IDENTITY, self.identity)
        reply = b"_INBOX." + self._stream.surroundings.new_id().encode()
        self._answers = self._sink.subscribe(reply, self._take_answer)
        subject, body = self._request(level)
        self._sink.send(subject, reply, block, body)

    def _request(self, level: int) -> tuple[bytes, bytes]:
        """Return the subject and the body of the request."""
        source = self.source
        if source.consumer is not None:
            return self._subject(f"CONSUMER.RESET.{source.name}.{source.consumer.name}"), b""
        config = self._consumer_config()
        if not level:
            del config["sourcing"]
            config["name"] += f"_{self._stream.surroundings.new_id()[:8]}"
        subject = f"CONSUMER.CREATE.{source.name}"
        if "filter_subject" in config:
            subject += f".{config['name']}.{config['filter_subject']}"
        return self._subject(subject), encode({"stream_name": source.name, "config": config})

    def _consumer_config(self) -> dict[str, Any]:
        stream = self._stream
        what = "mirror" if self.is_mirror else "src"
        prefix = self._external.deliver_prefix or "$JS"
        inbox = f"{prefix}.{'M' if self.is_mirror else 'S'}.{stream.surroundings.new_id()[:8]}"
        metadata = {
            f"_nats.{what}.stream": stream.config.name,
            f"_nats.{what}.acc": stream.surroundings.account,
        }
        if stream.surroundings.domain:
            metadata[f"_nats.{what}.domain"] = stream.surroundings.domain
        config = {
            "name": self._name,
            "deliver_subject": inbox.replace("..", "."),
            **self._begin_at(),
            "ack_policy": "none",
            "ack_wait": _ACK_WAIT_NS,
            "max_deliver": 1,
            "replay_policy": "instant",
            "flow_control": True,
            "idle_heartbeat": SECOND_NS,
            "inactive_threshold": _SILENCE_NS,
            "num_replicas": 0,
            "direct": True,
            "sourcing": True,
            "metadata": metadata,
        }
        filters = [one for one in self.source.filters() if one != ">"]
        if len(filters) == 1:
            config["filter_subject"] = filters[0]
        elif len(filters) == len(self.source.filters()):
            config["filter_subjects"] = filters
        return config

    def _begin_at(self) -> dict[str, Any]:
        """Return where the consumer is to begin."""
        seq, time = self.last_seq + 1, self.source.start_time
        if not self.last_seq and not self.source.start_seq and time is not None:
            return {"deliver_policy": "by_start_time", "opt_start_time": format_time(time.ns)}
        if not self.last_seq:
            seq = self.source.start_seq
        if seq <= 1:
            return {"deliver_policy": "all"}
        return {"deliver_policy": "by_start_sequence", "opt_start_seq": seq}

    def _subject(self, request: str) -> bytes:
        return to_bytes(f"{self._external.api_prefix}.{request}".replace("..", "."))

    def _take_answer(self, subject: bytes, reply: bytes, block: bytes, payload: bytes) -> bool:
        """Take the answer to the request for a consumer."""
        if self._answers is None or self._is_stopped:
            return False
        try:
            answer = _ANSWER.decode(payload)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            self._fail(self._invalid_answer().fill(err="invalid consumer create response"))
            return True
        if answer.error is not None:
            self._refused(answer.error)
        elif not is_valid_publish_subject(answer.config.deliver_subject):
            self._fail(self._invalid_answer().fill(err="invalid deliver subject"))
        else:
            self._accepted(answer, headers.find(block, _IDENTITY) if block else None)
        return True

    def _invalid_answer(self) -> ApiError:
        if self.is_mirror:
            return errors.MIRROR_CONSUMER_SETUP_FAILED
        return errors.SOURCE_CONSUMER_SETUP_FAILED

    def _refused(self, error: _Error) -> None:
        """Ask again, less of it or later."""
        code = error.err_code
        if code in _LEVEL_ERRORS and self._level < len(_LEVELS) - 1:
            self._level += 1
            self._unsubscribe()
            self._ask(self._asked_ns)
        elif code == errors.CONSUMER_STREAM_IDENTITY_MISMATCH.err_code:
            self._start_over()
            self._unsubscribe()
            self._ask(self._asked_ns)
        else:
            self._fail(ApiError(error.code, code, error.description[:_DESCRIPTION_MAX]))

    def _start_over(self) -> None:
        """Take all of a stream that was made again under the name of the one before."""
        self._notes.recreated(self._stream.config.name, self.source.name)
        self.last_seq = 0
        self.identity = b""

    def _accepted(self, answer: _ConsumerAnswer, identity: bytes | None) -> None:
        """Take what the consumer delivers."""
        deliver_subject = to_bytes(answer.config.deliver_subject)
        durable = self.source.consumer
        if durable is not None:
            deliver_subject = to_bytes(durable.deliver_subject)
            if answer.config.ack_policy != "flow_control":
                self._fail(
                    errors.MIRROR_CONSUMER_REQUIRES_ACK_FC
                    if self.is_mirror
                    else errors.SOURCE_CONSUMER_REQUIRES_ACK_FC
                )
                return
        self._unsubscribe()
        self.error = None
        self._fails = 0
        if identity is not None:
            if self.identity and identity != self.identity:
                self._start_over()
                self._ask(self._asked_ns)
                return
            self.identity = identity
        self._consumer = to_bytes(answer.name)
        self._consumer_seq = 0
        self._heard_ns = self._stream.clock.monotonic_ns()
        delivered = answer.delivered.stream_seq
        self._skip(delivered + 1)
        self.last_seq = max(self.last_seq, delivered)
        self._lag = answer.num_pending
        self._deliveries = self._sink.subscribe(deliver_subject, self._take_delivery)

    def _fail(self, error: ApiError | None) -> None:
        """Try again later."""
        if error is not None:
            if error != self.error:
                self._notes.refused(self._stream.config.name, self.source.name, error.description)
            self.error = error
        self._fails += 1
        self._unsubscribe()

    def _begin_anew(self) -> None:
        """Schedule another consumer as soon as it is allowed."""
        self._unsubscribe()
        now_ns = self._stream.clock.monotonic_ns()
        if now_ns - self._asked_ns >= self._delay_ns():
            self._ask(now_ns)

    def _unsubscribe(self) -> None:
        """Take nothing of the consumer there may be, nor an answer."""
        for token in (self._answers, self._deliveries):
            if token is not None:
                self._sink.unsubscribe(token)
        self._answers = self._deliveries = None
        self._consumer = b""

    # Deliveries.

    def _take_delivery(self, subject: bytes, reply: bytes, block: bytes, payload: bytes) -> bool:
        """Handle a message to the consumer's deliver subject."""
        if self._deliveries is None or self._is_stopped:
            return False
        self.seen_ns = self._stream.clock.wall_ns()
        self._heard_ns = self._stream.clock.monotonic_ns()
        if not payload and block.startswith(_CONTROL):
            self._take_control(reply, block)
            return True
        delivery = read_delivery(reply)
        if (
            delivery is not None
            and delivery.consumer == self._consumer
            and delivery.deliveries <= 1
        ):
            self._take_message(delivery, subject, block, payload)
        return True

    def _take_message(
        self, delivery: Delivery, subject: bytes, block: bytes, payload: bytes
    ) -> None:
        """Store a message if it is the next one."""
        is_next = delivery.consumer_seq == self._consumer_seq + 1
        if delivery.seq <= self.last_seq:
            self._consumer_seq += is_next
            return
        if delivery.seq > SEQ_MAX:
            self._fail(self._invalid_answer().fill(err="a sequence that no stream can use"))
            return
        if not is_next:
            self._begin_anew()
            return
        stream = self._stream
        stream.now_ns = self.seen_ns
        if self.is_mirror and not self._filters:
            self._skip(delivery.seq)
        message = LoadedMessage(delivery.seq, delivery.time_ns, subject, block, payload)
        if not self.take(message, self.identity):
            self._unsubscribe()  # later messages would be stored too early
            return
        self._consumer_seq += 1
        self._lag = max(delivery.pending - 1, 0)
        self.last_seq = self.taken_seq = delivery.seq

    def _skip(self, seq: int) -> None:
        """Leave out what the origin no longer has before `seq`, in a mirror."""
        store = self._stream.store
        if not self.is_mirror or seq <= store.last_seq + 1:
            return
        if store.last_seq:
            name = self._stream.config.name
            self._notes.gap(name, self.source.name, store.last_seq + 1, seq - 1)
        store.skip_to(seq - 1)

    def _take_control(self, reply: bytes, block: bytes) -> None:
        """Answer flow control, and see by a heartbeat whether anything was lost."""
        if reply:
            last = b"NATS/1.0\r\n%b: %d\r\n%b: %d\r\n\r\n" % (
                _LAST_CONSUMER,
                self._consumer_seq,
                _LAST_STREAM,
                self.last_seq,
            )
            self._stream.store.barrier(lambda: self._sink.send(reply, b"", last, b""))
            return
        consumer_seq = headers.parse_number(headers.find(block, _LAST_CONSUMER) or b"")
        if 0 < consumer_seq != self._consumer_seq:
            self._begin_anew()
        elif stalled := headers.find(block, _STALLED):
            self._sink.send(stalled, b"", b"", b"")


def read_delivery(reply: bytes) -> Delivery | None:
    """Return what the ack subject of a delivery says; None when it is not one."""
    numbers = AckNumbers()
    numbers.read(reply)
    tokens = reply.split(b".")
    at = _CONSUMER_TOKEN + (_TOKENS_BEFORE if len(tokens) > _ACK_TOKENS else 0)
    if not numbers.seq or not reply.startswith(b"$JS.ACK.") or len(tokens) < at + 6:
        return None
    try:
        time_ns, pending = int(tokens[at + 4]), int(tokens[at + 5])
    except ValueError:
        return None
    if not (0 <= time_ns <= SEQ_MAX and 0 <= pending <= SEQ_MAX):
        return None
    seqs = numbers.deliveries, numbers.seq, numbers.consumer_seq
    return Delivery(tokens[at], *seqs, time_ns, pending)
