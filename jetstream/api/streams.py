"""Requests to create, change, delete, purge and list streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midge.jetstream import errors
from midge.jetstream.api import requests
from midge.jetstream.api.call import CONFIG_MAX_BYTES, ApiCall, Family, clustering_required
from midge.jetstream.config import checks
from midge.jetstream.config.names import SEQ_MAX, to_bytes
from midge.jetstream.config.stream import REQUEST, StreamRequest
from midge.jetstream.json.encode import encode, text
from midge.jetstream.json.structure import is_empty_request
from midge.jetstream.stream import details, removal
from midge.jetstream.stream.pieces import WaitingPieces, in_turns, until_first_time
from midge.jetstream.stream.stream import Stream
from midge.sublist.subjects import is_valid_publish_subject

if TYPE_CHECKING:
    from midge.jetstream.archive.sending import Sending

NAMES_PAGE = 1024
LIST_PAGE = 256
_NO_PAGE = {"total": 0, "offset": 0, "limit": 0}


def create(call: ApiCall) -> None:
    """STREAM.CREATE: make a stream, or find an existing one with the same configuration."""
    asked: StreamRequest = call.decode(REQUEST, StreamRequest())
    asked.set_required_level()
    name = call.tokens[2]
    if name != asked.name:
        raise errors.STREAM_MISMATCH.error()
    if "\\" in name or "/" in name:
        raise errors.STREAM_NAME_CONTAINS_PATH_SEPARATORS.error()
    if asked.sealed:
        raise checks.invalid("stream configuration for create can not be sealed")
    if asked.mirror_direct and asked.mirror is None:
        raise checks.invalid("stream has no mirror but does have mirror direct")
    stream = call.account.create(asked.config(), pedantic=asked.pedantic)
    call.go_on_after(
        stream,
        _until_ready(call, stream),
        lambda _: call.answer({**_info(stream), "did_create": True}, stream.store),
    )


def _until_ready(call: ApiCall, stream: Stream) -> WaitingPieces[None]:
    """Wait until a stream takes all its messages and its state can be shown."""
    while call.account.subscribe_more(stream):
        yield None
    yield from until_first_time(stream.store)


def update(call: ApiCall) -> None:
    """STREAM.UPDATE: replace the configuration of a stream."""
    asked: StreamRequest = call.decode(REQUEST, StreamRequest())
    config, _ = checks.check(asked.config(), call.account, pedantic=asked.pedantic)
    if call.tokens[2] != config.name:
        raise errors.STREAM_MISMATCH.error()
    call.account.lookup(config.name)
    config.set_required_level()
    stream = call.account.update(config)
    removal.when_enforced(stream.contents, lambda: _answer_update(call, stream))


def _answer_update(call: ApiCall, stream: Stream) -> None:
    domain = call.account.surroundings.domain
    call.go_on_after(
        stream,
        _until_ready(call, stream),
        lambda _: call.answer(_info(stream, domain=domain), stream.store),
    )


def names(call: ApiCall) -> None:
    """STREAM.NAMES: list the names of streams."""
    request: requests.PageRequest = call.decode_optional(requests.NAMES, requests.PageRequest())
    streams = call.account.matching(request.subject)
    offset = min(max(request.offset, 0), len(streams))
    page = [stream.config.name for stream in streams[offset : offset + NAMES_PAGE]]
    call.answer(
        {"total": len(streams), "offset": offset, "limit": NAMES_PAGE, "streams": page or None}
    )


def listing(call: ApiCall) -> None:
    """STREAM.LIST: list the infos of streams."""
    request: requests.PageRequest = call.decode_optional(requests.LIST, requests.PageRequest())
    streams = call.account.matching(request.subject)
    offset = min(max(request.offset, 0), len(streams))
    page = streams[offset : offset + LIST_PAGE]

    def answer(_: None) -> None:
        domain = call.account.surroundings.domain
        shown = [
            details.info(
                one, config=one.config.fields(), shown_state=details.state(one), domain=domain
            )
            for one in page
            if not one.is_closed
        ]
        call.answer({"total": len(streams), "offset": offset, "limit": LIST_PAGE, "streams": shown})

    call.go_on_after(call.account, _until_first_times(page), answer)


def _until_first_times(streams: list[Stream]) -> WaitingPieces[None]:
    """Wait until the first times of these streams, for their states, are in memory."""
    for stream in streams:
        yield from until_first_time(stream.store)


def info(call: ApiCall) -> None:
    """STREAM.INFO: describe a stream."""
    request: requests.InfoRequest = call.decode_optional(requests.INFO, requests.InfoRequest())
    stream = call.account.lookup(call.tokens[2])
    offset = max(request.offset, 0)
    pieces = _find_details(stream, request, offset)
    in_turns(
        stream,
        pieces,
        lambda found: _detail(call, stream, offset, found),
        call.refuse,
        is_wanted=call.is_wanted,
    )


def _find_details(
    stream: Stream, request: requests.InfoRequest, offset: int
) -> WaitingPieces[details.Details]:
    """Return the details to list, once the stream's first time is in memory."""
    found = yield from details.details(
        stream.store,
        stream.surroundings.random,
        to_bytes(request.subjects_filter),
        offset,
        with_deleted=request.deleted_details,
    )
    yield from until_first_time(stream.store)
    return found


