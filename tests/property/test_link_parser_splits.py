"""However a link's bytes are split, both of its dialects read the same commands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midge.protocol.frame import Frame
from midge.protocol.handler import Handler
from midge.protocol.inbound import Inbound, SharedBuffer
from midge.protocol.link import LEAF, ROUTE, LinkParser


class Notes(Handler):
    """Records its calls."""

    parser: LinkParser

    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []

    def note(self, *event: object) -> None:
        self.events.append((self.parser.account, self.parser.origin, *event))

    def on_publish(self, frame: Frame) -> None:
        self.on_link_message(frame, [])

    def on_link_message(self, frame: Frame, queues: list[bytes]) -> None:
        shown = frame.subject_bytes(), frame.reply_bytes(), frame.header_bytes()
        self.note(*shown, frame.payload_bytes(), tuple(queues))

    def on_link_subscribe(self, subject: bytes, queue: bytes | None, weight: int) -> None:
        self.note(subject, queue, weight)

    def on_link_unsubscribe(self, subject: bytes, queue: bytes | None) -> None:
        self.note(subject, queue)


names = st.sampled_from([b"a", b"foo.bar", b"$G", b"q.1", b"x" * 30])
payloads = st.binary(max_size=40)


@st.composite
def message(draw: st.DrawFn, letter: bytes, prefix: bytes, *, sizes: int | None = None) -> bytes:
    """Write a message, after the verb and `prefix`, in any form."""
    payload, with_headers = draw(payloads), draw(st.booleans())
    headers = b"NATS/1.0\r\n\r\n" if with_headers else b""
    queues = draw(st.lists(names, max_size=3))
    reply = draw(st.none() | names)
    words = [b"HMSG" if with_headers and sizes is None else letter + b"MSG"]
    words += [*prefix.split(), draw(names)]
    if queues:
        words += [b"|"] if reply is None else [b"+", reply]
        words += queues
    elif reply is not None:
        words.append(reply)
    if with_headers or sizes == 2:
        words.append(b"%d" % len(headers))
    words.append(b"%d" % (len(headers) + len(payload)))
    return b" ".join(words) + b"\r\n" + headers + payload + b"\r\n"


@st.composite
def interest(draw: st.DrawFn, letter: bytes, prefix: bytes) -> bytes:
    """Write a line of interest or of its end."""
    queue, ends = draw(st.none() | names), draw(st.booleans())
    words = [letter + (b"S-" if ends else b"S+"), *prefix.split(), draw(names)]
    if queue is not None:
        words += [queue] if ends else [queue, b"%d" % draw(st.integers(0, 1 << 40))]
    return b" ".join(words) + b"\r\n"


leaf_lines = st.one_of(message(b"L", b""), interest(b"L", b""), st.just(b"PING\r\n"))
route_lines = st.one_of(
    message(b"R", b"A"),
    message(b"R", b"$SYS"),
    message(b"L", b"EDGE A", sizes=2),
    interest(b"R", b"A"),
    interest(b"L", b"EDGE B"),
    st.just(b"A+ B\r\n"),
)


def run(dialect: int, pieces: list[bytes]) -> object:
    notes = Notes()
    parser = LinkParser(notes, dialect)
    parser.budget = 1 << 40
    notes.parser = parser
    inbound = Inbound(parser, SharedBuffer(256))
    for piece in pieces:
        inbound.feed(piece)
    assert inbound.held_bytes() == 0
    return notes.events


@pytest.mark.parametrize(("dialect", "lines"), [(LEAF, leaf_lines), (ROUTE, route_lines)])
@given(data=st.data())
def test_any_split_gives_the_same_commands(
    dialect: int,
    lines: st.SearchStrategy[bytes],
    data: st.DataObject,
) -> None:
    stream = b"".join(data.draw(st.lists(lines, min_size=1, max_size=12)))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream)), max_size=8)))
    pieces = [stream[i:j] for i, j in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert run(dialect, pieces) == run(dialect, [stream])
