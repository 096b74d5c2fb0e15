"""Requests to create, change, delete, list, pause, reset and unpin consumers."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from midge.jetstream import errors
from midge.jetstream import headers as header_block
from midge.jetstream.api.call import ApiCall, Family, clustering_required
from midge.jetstream.config import consumer as configuration
from midge.jetstream.config import consumer_rules, names
from midge.jetstream.config.consumer_config import ConsumerConfig, CreateRequest
from midge.jetstream.config.stream import LIMITS
from midge.jetstream.consumer.consumer import Consumer
from midge.jetstream.consumer.info import info_of, written_report
from midge.jetstream.consumer.pull import PullRequests
from midge.jetstream.json import structure
from midge.jetstream.json.encode import encode
from midge.jetstream.json.flat import FlatReader
from midge.jetstream.json.structure import Field, Integer, PlainTime, Structure, Text
from midge.jetstream.json.times import ZERO_TIME_NS, Timestamp, format_time
from midge.jetstream.store.store import Store
from midge.jetstream.stream import searching
from midge.jetstream.stream.stream import Stream

NAMES_PAGE = 1024
_IDENTITY = b"Nats-Stream-Identity"
_SUFFIX_LENGTH = 8
LIST_PAGE = 256

_NEVER = Timestamp(ZERO_TIME_NS)
_NO_CONSUMERS = {"total": 0, "offset": 0, "limit": 0, "consumers": []}


class _Page(Struct):
    offset: int = 0


class _Pause(Struct):
    pause_until: Timestamp = _NEVER


class _Reset(Struct):
    seq: int = 0


class _Unpin(Struct):
    group: str = ""


_PAGE = Structure("JSApiConsumersRequest", _Page, [Field("offset", Integer("int"))])
_PAUSE = Structure("JSApiConsumerPauseRequest", _Pause, [Field("pause_until", PlainTime())])
_FLAT_REQUEST = FlatReader(configuration.CREATE_REQUEST)
_RESET = Structure(
    "JSApiConsumerResetRequest", _Reset, [Field("seq", Integer("uint64", is_signed=False))]
)
_UNPIN = Structure("JSApiConsumerUnpinRequest", _Unpin, [Field("group", Text())])


def create(call: ApiCall) -> None:
    """CONSUMER.CREATE and CONSUMER.DURABLE.CREATE: make a consumer, or change it."""
    request = CreateRequest()
    if not _FLAT_REQUEST.read(call.body, request):
        request = call.decode(configuration.CREATE_REQUEST, CreateRequest())
    call.account.require_enabled()
    name = _check_subject(call, request)
    config = request.config
    if config.num_replicas > 1:
        raise errors.STREAM_REPLICAS_NOT_SUPPORTED.error()
    stream = call.account.lookup(request.stream_name)
    identity = _check_identity(call, stream, config)
    if config.direct and config.sourcing and config.name:
        name = _name_of_source(stream, config)
    if config.opt_start_time is None and not searching.takes_turns(stream.store, config):
        _make(call, request, stream, name, identity)
    else:
        _make_later(call, request, stream, name, identity)


def _make_later(
    call: ApiCall, request: CreateRequest, stream: Stream, name: str, identity: bytes
) -> None:
    """Make a consumer once its start position has been found, and its filters compared.

    Making it repeats the search, with times that are then in the page cache.
    """
    call.go_on_after(
        stream,
        searching.prepare(stream.store, request.config),
        lambda _: _make(call, request, stream, name, identity),
    )


def _make(
    call: ApiCall, request: CreateRequest, stream: Stream, name: str, identity: bytes
) -> None:
    """Make a consumer, or change the existing one of that name."""
    config = request.config
    existing = stream.consumers.get(names.to_bytes(name)) if name else None
    if existing is not None:
        _keep(existing, config)
    configuration.set_required_level(config)
    consumer = stream.consumers.create(
        config, request.action, call.account.allowance(), pedantic=request.pedantic
    )
    _report(call, consumer, stream.store, identity)
    if consumer.is_paused():
        consumer.events.paused(consumer.config.pause_until)


def _report(
    call: ApiCall, consumer: Consumer, after: Store | None = None, headers: bytes = b""
) -> None:
    """Answer with the report on a consumer."""
    report = written_report(consumer, call.family.head)
    if report is None:
        call.answer(info_of(consumer, with_versions=True), after, headers)
    else:
        call.respond(report, after, headers)


def _check_subject(call: ApiCall, request: CreateRequest) -> str:
    """Check a request against its subject; return the requested name."""
    config = request.config
    tokens = call.tokens
    is_durable = tokens[1] == "DURABLE"
    at = 3 if is_durable else 2
    if tokens[at] != request.stream_name:
        raise errors.STREAM_MISMATCH.error()
    rest = tokens[at + 1 :]
    name = rest[0] if rest else config.name
    if "\\" in name or "/" in name:
        raise errors.CONSUMER_NAME_CONTAINS_PATH_SEPARATORS.error()
    if not rest:
        if config.durable_name:
            raise errors.CONSUMER_EPHEMERAL_WITH_DURABLE_NAME.error()
        return name
    if is_durable and not config.durable_name:
        raise errors.CONSUMER_DURABLE_NAME_NOT_SET.error()
    if config.durable_name and config.durable_name != name:
        raise errors.CONSUMER_DURABLE_NAME_NOT_MATCH_SUBJECT.error()
    config.name = name
    if not is_durable and len(rest) > 1:
        _check_filter(".".join(rest[1:]), config)
    return name


def _check_identity(call: ApiCall, stream: Stream, config: ConsumerConfig) -> bytes:
    """Check that a mirror or a source means this stream, and not an earlier one of its name.

    Returns the headers of the answer.

    Raises:
        JetStreamError: the stream was deleted and made again meanwhile.
    """
    if not config.direct and not config.sourcing:
        return b""
    identity = _identity(stream)
    expected = header_block.find(call.headers, _IDENTITY) if call.headers else None
    if expected and expected != identity:
        raise errors.CONSUMER_STREAM_IDENTITY_MISMATCH.error(msg=identity.decode())
    return b"NATS/1.0\r\n%b: %b\r\n\r\n" % (_IDENTITY, identity)


def _identity(stream: Stream) -> bytes:
    """Return a text that distinguishes this stream from earlier streams of the same name."""
    return names.short_hash(format_time(stream.created_ns)).encode()


def _name_of_source(stream: Stream, config: ConsumerConfig) -> str:
    """Return the name of the consumer of a mirror or a source, which requests a stable name.

    If the stream keeps messages until they are acknowledged, it becomes a durable consumer with
    acks.
    """
    if stream.config.retention == LIMITS:
        config.name = f"{config.name}-{stream.surroundings.new_id()[:_SUFFIX_LENGTH]}"
        return config.name
    config.direct = False
    config.durable_name = config.name
    config.ack_policy = "flow_control"
    config.ack_wait_ns = 0
    config.max_deliver = 0
    config.inactive_threshold_ns = 0
    return config.name


def _keep(existing: Consumer, config: ConsumerConfig) -> None:
    """Copy the settings of an existing consumer that a create request does not change."""
    config.pause_until = existing.config.pause_until
    if config.sourcing and config.durable_name:
        config.deliver_policy = existing.config.deliver_policy
        config.opt_start_seq = existing.config.opt_start_seq
        config.opt_start_time = existing.config.opt_start_time


def _check_filter(subject: str, config: ConsumerConfig) -> None:
    """Check the filter behind the name in the subject of a request."""
    if not subject:
        return
    if config.filter_subjects:
        raise errors.CONSUMER_MULTIPLE_FILTERS_NOT_ALLOWED.error()
    if config.filter_subject != subject:
        raise errors.CONSUMER_CREATE_FILTER_SUBJECT_MISMATCH.error()


def names_of(call: ApiCall) -> None:
    """CONSUMER.NAMES: list the names of a stream's consumers."""
    page: _Page = call.decode_optional(_PAGE, _Page())
    listed = _stream(call).consumers.listed()
    offset = min(max(page.offset, 0), len(listed))
    shown = [_name(one) for one in listed[offset : offset + NAMES_PAGE]]
    fields = {"total": len(listed), "offset": offset, "limit": NAMES_PAGE, "consumers": shown}
    call.answer(fields)