def _detail(call: ApiCall, stream: Stream, offset: int, found: details.Details) -> None:
    """Answer with the info of a stream and the details to list."""
    page = dict(_NO_PAGE)
    if found.total:
        page = {"total": found.total, "offset": offset, "limit": details.SUBJECTS_MAX}
    fields = details.info(
        stream,
        config=stream.config.versioned_fields(),
        shown_state=details.state(
            stream, with_subjects=bool(found.subjects), with_deleted=bool(found.deleted)
        ),
        domain=call.account.surroundings.domain,
        cluster=call.account.server_name,
    )
    written = encode({"type": call.family.type, **page, **fields})
    lists = ((b"subjects", b"{%b}" % found.subjects), (b"deleted", b"[%b]" % found.deleted))
    for name, value in lists:
        apart = b'"%b":%d' % (name, details.LISTED_APART)
        written = written.replace(apart, b'"%b":%b' % (name, value), 1)
    call.respond(written, stream.store)


def delete(call: ApiCall) -> None:
    """STREAM.DELETE: delete a stream with its consumers."""
    name = call.tokens[2]
    store = call.account.delete_quarantined(name)
    if store is None:
        stream = call.account.lookup(name)
        store = stream.store
        call.account.delete(stream)
    call.answer({"success": True}, store)


def purge(call: ApiCall) -> None:
    """STREAM.PURGE: remove all messages, or some."""
    request: requests.PurgeRequest = call.decode_optional(requests.PURGE, requests.PurgeRequest())
    if (request.seq > 0 and request.keep > 0) or request.seq > SEQ_MAX:
        raise errors.BAD_REQUEST.error()
    stream = call.account.lookup(call.tokens[2])
    if stream.is_sealed:
        raise errors.STREAM_SEALED.error()
    if stream.config.deny_purge:
        raise errors.STREAM_PURGE_FAILED.error(err="stream purge not permitted")
    subject = to_bytes(request.filter) if request.filter else None
    removal.purge(
        stream,
        subject,
        request.seq,
        request.keep,
        lambda purged: call.answer({"success": True, "purged": purged}, stream.store),
        call.refuse,
    )


def snapshot(call: ApiCall) -> None:
    """STREAM.SNAPSHOT: send the current state of a stream to a subject."""
    if is_empty_request(call.body):
        raise errors.BAD_REQUEST.error()
    stream = call.account.lookup(call.tokens[2])
    request: requests.SnapshotRequest = call.decode(requests.SNAPSHOT, requests.SnapshotRequest())
    to = to_bytes(request.deliver_subject)
    if not is_valid_publish_subject(to):
        raise errors.SNAPSHOT_DELIVER_SUBJECT_INVALID.error()
    call.go_on_after(
        stream,
        until_first_time(stream.store),
        lambda _: _send_snapshot(call, stream, request, to),
    )


def _send_snapshot(
    call: ApiCall, stream: Stream, request: requests.SnapshotRequest, to: bytes
) -> None:
    sending = call.account.transfers.send(
        stream, to, request.chunk_size, request.window_size, consumers=not request.no_consumers
    )
    shown = sending.snapshot.shown_state
    call.answer({"config": stream.config.fields(), "state": shown}, stream.store)
    sending.client = call.client()
    stream.store.barrier(lambda: _begin_sending(stream, sending))


def _begin_sending(stream: Stream, sending: Sending) -> None:
    stream.events.snapshot_created(sending.snapshot.shown_state, sending.client)
    sending.start()


def restore(call: ApiCall) -> None:
    """STREAM.RESTORE: make a stream from the data that the client sends next."""
    if is_empty_request(call.body):
        raise errors.BAD_REQUEST.error()
    request: requests.RestoreRequest = call.decode(requests.RESTORE, requests.RestoreRequest())
    name = call.tokens[2]
    asked = request.config
    asked.name = asked.name or name
    if name != asked.name:
        raise errors.STREAM_MISMATCH.error()
    if "\\" in name or "/" in name:
        raise errors.STREAM_NAME_CONTAINS_PATH_SEPARATORS.error()
    config = call.account.check_restore(asked, request.state.bytes)
    receiving = call.account.transfers.receive(config, call.client())
    call.answer({"deliver_subject": text(receiving.subject)}, receiving.restored.store)


def _info(stream: Stream, *, domain: str = "") -> dict[str, Any]:
    """Return the info of a newly made or changed stream."""
    return details.info(
        stream,
        config=stream.config.versioned_fields(),
        shown_state=details.state(stream),
        domain=domain,
    )


FAMILIES = {
    "CREATE": Family("stream_create_response", create, body_max=CONFIG_MAX_BYTES),
    "UPDATE": Family("stream_update_response", update, body_max=CONFIG_MAX_BYTES),
    "NAMES": Family("stream_names_response", names, {**_NO_PAGE, "streams": None}),
    "LIST": Family("stream_list_response", listing, {**_NO_PAGE, "streams": []}),
    "INFO": Family("stream_info_response", info, _NO_PAGE),
    "DELETE": Family("stream_delete_response", delete, takes_body=False),
    "PURGE": Family("stream_purge_response", purge, {"purged": 0}),
    "SNAPSHOT": Family("stream_snapshot_response", snapshot),
    "RESTORE": Family(
        "stream_restore_response", restore, {"deliver_subject": ""}, body_max=CONFIG_MAX_BYTES
    ),
}
"""The requests by the token behind ``STREAM``; `NAMES` and `LIST` name no stream."""

LEADER_STEPDOWN = Family("stream_leader_stepdown_response", clustering_required, is_checked=False)
PEER_REMOVE = Family("stream_remove_peer_response", clustering_required, is_checked=False)
