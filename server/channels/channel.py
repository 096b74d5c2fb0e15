"""A byte stream and its owner: asyncio's callbacks, turns of reading, output and the end.

A Channel has a parser and an owner. It feeds received bytes to the parser, a turn's worth at a time
and only while nothing halts the parser. Output accumulates in the owner's `outbound`. The channel
does not know the meaning of commands: the parser passes them to the owner.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

from midge.protocol import errors, memory
from midge.protocol.errors import ProtocolError
from midge.protocol.handler import Handler
from midge.protocol.inbound import Inbound
from midge.protocol.stream_parser import StreamParser
from midge.server.channels import transports
from midge.server.channels.back_pressure import BackPressure, WriteRule
from midge.server.channels.channel_state import ChannelState, may_follow
from midge.server.channels.charges import COMMAND_BYTES, DELIVERY_BYTES
from midge.server.channels.closed_reason import ClosedReason
from midge.server.channels.host import Host
from midge.server.channels.keepalive import KeepaliveTimer
from midge.server.channels.reading import ENDED, FINISHING, Reading
from midge.server.channels.transports import BareTransport, GracefulClose, shut
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool
from midge.server.routing.slow_path import BEHIND, CLOSED

if TYPE_CHECKING:
    import socket
    import ssl

    from midge.server.channels.transports import Transport
    from midge.server.routing.router import Router

_CONNECTING = int(ChannelState.CONNECTING)  # C numbers where this is compiled
_INTRODUCING = int(ChannelState.INTRODUCING)
_CLOSING = int(ChannelState.CLOSING)
_CLOSED = int(ChannelState.CLOSED)

_DELIVERY_BYTES = DELIVERY_BYTES

_FINISHING_MAX = 256  # channels without a transport; each may hold 0.75 MiB of input

_HOLD_BACK_BYTES = 4 * 1024 * 1024  # a receiver this far behind slows down its publishers

_NULL_HANDLER = Handler()


class ChannelOwner(Client):
    """A client at the other end of a Channel, which calls its hooks; most of them are no-ops.

    A subclass sets `channel` before first use. The handler of the channel's parser is another
    object, which knows the client and returns it as its `sender`.
    """

    def __init__(
        self, cid: int, account: Account, pool: ChunkPool, router: "Router | None"
    ) -> None:
        Client.__init__(self, cid, account, pool)
        self.router = cast("Router", router)
        self.channel = cast("Channel", None)

    # Called by the channel.

    def opened(self) -> None:
        """Start: there is a transport."""

    def closed(self) -> None:
        """Stop: the channel has ended, for its `reason`; the transport may still write."""

    def finishing(self) -> None:
        """Prepare to go on without a transport; then call the channel's `go_on_finishing`."""
        self.channel.go_on_finishing()

    def transport_failed(self, error: Exception) -> None:
        """Note why the transport is about to be lost, where the peer has not closed it in order."""

    def lost(self) -> None:
        """Drop all references: the transport is gone."""

    def is_busy(self) -> bool:
        """Return whether parsed commands still wait here."""
        return False

    def send_ping(self) -> None:
        """Send a command that the peer must answer; any input counts as an answer."""

    def write_rule(self) -> WriteRule:
        """Return the rule that holds now, because a reload may change it."""
        limits = self.channel.host.options.limits
        return WriteRule(limits.write_deadline_s, limits.write_timeout_policy == "retry")

    def append_last_error(self, wire: str) -> None:
        """Append `wire`, the channel's last error, to `outbound` in the peer's protocol."""
        self.outbound.append(b"-ERR '%b'\r\n" % wire.encode())

    def broke_protocol(self, error: ProtocolError) -> None:
        """Log the peer's error, for which the channel ends."""
        self.channel.host.protocol_error(self.cid, self.peer, error)

    # Called by the handler and the router.

    def on_budget_spent(self) -> None:
        """Draw more of this turn, or halt until the next one."""
        self.channel.reading.on_budget_spent()

    def flushed(self) -> None:
        """Check after a flush whether the socket took everything, or too much is pending."""
        if self.outbound.behind:
            self.channel.fell_behind()

    def run_goes_on(self, generation: int) -> bool:
        """Return whether the parser still runs, and the next message has the same receivers."""
        halted = self.channel.parser.halted
        return not halted and self.account.sublist.generation == generation

    def pause_for(self, receiver: Client) -> None:
        """Stop reading for a moment after the current batch: `receiver` is far behind."""
        self.channel.pressure().pause_for(receiver)

    def held_publishers(self) -> dict[Client, None]:
        """Return the publishers that wait for this client."""
        return self.channel.pressure().holding

    def release(self) -> None:
        """Resume reading, if this client was waiting for a receiver."""
        self.channel.pressure().release()

    # Output and charges.

    def send(self, piece: bytes) -> None:
        """Send a line of the server's own; it is written at the end of the batch."""
        self.outbound.append(piece)
        self.router.touch(self)

    def send_error(self, text: str) -> None:
        """Send -ERR and go on."""
        self.spend(COMMAND_BYTES)
        self.send(b"-ERR '%b'\r\n" % text.encode())

    def spend(self, cost_bytes: int) -> None:
        """Charge `cost_bytes` to the turn, in addition to the parser's charges."""
        channel = self.channel
        parser = channel.parser
        parser.budget -= cost_bytes
        if parser.budget < 0:
            channel.reading.on_budget_spent()

    # Many lines taken at once: see `LineTaker`.

    def account_of_lines(self) -> Account | None:
        """Return the account of the next PUBs, or None if each of them must be checked."""
        return None

    def count_lines(
        self, account: Account, count: int, payload_bytes: int, line_bytes: int
    ) -> None:
        """Count and charge messages that were taken at once, as `on_publish` does for each."""
        self.in_messages += count
        self.in_bytes += payload_bytes
        memory.count_by_size(self.router.counts_by_size, payload_bytes // count, count)
        self.router.offers += count
        account.sublist.recent.hits += count
        self.spend(count * _DELIVERY_BYTES + line_bytes)

    def close(self, reason: ClosedReason, wire: str | None = None) -> None:
        """Close: send `wire` as -ERR unless None, and write pending output."""
        self.channel.close(reason, wire)

    @property
    def reason(self) -> ClosedReason | None:
        """Why the channel has ended; None while it is open."""
        return self.channel.reason

    @property
    def peer(self) -> str:
        """The peer's address for the log."""
        return self.channel.peer

    @property
    def peer_host(self) -> str:
        """The address that the peer came from."""
        return self.channel.peer_host

    @property
    def peer_port(self) -> int:
        """The port that the peer came from."""
        return self.channel.peer_port

    @property
    def started_at(self) -> float:
        """When the channel was made, in the clock's monotonic time."""
        return self.channel.started_at

    @property
    def last_active_at(self) -> float:
        """Time of the last read, in the clock's monotonic time."""
        return self.channel.last_active_at


_NOBODY = ChannelOwner(0, Account(""), ChunkPool(), None)


class Channel:
    """The byte stream of `owner`, whose commands `parser` reads.

    It has the methods of asyncio's BufferedProtocol. `more_input` is called when the parser can
    take more of the input that a transport keeps for it, and `bare_socket` is the socket before a
    transport is made. Times are the clock's: `started_at` and `last_active_at` are monotonic.

    When the transport is lost, `owner` and the parser's handler become objects that do nothing, so
    that no reference cycle is left.
    """

    def __init__(
        self,
        host: Host,
        owner: ChannelOwner,
        parser: StreamParser,
        peer: tuple[str, int],
        *,
        ping_interval_s: float,
    ) -> None:
        options = host.options
        self.host = host
        self.owner = owner
        self.parser = parser
        self.outbound = owner.outbound
        self.inbound = Inbound(parser, host.shared_buffer)
        self.reading = Reading(host, parser, self.inbound, self)
        self.keepalive = KeepaliveTimer(
            self,
            host.clock,
            host.random,
            interval_s=ping_interval_s,
            ping_max=options.keepalive.ping_max,
        )
        self.back_pressure: BackPressure | None = None  # made on first use
        self.peer_host = peer[0]
        self.peer_port = peer[1]
        self.forwarded_for = ""  # the X-Forwarded-For header; untrusted
        self.state = _CONNECTING
        self.more_input: Callable[[], object] | None = None
        self.bare_socket: socket.socket | None = None
        self.max_pending_bytes = options.limits.max_pending_bytes
        self.reason: ClosedReason | None = None
        self.started_at = host.clock.monotonic()
        self.last_active_at = self.started_at
        self._transport: Transport | None = None
        self._tls: ssl.SSLObject | None = None  # a closed asyncio transport forgets it
        self._graceful_close: GracefulClose | None = None
        self._eof = False
        self._finishes = False  # whether it works on input without a transport

    def become(self, state: int) -> None:
        """Change to `state`, which the table in channel_state.py must allow."""
        assert may_follow(self.state, state), (
            f"{ChannelState(state)!r} after {ChannelState(self.state)!r}"
        )
        self.state = state

    # Reading.

    def greet(self, bare_socket: "socket.socket", greeting: bytes) -> None:
        """Send `greeting` on the socket before a transport is made of it.

        Timers that may end the channel must be running, because the peer reacts to the greeting at
        once.

        Raises:
            OSError: the peer has gone.
        """
        self.bare_socket = bare_socket
        self.outbound.attach(BareTransport(bare_socket))
        bare_socket.send(greeting)

    def connection_made(self, transport: "Transport") -> None:
        """Start on `transport`; asyncio calls this once."""
        self._transport = self.reading.transport = transport
        self._tls = transport.get_extra_info("ssl_object")
        plain = self.bare_socket if self._tls is None else None
        self.bare_socket = None
        if self.state >= _CLOSING:
            transport.abort()  # it timed out in the turn of the loop in which the handshake ended
            return
        # Report every byte that the socket does not take, so that back-pressure starts at once.
        transport.set_write_buffer_limits(high=0)
        self.outbound.attach(transport, -1 if plain is None else plain.fileno())
        self.become(_INTRODUCING)
        self.owner.opened()

    def get_buffer(self, size_hint: int) -> memoryview:
        """Return the buffer for the next read."""
        return self.inbound.get_buffer()

    def buffer_updated(self, count: int) -> None:
        """Process the `count` bytes just read, and flush the output that they caused."""
        if self.state >= _CLOSING:
            return  # input after the last output is read only to be dropped
        self._begin_batch(count, self._tls is None and count < self.inbound.offered)
        try:
            self.inbound.received(count)
        except ProtocolError as error:
            self._end_on_error(error)
        finally:
            self._finish_batch(count)

    def feed(self, data: bytes) -> None:
        """Process `data` from a transport that reads into its own buffers."""
        if self.state >= _CLOSING:
            return
        self._begin_batch(len(data), False)
        try:
            self.inbound.feed(data)
        except ProtocolError as error:
            self._end_on_error(error)
        finally:
            self._finish_batch(len(data))

    def _begin_batch(self, count: int, is_last: bool) -> None:
        """Begin a batch with a read of `count` bytes; see `Reading.begin`."""
        self.host.router.begin_batch()
        now = self.reading.begin(count, is_last)
        self.last_active_at = now
        self.keepalive.last_heard = now

    def _finish_batch(self, read_bytes: int) -> None:
        """End the batch of a read; pause reading if a receiver is far behind."""
        self.host.router.end_batch(read_bytes)
        if self.host.busy_poll is not None and read_bytes:
            self.host.busy_poll.after_read(read_bytes)
        if self.state >= _CLOSING:
            return
        if self.back_pressure is not None and self.back_pressure.held_by is not None:
            self.back_pressure.hold_back()
        if self.reading.finish() and self.state == _INTRODUCING:
            self.host.limit_hits["bytes_before_authentication"] += 1

    def eof_received(self) -> bool:
        """Called when the peer has closed its side; commands that it sent before are answered."""
        if self.state < _CLOSING:
            is_busy = self._is_busy()
            if is_busy or not self.host.close_queue.admit():
                self._eof = True  # its input, or its end, waits to be processed
                if not is_busy:
                    self.host.close_queue.wait(self._end_for_eof)
                return self._tls is None  # a TLS transport ends now in any case
        self.close(ClosedReason.CLIENT_CLOSED)
        return False

    def _end_for_eof(self) -> None:
        """Close, now that it is this channel's turn, unless earlier input is still in work."""
        if not self._is_busy():
            self.close(ClosedReason.CLIENT_CLOSED)

    def connection_lost(self, error: Exception | None) -> None:
        """Release the transport; continue if the peer closed in order and input is left."""
        if self.state == _CLOSED:
            return  # it was let go before this transport was made
        if error is not None:
            self.owner.transport_failed(error)
        if self.state < _CLOSING and (self._eof or error is None):
            for data in transports.rest_of_tls(self._tls):
                self.feed(data)
            if self._is_busy() and self._may_finish():
                self._finish()
                return
        reason = ClosedReason.READ_ERROR if error else ClosedReason.CLIENT_CLOSED
        if self._is_busy() or self.host.close_queue.admit():
            self._end_for_loss(reason)
            return
        self._forget_transport()
        self.reading.halt(ENDED)
        self.inbound.forget()  # thousands of channels may wait, each with an unfinished command
        self.host.close_queue.wait(partial(self._end_for_loss, reason))

    def _end_for_loss(self, reason: ClosedReason) -> None:
        """End without a transport, now that it is this channel's turn."""
        self.close(reason)
        self.dispose()

    def _is_busy(self) -> bool:
        """Return whether some of the input is not processed yet."""
        return self.parser.halted or self.owner.is_busy() or self.more_input is not None

    def _may_finish(self) -> bool:
        """Return whether one more channel may go on without a transport."""
        if self.state >= _CLOSING:
            return False
        if len(self.host.finishing) < _FINISHING_MAX:
            return True
        self.host.limit_hits["finishing_connections"] += 1
        return False

    def _finish(self) -> None:
        """Go on without a transport until the peer's last input is processed."""
        self._finishes = True
        self.host.finishing.add(self)
        self._eof = True
        self._forget_transport()
        self.reading.halt(FINISHING)
        self.owner.finishing()

    def _forget_transport(self) -> None:
        """Drop the transport; from now on nothing is written or delivered."""
        self.owner.deliver_checks |= CLOSED
        self.outbound.detach()
        self._transport = self.reading.transport = None

    @property
    def finishes(self) -> bool:
        """Whether the peer has gone, and its last input is still being processed."""
        return self._finishes

    def go_on_finishing(self) -> None:
        """Go on with the peer's input, now that its subscriptions are gone."""
        self.reading.unhalt(FINISHING)
        self.resume()

    def dispose(self) -> None:
        """Drop all references: the transport is lost, or will never be made."""
        if self._graceful_close is not None:
            self._graceful_close.end()
            self._graceful_close = None
        self.outbound.detach()
        self._transport = self._tls = self.bare_socket = None
        self.host.finishing.discard(self)
        self.become(_CLOSED)
        self.owner.lost()
        # Break the reference cycles, so that everything is freed now and not by the collector.
        self.parser.handler = _NULL_HANDLER
        self.reading.forget()
        self.keepalive.forget()
        if self.back_pressure is not None:
            self.back_pressure.stop()
        self.owner = _NOBODY
        more_input, self.more_input = self.more_input, None
        if more_input is not None:
            more_input()  # the transport notices the end, and drops the input that it keeps

    def pause_writing(self) -> None:
        """Called by asyncio when the write buffer fills; `flushed` handles it."""

    def resume_writing(self) -> None:
        """Write on: the transport has written everything that it held."""
        pending = self.outbound.pending_bytes()
        self.outbound.caught_up()
        if self.outbound.behind:
            self.pressure().progressed(pending - self.outbound.pending_bytes())
            return
        self.owner.deliver_checks &= ~BEHIND
        if self.back_pressure is not None:
            self.back_pressure.caught_up()

    def resume(self) -> None:
        """Parse the input that came while the parser was halted."""
        if self.state >= _CLOSING:
            return
        try:
            self.inbound.resume()
        except ProtocolError as error:
            self._end_on_error(error)
        self._finish_batch(0)
        if self.parser.halted:
            return
        if not self._eof:
            self.reading.go_on()
        if self.more_input is not None:
            self.more_input()
        elif self._eof and not self.owner.is_busy():
            self.close(ClosedReason.CLIENT_CLOSED)

    # Far behind.

    def fell_behind(self) -> None:
        """Record that the socket has not taken all output; close if too much is pending."""
        owner = self.owner
        if not owner.deliver_checks & BEHIND:
            owner.deliver_checks |= BEHIND
            self.pressure().fell_behind()
        if self.outbound.pending_bytes() > self.max_pending_bytes:  # `has_room` skips answers
            self.close(ClosedReason.SLOW_CONSUMER_PENDING)

    def has_room(self, publisher: Client | None) -> bool:
        """Return whether more output may be queued; slow `publisher` down if room is short."""
        pending = self.outbound.pending_bytes()
        if pending < _HOLD_BACK_BYTES and pending < self.max_pending_bytes * 3 // 4:
            return True
        return self.pressure().has_room(publisher, pending)

    def write_rule(self) -> WriteRule:
        """Return the owner's rule for pending output."""
        return self.owner.write_rule()

    def pressure(self) -> BackPressure:
        """Return the back-pressure; make it on first use."""
        if self.back_pressure is None:
            self.back_pressure = BackPressure(self)
        return self.back_pressure

    # The other side.

    @property
    def peer(self) -> str:
        """The peer's address for the log: `host:port`, behind the address that a proxy names."""
        address = f"{self.peer_host}:{self.peer_port}"
        return f"{self.forwarded_for}/{address}" if self.forwarded_for else address

    def peer_certificate(self) -> bytes:
        """Return the certificate that the peer has proven to own, in DER, or b"" without one."""
        return transports.peer_certificate(self._tls)

    def peer_chain(self) -> tuple[bytes, ...]:
        """Return the verified chain in DER, from the peer's own certificate on."""
        return transports.peer_chain(self._tls)

    def tls_facts(self) -> tuple[str, str] | None:
        """Return version and cipher suite of TLS; None on a plain connection."""
        return transports.tls_facts(self._tls)

    def send_ping(self) -> None:
        """Send the owner's PING."""
        self.owner.send_ping()

    # The end.

    def close(self, reason: ClosedReason, wire: str | None = None) -> None:
        """Close the channel: send the error `wire` unless None, and write pending output."""
        if self.state >= _CLOSING:
            return
        self.become(_CLOSING)
        self.reason = reason
        owner = self.owner
        owner.deliver_checks |= CLOSED
        self.reading.halt(ENDED)
        self.keepalive.stop()
        if self.back_pressure is not None:
            self.back_pressure.stop()
        if wire is not None:
            owner.append_last_error(wire)
        self._leave(reason, wire)
        owner.closed()
        if self._finishes:
            self.dispose()

    def abort(self) -> None:
        """Abort the transport and drop pending output."""
        self.outbound.detach()
        if self._transport is not None:
            self._transport.abort()

    def end_stale(self) -> None:
        """Close the channel because its peer answers no PING."""
        self.close(ClosedReason.STALE_CONNECTION, errors.STALE_CONNECTION)

    def _leave(self, reason: ClosedReason, wire: str | None) -> None:
        """Close the transport in the way that `reason` asks for."""
        transport = self._transport
        if transport is None:
            self.outbound.finish()
            if self.bare_socket is not None:
                shut(self.bare_socket)
                self.bare_socket = None
        elif reason.is_slow_consumer:
            self.abort()
        else:
            self.outbound.finish()
            self._graceful_close = GracefulClose(self.host, transport)
            self._graceful_close.begin(has_words=wire is not None)

    def _end_on_error(self, error: ProtocolError) -> None:
        """Close the channel for an error that the parser or a command has raised."""
        self.owner.broke_protocol(error)
        self.close(_REASONS.get(error.wire, ClosedReason.PROTOCOL_VIOLATION), error.wire)


_REASONS: dict[str | None, ClosedReason] = {
    errors.MAXIMUM_CONTROL_LINE: ClosedReason.MAXIMUM_CONTROL_LINE,
    errors.MAXIMUM_PAYLOAD: ClosedReason.MAXIMUM_PAYLOAD,
    errors.AUTHORIZATION_VIOLATION: ClosedReason.AUTHENTICATION_FAILURE,
}