def listing(call: ApiCall) -> None:
    """CONSUMER.LIST: list the reports of a stream's consumers."""
    page: _Page = call.decode_optional(_PAGE, _Page())
    listed = _stream(call).consumers.listed()
    offset = min(max(page.offset, 0), len(listed))
    shown = [info_of(one, with_versions=False) for one in listed[offset : offset + LIST_PAGE]]
    fields = {"total": len(listed), "offset": offset, "limit": LIST_PAGE, "consumers": shown}
    call.answer(fields)


def info(call: ApiCall) -> None:
    """CONSUMER.INFO: report on a consumer."""
    _report(call, _consumer(call))


def delete(call: ApiCall) -> None:
    """CONSUMER.DELETE: delete a consumer."""
    stream = _stream(call)
    stream.consumers.delete(_consumer_of(call, stream))
    call.respond(_DELETED, stream.store)


def pause(call: ApiCall) -> None:
    """CONSUMER.PAUSE: pause a consumer until a time, or resume it."""
    request: _Pause = call.decode_optional(_PAUSE, _Pause())
    consumer = _consumer(call)
    until_ns = request.pause_until.ns
    config = consumer.config.copy()
    config.pause_until = None if until_ns == ZERO_TIME_NS else Timestamp(until_ns)
    configuration.set_required_level(config)
    consumer.change(config)
    fields: dict[str, Any] = {"paused": False, "pause_until": Timestamp(until_ns).text()}
    if consumer.is_paused():
        fields["paused"] = True
        fields["pause_remaining"] = consumer.pause_remaining_ns()
    call.answer(fields, _stream(call).store)


