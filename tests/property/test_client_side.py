"""A client reads what the server writes, however it is cut, and any other bytes without harm."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from midge.protocol.client_side import Control, FrameReader, ReceivedMessage
from midge.protocol.errors import ProtocolError
from midge.protocol.frame import compose
from midge.server.routing.outbound import ChunkPool, Outbound
from tests.support.transports import Transport

SUBJECTS = st.sampled_from([b"a", b"a.b", b"MSG", b"$JS.ACK.1", b"\xff\x0b"])
PAYLOADS = st.one_of(
    st.binary(max_size=40), st.sampled_from([b"\r\n", b"MSG a 1 0\r\n\r\n", b"x" * 70_000])
)
HEADERS = st.sampled_from([b"", b"NATS/1.0\r\n\r\n", b"NATS/1.0 503\r\n\r\n"])
MESSAGES = st.builds(
    ReceivedMessage, SUBJECTS, st.sampled_from([b"1", b"sid"]), st.one_of(st.just(b""), SUBJECTS),
    HEADERS, PAYLOADS,
)  # fmt: skip
CONTROLS = st.sampled_from(
    [Control(b"PING", b""), Control(b"+OK", b""), Control(b"-ERR", b"'x'"), Control(b"INFO", b"{}")]
)
CUTS = st.lists(st.integers(min_value=0, max_value=400), max_size=12)
WORDS = st.sampled_from(
    [b"MSG", b"HMSG", b"PING", b"INFO", b"-ERR", b" ", b" ", b"a", b"1", b"5", b"12", b"\r\n"]
)
JUNK = st.one_of(st.binary(max_size=60), st.lists(WORDS, max_size=30).map(b"".join))


def written(items: list[ReceivedMessage | Control]) -> bytes:
    """Return what the server's own sending side writes for `items`."""
    transport, outbound = Transport(), Outbound(ChunkPool())
    outbound.attach(transport)
    for item in items:
        if isinstance(item, Control):
            outbound.append(b" ".join(filter(None, item)) + b"\r\n")
        else:
            frame = compose(item.subject, item.payload, item.reply or None, item.headers or None)
            outbound.append_message(frame, item.sid)
    outbound.flush()
    return transport.take()


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """Cut `data` at `cuts`, where they lie in it."""
    ends = sorted({cut for cut in cuts if cut < len(data)})
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]


def read(parts: list[bytes]) -> tuple[list[ReceivedMessage], list[Control]] | None:
    """Return all that a client reads; None when it is not the protocol."""
    reader = FrameReader()
    try:
        messages = [message for part in parts for message in reader.feed(part)]
    except ProtocolError:
        return None
    return messages, reader.controls


@given(st.lists(st.one_of(MESSAGES, CONTROLS), max_size=8), CUTS)
def test_what_the_server_writes_is_read(
    items: list[ReceivedMessage | Control], cuts: list[int]
) -> None:
    messages = [item for item in items if isinstance(item, ReceivedMessage)]
    controls = [item for item in items if isinstance(item, Control)]
    assert read(pieces(written(items), cuts)) == (messages, controls)


@given(JUNK, CUTS)
def test_any_bytes_are_read_alike_however_they_are_cut(data: bytes, cuts: list[int]) -> None:
    assert read(pieces(data, cuts)) == read([data])


@given(st.lists(MESSAGES, max_size=3), st.binary(max_size=8), st.integers(min_value=0))
def test_damage_is_an_error_or_other_frames(
    items: list[ReceivedMessage | Control], damage: bytes, at: int
) -> None:
    data = written(items)
    at %= len(data) + 1
    read([data[:at] + damage + data[at + len(damage) :]])
