"""A client's byte stream: asyncio's callbacks in, turns of reading, back-pressure, the way out.

What is read goes to the parser, a turn's worth at a time and only while nothing halts it; what is
sent piles up in `outbound`. What the commands mean is none of this module's business: they go to
the methods that the classes on top of this one add.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from midge.protocol import errors
from midge.protocol.errors import ProtocolError
from midge.protocol.handler import Handler
from midge.protocol.inbound import Inbound
from midge.protocol.parser import Parser
from midge.server.clients.back_pressure import BackPressure
from midge.server.clients.closed_reason import ClosedReason
from midge.server.clients.fair_turns import PORTION_BYTES
from midge.server.clients.keepalive import Keepalive
from midge.server.clients.tls_rest import rest_of_tls
from midge.server.routing.client import Client
from midge.server.routing.slow_path import BEHIND, CLOSED

if TYPE_CHECKING:
    from midge.server.broker.broker import Broker
    from midge.server.clock import Timer

# Why the parser may be halted; it goes on when no reason is left.
INTRODUCING = 1  # it is being found out who the client is
TURN_OVER = 2  # others have their turn
WAITING = 4  # interceptors have too much to look at
FINISHING = 8  # the client has gone, and its own subscriptions go before what it sent last is done

# What one read holds may keep others waiting for long, so it uses up a turn (see turns.py): the
# bytes copied of each delivery, and as many as could be copied while a command is done, or a step
# of the SubList.
COMMAND_BYTES = 8 * 1024
STEP_BYTES = 64
_PORTION_BYTES = PORTION_BYTES

_LINGER_S = 0.25  # how long to read on after the last word, so that it is not lost in a reset
_HELD_BYTES = 64 * 1024  # what may wait unparsed while the parser is halted

_FINISHING_MAX = 256  # connections without a transport; each may hold 0.75 MiB of what was read

_NULL_HANDLER = Handler()
_OK = b"+OK\r\n"
_PING = b"PING\r\n"


class Channel(Client):
    """A client over a byte-stream transport; asyncio's BufferedProtocol by its methods.

    `tracer` is told what comes and goes, and `pending` is what waits for interceptors; None while
    there is no such thing. `more_input` is called when the parser can take more of what a transport
    keeps for it. Times are the clock's: `started_at` and `last_active_at` monotonic.
    """

    def __init__(
        self, broker: "Broker", cid: int, peer: tuple[str, int], listener_kind: str
    ) -> None:
        Client.__init__(self, cid, broker.global_account, broker.chunks)
        limits = broker.options.limits
        self.broker = broker
        self.router = broker.router
        self.peer_host = peer[0]
        self.peer_port = peer[1]
        self.forwarded_for = ""  # what a proxy, or somebody who plays one, says of the address
        self.listener_kind = listener_kind
        self.tracer: Any = None
        self.pending: Any = None
        self.more_input: Callable[[], object] | None = None
        self.max_pending_bytes = limits.max_pending_bytes
        self.parser = Parser(
            self,
            max_control_line=limits.max_control_line_bytes,
            max_payload=limits.max_payload_bytes,
        )
        self.inbound = Inbound(self.parser, broker.shared_buffer)
        self.back_pressure = BackPressure(self)
        self.reason: ClosedReason | None = None
        self.started_at = broker.clock.monotonic()
        self.last_active_at = self.started_at
        self.connected = False  # whether it is known who the client is
        self.keepalive = Keepalive(
            broker.clock,
            broker.random,
            interval_s=broker.ping_interval_s(listener_kind),
            ping_max=broker.options.keepalive.ping_max,
            ping=self.send_ping,
            stale=self._end_stale,
        )
        self._transport: Any = None
        self._tls: Any = None  # its SSL object; asyncio's transport forgets it when it is closed
        self.turn_left = _PORTION_BYTES
        self._linger_timer: Timer | None = None
        self._eof = False
        self._paused = False
        self._ended = False
        self._finishes = False  # without a transport
        self._halts = 0

    # Made and heard.

    def connection_made(self, transport: Any) -> None:
        """Start on `transport`; asyncio calls this once."""
        self._transport = transport
        self._tls = transport.get_extra_info("ssl_object")
        # Every byte the socket leaves behind counts, so that back-pressure is felt at once.
        transport.set_write_buffer_limits(high=0)
        self.outbound.attach(transport)
        self.opened()
        self.router.flush_unless_due()

    def get_buffer(self, size_hint: int) -> memoryview:
        """Give the room for the next read."""
        return self.inbound.get_buffer()

    def buffer_updated(self, count: int) -> None:
        """Take the `count` bytes just read, and flush what came of them."""
        if self._ended:
            return  # after the last word, what comes is read only to be dropped
        self._note_activity()
        self.turn_left = max(self.turn_left, _PORTION_BYTES)
        try:
            self.inbound.received(count)
        except ProtocolError as error:
            self._end_on_error(error)
        self._finish_batch(count)

    def feed(self, data: bytes) -> None:
        """Take `data`, from a transport that reads into buffers of its own."""
        if self._ended:
            return
        self._note_activity()
        self.turn_left = max(self.turn_left, _PORTION_BYTES)
        try:
            self.inbound.feed(data)
        except ProtocolError as error:
            self._end_on_error(error)
        self._finish_batch(len(data))

    def _note_activity(self) -> None:
        now = self.broker.clock.monotonic()
        self.last_active_at = now
        self.keepalive.last_heard = now

    def _finish_batch(self, read_bytes: int) -> None:
        """End the batch that a read was; read no further where a client has to be waited for."""
        self.router.end_batch(read_bytes)
        if self._ended:
            return
        if self.back_pressure.held_by is not None:
            self.back_pressure.hold_back()
        if self.parser.halted:
            self._wait_with_reading()

    def eof_received(self) -> bool:
        """Hear that the client sends no more; what it has asked for is still answered."""
        self.router.flush_unless_due()
        if self._is_busy() and not self._ended:
            self._eof = True  # it, or what it has sent, is still being looked at
            return self.tls_facts() is None  # a TLS transport ends now, whatever is answered
        self.close(ClosedReason.CLIENT_CLOSED)
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Let the connection go, unless the client left in order and more of its input waits."""
        if not self._ended and (self._eof or error is None):
            for data in rest_of_tls(self._tls):
                self.feed(data)
            if self._is_busy() and self._may_finish():
                self._finish()
                return
        self.close(ClosedReason.READ_ERROR if error else ClosedReason.CLIENT_CLOSED)
        self.let_go()

    def _is_busy(self) -> bool:
        """Tell whether what has been read is not all done yet."""
        return self.parser.halted or self.pending is not None or self.more_input is not None

    def _may_finish(self) -> bool:
        """Tell whether one more connection may go on without a transport."""
        if self._ended:
            return False
        if len(self.broker.finishing) < _FINISHING_MAX:
            return True
        self.broker.limit_hits["finishing_connections"] += 1
        return False

    def _finish(self) -> None:
        """Go on without a transport until what the client sent before it left is done."""
        self._finishes = True
        self.broker.finishing.add(self)
        self._eof = True
        self.deliver_checks |= CLOSED
        self.outbound.detach()
        self._transport = None
        self.halt(FINISHING)
        self.finishing()

    def go_on_finishing(self) -> None:
        """Go on with what the client sent, now that nothing is left to be delivered to it."""
        self.unhalt(FINISHING)
        self.resume()

    def let_go(self) -> None:
        """Keep nothing and be kept by nothing: there is no transport, or will be none."""
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None
        self.outbound.detach()
        self._transport = self._tls = None
        self.broker.finishing.discard(self)
        self.lost()
        # Break the reference cycles, so that the connection is freed now and not by the collector.
        self.parser.handler = _NULL_HANDLER
        self.keepalive.forget()
        self.back_pressure.stop()
        more_input, self.more_input = self.more_input, None
        if more_input is not None:
            more_input()  # it sees the end, and drops what it has

    def pause_writing(self) -> None:
        """Hear that the socket is full; the flush that made it so sees it by itself."""

    def resume_writing(self) -> None:
        """Hear that the transport has got rid of what it held."""
        self.outbound.caught_up()
        if self.outbound.behind:
            self.back_pressure.progressed()
            return
        self.deliver_checks &= ~BEHIND
        self.back_pressure.caught_up()

    # Halted and in turns.

    def halt(self, why: int) -> None:
        """Parse nothing more after the command at hand; what comes meanwhile waits."""
        self._halts |= why
        self.parser.halted = True

    def unhalt(self, why: int) -> None:
        """Have `why` halt the parser no longer; `resume` then parses what waits, if it may."""
        self._halts &= ~why
        self.parser.halted = self._ended or self._halts != 0

    def resume(self) -> None:
        """Parse what came while the parser was halted."""
        if self._ended:
            return
        try:
            self.inbound.resume()
        except ProtocolError as error:
            self._end_on_error(error)
        self._finish_batch(0)
        if self.parser.halted:
            return
        if self._paused and not self._eof:
            self._paused = False
            if not self.back_pressure.is_held_back:
                self.resume_reading()
        if self.more_input is not None:
            self.more_input()
        elif self._eof and self.pending is None:
            self.close(ClosedReason.CLIENT_CLOSED)

    def spend(self, cost_bytes: int) -> None:
        """Use up so much of the turn; at its end the rest waits until others have had theirs."""
        self.turn_left -= cost_bytes
        if self.turn_left < 0 and not self._halts & TURN_OVER and not self.may_spend(0):
            self.halt(TURN_OVER)
            self.broker.turns.wait(self._take_turn)

    def may_spend(self, cost_bytes: int) -> bool:
        """Tell whether the turn, or what can still be drawn of it, is enough for that."""
        while self.turn_left < cost_bytes:
            drawn: int = self.broker.turns.draw()
            if not drawn:
                return False
            self.turn_left += drawn
        return True

    def _take_turn(self) -> None:
        """Have one's share of the next turn, and leave to others what is not needed."""
        turns = self.broker.turns
        self.turn_left = turns.share()
        self._go_on()
        turns.give_back(max(self.turn_left, 0))
        self.turn_left = 0

    def _go_on(self) -> None:
        """Go on with what waits, for what is left of the turn."""
        if self._ended or not self._halts & TURN_OVER:
            return
        self.unhalt(TURN_OVER)
        self.resume()

    def _wait_with_reading(self) -> None:
        """Read no more while nobody parses: who is not known yet may not fill the memory."""
        if not self._paused and self.inbound.held_bytes() > _HELD_BYTES:
            self._paused = True
            if not self.connected:
                self.broker.limit_hits["bytes_before_authentication"] += 1
            self.pause_reading()

    # Held back.

    def flushed(self) -> None:
        """See after a flush whether the socket took everything, and whether too much waits."""
        if not self.outbound.behind:
            return
        if not self.deliver_checks & BEHIND:
            self.deliver_checks |= BEHIND
            self.back_pressure.fell_behind()
        if self.outbound.pending_bytes() > self.max_pending_bytes:  # of answers, which nobody asks
            self.close(ClosedReason.SLOW_CONSUMER_PENDING)

    def run_goes_on(self, generation: int) -> bool:
        """Tell whether nothing has halted the parser, and the next message is for the same."""
        return not self.parser.halted and self.account.sublist.generation == generation

    def hold_for(self, receiver: Client) -> None:
        """Hear that `receiver` is far behind; this connection is read no further for a moment."""
        self.back_pressure.hold_for(receiver)

    def held(self, publisher: Client) -> None:
        """Remember a publisher that waits for this client."""
        self.back_pressure.holding[publisher] = None

    def release(self) -> None:
        """Read on, if this connection was waiting for a receiver."""
        self.back_pressure.release()

    def pause_reading(self) -> None:
        """Read nothing more for now; the transport keeps what comes."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on, unless what has been read still waits."""
        if not (self._ended or self._paused or self._transport is None):
            self._transport.resume_reading()

    # Sending.

    def send(self, piece: bytes) -> None:
        """Send a line of the server's own; it is written at the end of the batch."""
        self.outbound.append(piece)
        self.router.touch(self)

    def send_ok(self) -> None:
        """Say that a command has been taken, as a verbose client wants it."""
        if self.tracer is not None:
            self.tracer.sent("OK")
        self.send(_OK)

    def send_error(self, text: str) -> None:
        """Send -ERR and go on."""
        if self.tracer is not None:
            self.tracer.sent(f"-ERR {text}")
        self.spend(COMMAND_BYTES)
        self.broker.error_sent(self, text)
        self.send(b"-ERR '%b'\r\n" % text.encode())

    def send_ping(self) -> None:
        """Send PING; no batch of reads may end soon."""
        if self.tracer is not None:
            self.tracer.sent("PING")
        self.send(_PING)
        self.router.flush_unless_due()

    # What the classes on top do besides.

    def opened(self) -> None:
        """Hear that there is a transport."""

    def closed(self) -> None:
        """Hear that the connection has ended, for `reason`."""

    def finishing(self) -> None:
        """Hear that the client has gone and its input has not: then call `go_on_finishing`."""

    def lost(self) -> None:
        """Hear that the transport is gone."""

    # The other side.

    @property
    def peer(self) -> str:
        """Where the client is, for the log: `host:port`, and before it what a proxy says."""
        address = f"{self.peer_host}:{self.peer_port}"
        return f"{self.forwarded_for}/{address}" if self.forwarded_for else address

    def peer_certificate(self) -> bytes:
        """Give the certificate that the client has proven to own, in DER; empty without one."""
        return self._tls.getpeercert(binary_form=True) or b"" if self._tls else b""

    def tls_facts(self) -> tuple[str, str] | None:
        """Give the version and the cipher suite of TLS; None on a plain connection."""
        if not self._tls:
            return None
        suite = self._tls.cipher()
        return self._tls.version() or "", suite[0] if suite else ""

    # The end.

    def close(self, reason: ClosedReason, wire: str | None = None) -> None:
        """End the connection: say `wire` as -ERR if given, write what is pending, and leave."""
        if self._ended:
            return
        self._ended = True
        self.reason = reason
        self.deliver_checks |= CLOSED
        self.parser.halted = True
        self.keepalive.stop()
        self.back_pressure.stop()
        if wire is not None:
            if self.tracer is not None:
                self.tracer.sent(f"-ERR {wire}")
            self.outbound.append(b"-ERR '%b'\r\n" % wire.encode())
        self._leave(reason, wire)
        self.closed()
        if self._finishes:
            self.let_go()

    def abort(self) -> None:
        """Cut the transport, whatever is pending."""
        self.outbound.detach()
        if self._transport is not None:
            self._transport.abort()

    def _leave(self, reason: ClosedReason, wire: str | None) -> None:
        """Close the transport in the way that `reason` asks for."""
        transport = self._transport
        if transport is None:
            return
        if reason.is_slow_consumer:
            self.abort()
            return
        self.outbound.finish()
        if wire is None or not transport.can_write_eof():
            self._close_transport()
            return
        # Closing with input unread would reset the connection and could eat the -ERR.
        try:
            transport.write_eof()
        except OSError:
            self._close_transport()
            return
        self._linger_timer = self.broker.clock.call_later(_LINGER_S, self._close_transport)

    def _close_transport(self) -> None:
        """Close, and cut when the client does not take its last words within the write deadline.

        It counts as a client no more, so nothing else would end one that never reads them.
        """
        if self._transport is not None:
            deadline_s = self.broker.options.limits.write_deadline_s
            self._linger_timer = self.broker.clock.call_later(deadline_s, self._cut)
            self._transport.close()

    def _cut(self) -> None:
        self.broker.limit_hits["last_words"] += 1
        self.abort()

    def _end_on_error(self, error: ProtocolError) -> None:
        """End on what the parser, or a command, found wrong."""
        self.broker.protocol_error(self, error)
        self.close(_REASONS.get(error.wire, ClosedReason.PROTOCOL_VIOLATION), error.wire)

    def _end_stale(self) -> None:
        self.close(ClosedReason.STALE_CONNECTION, errors.STALE_CONNECTION)


_REASONS: dict[str | None, ClosedReason] = {
    errors.MAXIMUM_CONTROL_LINE: ClosedReason.MAXIMUM_CONTROL_LINE,
    errors.MAXIMUM_PAYLOAD: ClosedReason.MAXIMUM_PAYLOAD,
    errors.AUTHORIZATION_VIOLATION: ClosedReason.AUTHENTICATION_FAILURE,
}
