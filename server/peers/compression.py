"""S2 compression of a link: the modes, the one that two servers agree on, and the stream.

Each server names its mode in INFO. Where they agree on compression, both directions are S2 streams
from then on, at the level of the server that writes. All levels but `s2_uncompressed`, which only
frames the bytes, write the same here, and any level is read.

`s2_auto` chooses the level by the round trip: it costs more than it saves on a fast network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from midge.protocol.errors import ProtocolError
from midge.protocol.inbound import Inbound, SharedBuffer
from midge.protocol.stream_parser import StreamParser
from midge.server.channels.reading import AUTHENTICATING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from midge.server.peers.link import Link

OFF = "off"
ACCEPT = "accept"
AUTO = "s2_auto"
FAST = "s2_fast"
UNCOMPRESSED = "s2_uncompressed"
LEVELS = (UNCOMPRESSED, FAST, "s2_better", "s2_best")
NOT_SUPPORTED = "not supported"

_BUFFER_BYTES = 64 * 1024
_DECODED_COST = 2
"""Charge for a decoded byte, in copied ones: some 1.2 ns."""


def agreed_mode(own: str, other: str) -> str:
    """Return the mode of a link, by the modes of its two servers, as nats-server does.

    Raises:
        ProtocolError: the other server names an unknown mode.
    """
    if not other or other == NOT_SUPPORTED:
        return NOT_SUPPORTED
    if other not in {OFF, ACCEPT, AUTO, *LEVELS}:
        raise ProtocolError(None, f"unsupported compression mode {other[:64]!r}")
    if OFF in {own, other} or own == other == ACCEPT:
        return OFF
    if own != ACCEPT:
        return own
    return FAST if other == AUTO else other


def level_for(round_trip_s: float, thresholds_s: Sequence[float]) -> str:
    """Return the level for a round trip; up to the first of the thresholds, nothing is compressed.

    The n-th threshold is the longest round trip of the n-th level.
    """
    for level, threshold_s in zip(LEVELS, thresholds_s, strict=False):
        if round_trip_s <= threshold_s:
            return level
    return LEVELS[-1] if len(thresholds_s) >= len(LEVELS) - 1 else LEVELS[len(thresholds_s) - 1]


class Compression:
    """The compression of one link whose server here has the mode `own`; `mode` is in force."""

    def __init__(self, own: str, thresholds_s: Sequence[float]) -> None:
        self.own = own
        self.mode = OFF
        self.is_settled = False
        self._thresholds_s = thresholds_s
        self._transport: S2Transport | None = None

    def settle(self, link: Link, other: Any) -> bool:
        """Agree with a server whose first INFO names `other`; return whether `begin` is to follow.

        Raises:
            ProtocolError: `other` is an unknown mode.
        """
        if self.is_settled:
            return False
        if self.own == OFF:
            self.mode = OFF if other else NOT_SUPPORTED
            return False
        self.is_settled = True
        self.mode = agreed_mode(self.own, "" if other is UNSET else other)
        if self.mode == AUTO:
            channel = link.channel
            round_trip_s = channel.host.clock.monotonic() - channel.started_at
            self.mode = level_for(round_trip_s, self._thresholds_s)
        return self.mode in LEVELS

    @property
    def announced(self) -> str:
        """The mode that this server names once it is settled."""
        return AUTO if self.own == AUTO and self.mode in LEVELS else self.mode

    def begin(self, link: Link) -> None:
        """Compress all later output, and decode all input behind the present line."""
        link.outbound.flush()
        self._transport = S2Transport(link.channel.reading.transport, self.mode)
        link.outbound.attach(self._transport)
        link.channel.reading.halt(AUTHENTICATING)
        link.channel.inbound.parse_by(S2Parser(link))
        link.broker.clock.call_later(0, _go_on, link)

    def answered(self, link: Link) -> None:
        """Choose the level again, by the round trip of the last PING."""
        round_trip_s = link.channel.keepalive.round_trip_s
        if self._transport is not None and self.own == AUTO and round_trip_s is not None:
            self.mode = level_for(round_trip_s, self._thresholds_s)
            self._transport.follow(self.mode)


def _go_on(link: Link) -> None:
    if link.reason is None:
        link.channel.reading.unhalt(AUTHENTICATING)
        link.channel.resume()


class S2Transport:
    """Writes to the transport `below` as an S2 stream; each write is complete by itself."""

    def __init__(self, below: Any, mode: str) -> None:
        # Few links are compressed, and only those pay for the import.
        from midge.jetstream.archive.framing import S2Writer  # noqa: PLC0415

        self._below = below
        self._writer = S2Writer()
        self.follow(mode)

    def follow(self, mode: str) -> None:
        """Compress by another level from now on."""
        self._writer.compresses = mode != UNCOMPRESSED

    def write(self, data: bytes | memoryview) -> None:
        """Send `data`."""
        self._writer.write(bytes(data))
        self._writer.finish()
        self._below.write(self._writer.take())

    def get_write_buffer_size(self) -> int:
        """Count the bytes that the socket has not taken yet."""
        size: int = self._below.get_write_buffer_size()
        return size


class S2Parser(StreamParser):
    """Decodes an S2 stream for the parser of `link`, one chunk at a time.

    A chunk stays in the read buffer until the link's parser, which others may halt, has taken all
    of it.
    """

    def __init__(self, link: Link) -> None:
        from midge.jetstream.archive.framing import S2Reader  # noqa: PLC0415 - as above

        StreamParser.__init__(self, link.parser.handler)
        self._link = link
        self._reader = S2Reader()
        self._inbound = Inbound(link.parser, SharedBuffer(_BUFFER_BYTES))
        self._begun_bytes = 0  # of the chunk at the start of the buffer, if it is decoded already

    def feed(self, buffer: bytearray, start: int, end: int) -> int:
        """Parse what the whole chunks in ``buffer[start:end]`` hold; see `StreamParser`."""
        from midge.jetstream.archive.framing import chunk_end  # noqa: PLC0415 - as above
        from midge.jetstream.archive.s2 import S2Error  # noqa: PLC0415

        at = start
        while at < end and not self._is_halted():
            if self._begun_bytes:
                self._inbound.resume()
            else:
                try:
                    self._reader.check_begin(buffer[at])
                    after = chunk_end(buffer, at, end)
                    if not after:
                        break
                    block = self._reader.open(bytes(buffer[at:after]))
                except S2Error as error:
                    raise ProtocolError(None, str(error)) from error
                self._begun_bytes = after - at
                if block:
                    self._link.spend(_DECODED_COST * len(block))
                    self._inbound.feed(block)
            if self._is_halted():
                break
            at += self._begun_bytes
            self._begun_bytes = 0
        return at

    def _is_halted(self) -> bool:
        return self._link.parser.halted

    def forget_buffer(self) -> None:
        """Do nothing: the parser of the link has a buffer of its own."""