def reset(call: ApiCall) -> None:
    """CONSUMER.RESET: start a consumer over; without such a consumer there is no answer."""
    request = _Reset()
    stream = call.account.streams.get(call.tokens[2])
    consumer = stream.consumers.get(names.to_bytes(call.tokens[3])) if stream is not None else None
    if stream is None or consumer is None:
        return
    call.check()
    if call.body:
        _decode_leniently(call, _RESET, request)
    start_time = consumer.config.opt_start_time
    if start_time is None or not request.seq:
        _reset(call, stream, consumer, request.seq)
        return
    call.go_on_after(  # find the start position first, as for a new consumer
        stream,
        searching.seq_at_time(stream.store, start_time.ns),
        lambda _: _reset(call, stream, consumer, request.seq),
    )


def _reset(call: ApiCall, stream: Stream, consumer: Consumer, seq: int) -> None:
    """Start a consumer over, and answer; there is no answer if it is gone meanwhile."""
    if consumer.is_closed:
        return
    seq = stream.consumers.reset(consumer, seq)
    fields = info_of(consumer, with_versions=True)
    headers = b""
    if call.headers and header_block.find(call.headers, _IDENTITY) is not None:
        headers = b"NATS/1.0\r\n%b: %b\r\n\r\n" % (_IDENTITY, _identity(stream))
    call.answer({**fields, "reset_seq": seq}, stream.store, headers)


def unpin(call: ApiCall) -> None:
    """CONSUMER.UNPIN: unpin the pinned client, so that another one gets the pin."""
    request = _Unpin()
    _decode_leniently(call, _UNPIN, request)
    if not request.group:
        raise errors.INVALID_JSON.error(err="consumer group not specified")
    if not consumer_rules.is_group_name(request.group):
        raise errors.CONSUMER_INVALID_GROUP_NAME.error()
    consumer = _consumer(call)
    if request.group not in consumer.config.priority_groups:
        raise errors.CONSUMER_INVALID_PRIORITY_GROUP.error()
    receivers = consumer.receivers
    assert isinstance(receivers, PullRequests)
    assert receivers.pin is not None  # a consumer with priority groups has one
    receivers.pin.unpin(request.group, "admin")
    call.answer({})


def _decode_leniently(call: ApiCall, kind: Structure, into: object) -> None:
    try:
        structure.decode_lenient(call.body, kind, into)
    except structure.JsonProblem as problem:
        raise errors.INVALID_JSON.error(err=problem) from None


def _stream(call: ApiCall) -> Stream:
    return call.account.lookup(call.tokens[2])


def _consumer(call: ApiCall) -> Consumer:
    """Return the consumer that a request is about; raises JetStreamError."""
    return _consumer_of(call, _stream(call))


def _consumer_of(call: ApiCall, stream: Stream) -> Consumer:
    consumer = stream.consumers.get(names.to_bytes(call.tokens[3]))
    if consumer is None:
        raise errors.CONSUMER_NOT_FOUND.error()
    return consumer


def _name(consumer: Consumer) -> str:
    return consumer.name.decode("utf-8", "surrogateescape")


_CREATE_MAX_BYTES = 1 << 20
"""The largest body of a request that makes a consumer; metadata may take 128 KiB of it."""

_CREATE = Family("consumer_create_response", create, body_max=_CREATE_MAX_BYTES, is_body_first=True)
_OF_STREAM = {
    "NAMES": Family("consumer_names_response", names_of, _NO_CONSUMERS),
    "LIST": Family("consumer_list_response", listing, _NO_CONSUMERS),
}
_OF_CONSUMER = {
    "INFO": Family("consumer_info_response", info, takes_body=False, is_body_first=True),
    "DELETE": Family("consumer_delete_response", delete, takes_body=False),
    "PAUSE": Family(
        "consumer_pause_response",
        pause,
        {"paused": False, "pause_until": _NEVER.text()},
        is_body_first=True,
    ),
    "RESET": Family("consumer_reset_response", reset, {"reset_seq": 0}, is_checked=False),
    "UNPIN": Family("consumer_unpin_response", unpin, is_body_first=True),
}
_DELETED = encode({"type": _OF_CONSUMER["DELETE"].type, "success": True})
_LEADER_STEPDOWN = Family(
    "consumer_leader_stepdown_response", clustering_required, is_checked=False
)


def find(tokens: list[str]) -> Family | None:
    """Return the family of a ``CONSUMER`` request by its tokens, or None."""
    second = tokens[1]
    if second == "CREATE":
        return _CREATE if len(tokens) >= 3 else None
    if second == "DURABLE":
        return _CREATE if len(tokens) == 5 and tokens[2] == "CREATE" else None
    if second == "LEADER":
        return _LEADER_STEPDOWN if len(tokens) == 5 and tokens[2] == "STEPDOWN" else None
    if len(tokens) == 3:
        return _OF_STREAM.get(second)
    return _OF_CONSUMER.get(second) if len(tokens) == 4 else None
