"""Requests about single messages of a stream."""

from __future__ import annotations

from typing import Any

from midge.jetstream import errors
from midge.jetstream.api import requests
from midge.jetstream.api.call import ApiCall, Family
from midge.jetstream.config.names import to_bytes
from midge.jetstream.json.encode import blob, text
from midge.jetstream.json.structure import is_empty_request
from midge.jetstream.json.times import format_time
from midge.jetstream.stream import searching
from midge.jetstream.stream.pieces import WaitingPieces, in_turns, until_cached
from midge.jetstream.stream.searching import GET, GetRequest
from midge.jetstream.stream.stream import Stream


def get(call: ApiCall) -> None:
    """STREAM.MSG.GET: show one message."""
    if is_empty_request(call.body):
        raise errors.BAD_REQUEST.error()
    request: GetRequest = call.decode(GET, GetRequest())
    if request.batch > 0 or request.max_bytes > 0 or _is_contradictory(request):
        raise errors.BAD_REQUEST.error()
    stream = call.account.lookup(call.tokens[3])
    pieces = _fetch(stream, request)
    in_turns(stream, pieces, lambda seq: _show(call, stream, request, seq), call.refuse)


def _show(call: ApiCall, stream: Stream, request: GetRequest, seq: int) -> None:
    """Answer with the message of a sequence, if it is visible."""
    store = stream.store
    message = store.load(seq) if 0 < seq <= store.visible_seq else None
    if message is None:
        call.refuse(errors.NO_MESSAGE_FOUND)
        return
    fields: dict[str, Any] = {"subject": text(message.subject), "seq": message.seq}
    if message.headers and not request.no_hdr:
        fields["hdrs"] = blob(message.headers)
    if message.payload:
        fields["data"] = blob(message.payload)
    fields["time"] = format_time(message.time_ns)
    call.is_counted = False
    call.answer({"message": fields})


def delete(call: ApiCall) -> None:
    """STREAM.MSG.DELETE: remove one message, and overwrite it unless `no_erase` is set."""
    if is_empty_request(call.body):
        raise errors.BAD_REQUEST.error()
    request: requests.DeleteRequest = call.decode(requests.DELETE, requests.DeleteRequest())
    stream = call.account.lookup(call.tokens[3])
    if stream.is_sealed:
        raise errors.STREAM_SEALED.error()
    if stream.config.deny_delete:
        raise errors.STREAM_MSG_DELETE_FAILED.error(err="message delete not permitted")
    if not stream.contents.remove(request.seq, erase=not request.no_erase):
        raise _no_such_message(stream, request.seq).error()
    call.answer({"success": True}, stream.store)


def _is_contradictory(request: GetRequest) -> bool:
    """Return whether a request names a message in two ways, or in none."""
    has_time = request.start_time is not None
    last = bool(request.last_by_subj)
    return bool(
        (request.seq and last)
        or not (request.seq or last or request.next_by_subj or has_time)
        or (request.seq and has_time)
        or (has_time and last)
        or (last and request.next_by_subj)
    )


def _fetch(stream: Stream, request: GetRequest) -> WaitingPieces[int]:
    """Return the sequence that a request names, 0 for none, once its message is in memory."""
    seq = yield from _find(stream, request)
    if 0 < seq <= stream.store.visible_seq:
        yield from until_cached(stream.store, seq)
    return seq


def _find(stream: Stream, request: GetRequest) -> WaitingPieces[int]:
    """Return the sequence of the message that a request names; 0 for none."""
    store = stream.store
    visible = store.visible_seq
    if not visible:
        return 0
    seq = request.seq
    if request.start_time is not None:
        seq = yield from searching.seq_at_time(store, request.start_time.ns)
    if request.next_by_subj:
        if seq > visible:
            return 0
        subject = to_bytes(request.next_by_subj)
        return (yield from searching.next_matching(store, subject, max(seq, 1), visible))
    if not seq:
        subject = to_bytes(request.last_by_subj)
        seq = yield from searching.last_matching(store, subject, visible)
    return seq


def _no_such_message(stream: Stream, seq: int) -> errors.ApiError:
    """Return the refusal to remove a missing message."""
    store = stream.store
    if not stream.is_memory and seq > store.last_seq:
        return errors.STREAM_MSG_DELETE_FAILED.fill(err="stream store EOF")
    if not stream.is_memory and seq < store.first_seq:
        return errors.STREAM_MSG_DELETE_FAILED.fill(err="no message found")
    return errors.SEQUENCE_NOT_FOUND.fill(seq=seq)


FAMILIES = {
    "GET": Family("stream_msg_get_response", get),
    "DELETE": Family("stream_msg_delete_response", delete),
}
"""The requests by the token behind ``STREAM.MSG``."""
