"""A client's byte stream: asyncio's callbacks in, turns of reading, back-pressure, the way out.

What is read goes to the parser, a turn's worth at a time and only while nothing halts it; what is
sent piles up in `outbound`. What the commands mean is none of this module's business: they go to
the methods that the classes on top of this one add.
"""

import contextlib
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from midge.protocol import errors, memory
from midge.protocol.errors import ProtocolError
from midge.protocol.handler import Handler
from midge.protocol.inbound import Inbound
from midge.protocol.parser import Parser
from midge.server.clients.back_pressure import BackPressure
from midge.server.clients.closed_reason import ClosedReason
from midge.server.clients.fair_turns import BUSY_S, PORTION_BYTES
from midge.server.clients.keepalive import Keepalive
from midge.server.clients.state import State, may_follow
from midge.server.clients.tls_rest import rest_of_tls
from midge.server.routing.client import Client
from midge.server.routing.slow_path import BEHIND, CLOSED

if TYPE_CHECKING:
    from midge.server.broker.broker import Broker
    from midge.server.clock import Timer

_CONNECTING = int(State.CONNECTING)  # C numbers where this is compiled
_INTRODUCING = int(State.INTRODUCING)
_CLOSING = int(State.CLOSING)
_CLOSED = int(State.CLOSED)

# Why the parser may be halted; it goes on when no reason is left.
AUTHENTICATING = 1  # it is being found out who the client is
TURN_OVER = 2  # others have their turn
WAITING = 4  # interceptors have too much to look at
FINISHING = 8  # the client has gone, and its own subscriptions go before what it sent last is done

# Why nothing is read; it goes on when no reason is left.
_HALTED = 1  # too much waits to be parsed
_HELD_BACK = 2  # a receiver is far behind
_RESTING = 4  # others' sockets have not been looked at for long

# What commands use up besides what the parser charges (see protocol/costs.py): an answer, or a
# message on a way of its own, and a step of the SubList or of a set of permissions.
COMMAND_BYTES = 8 * 1024 if memory.is_compiled() else 64 * 1024
STEP_BYTES = 64 if memory.is_compiled() else 640
_OK_BYTES = 128 if memory.is_compiled() else 4096
LOG_LINE_BYTES = 32 * 1024
_ESCAPED_BYTES = 256  # a character of an -ERR that had to be looked at one by one
_PORTION_BYTES = PORTION_BYTES

# A loop may read the same socket 32 times before it looks at another. Two reads in a row keep the
# throughput of 32; the rest waits until the loop has gone round.
_READ_IN_A_ROW_BYTES = 512 * 1024

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
        self.state = _CONNECTING
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
        self.bare_socket: Any = None  # while there is no transport, for who must be able to end it
        self._linger_timer: Timer | None = None
        self._eof = False
        self._reading_stops = 0
        self._read_bytes = 0  # since others' sockets were looked at
        self._began_at = self.started_at
        self._busy_s = 0.0  # in batches that used up a portion, since others had their turn
        self._drew = False  # whether the batch at hand has used up a portion
        self._finishes = False  # without a transport
        self._halts = 0

    # What it is up to.

    def become(self, state: int) -> None:
        """Go on to `state`, which the table of state.py must allow."""
        assert may_follow(self.state, state), f"{State(state)!r} after {State(self.state)!r}"
        self.state = state

    # Made and heard.

    def connection_made(self, transport: Any) -> None:
        """Start on `transport`; asyncio calls this once."""
        self.bare_socket = None
        self._transport = transport
        self._tls = transport.get_extra_info("ssl_object")
        if self.state >= _CLOSING:
            transport.abort()  # its time was up in the turn of the loop that the handshake ended in
            return
        # Every byte the socket leaves behind counts, so that back-pressure is felt at once.
        transport.set_write_buffer_limits(high=0)
        self.outbound.attach(transport)
        self.become(_INTRODUCING)
        self.opened()
        self.router.flush_unless_due()

    def get_buffer(self, size_hint: int) -> memoryview:
        """Give the room for the next read."""
        return self.inbound.get_buffer()

    def buffer_updated(self, count: int) -> None:
        """Take the `count` bytes just read, and flush what came of them."""
        if self.state >= _CLOSING:
            return  # after the last word, what comes is read only to be dropped
        self._begin_batch(count)
        try:
            self.inbound.received(count)
        except ProtocolError as error:
            self._end_on_error(error)
        self._finish_batch(count)

    def feed(self, data: bytes) -> None:
        """Take `data`, from a transport that reads into buffers of its own."""
        if self.state >= _CLOSING:
            return
        self._begin_batch(len(data))
        try:
            self.inbound.feed(data)
        except ProtocolError as error:
            self._end_on_error(error)
        self._finish_batch(len(data))

    def _begin_batch(self, count: int) -> None:
        """Note a read of `count` bytes, and let a portion of work be done on it."""
        now = self.broker.clock.monotonic()
        self.last_active_at = now
        self.keepalive.last_heard = now
        self._began_at = now
        self._drew = False
        self._read_bytes += count
        self.parser.budget = max(self.parser.budget, _PORTION_BYTES)

    def _finish_batch(self, read_bytes: int) -> None:
        """End the batch that a read was; read no further where a client has to be waited for."""
        self.router.end_batch(read_bytes)
        if self.state >= _CLOSING:
            return
        if self.back_pressure.held_by is not None:
            self.back_pressure.hold_back()
        if self.parser.halted:
            self._wait_with_reading()
        if self._drew:
            self._busy_s += self.broker.clock.monotonic() - self._began_at
            self._drew = False
            if self.parser.budget > 0:
                self.broker.turns.give_back(self.parser.budget)
                self.parser.budget = 0
        if self._read_bytes >= _READ_IN_A_ROW_BYTES or self._busy_s >= BUSY_S:
            self._rest()

    def eof_received(self) -> bool:
        """Hear that the client sends no more; what it has asked for is still answered."""
        self.router.flush_unless_due()
        if self._is_busy() and self.state < _CLOSING:
            self._eof = True  # it, or what it has sent, is still being looked at
            return self.tls_facts() is None  # a TLS transport ends now, whatever is answered
        self.close(ClosedReason.CLIENT_CLOSED)
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Let the connection go, unless the client left in order and more of its input waits."""
        if self.state < _CLOSING and (self._eof or error is None):
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
        if self.state >= _CLOSING:
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
        self.become(_CLOSED)
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
        self.parser.halted = self.state >= _CLOSING or self._halts != 0

    def resume(self) -> None:
        """Parse what came while the parser was halted."""
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
            self._allow_reading(_HALTED)
        if self.more_input is not None:
            self.more_input()
        elif self._eof and self.pending is None:
            self.close(ClosedReason.CLIENT_CLOSED)

    def spend(self, cost_bytes: int) -> None:
        """Use up so much of the turn, beside what the parser charges."""
        parser = self.parser
        parser.budget -= cost_bytes
        if parser.budget < 0:
            self.on_budget_spent()

    def on_budget_spent(self) -> None:
        """Draw more of this turn; without any, the rest waits until others have had theirs."""
        if self._halts & TURN_OVER or self.state >= _CLOSING:
            return
        self._drew = True
        busy_s = self._busy_s + self.broker.clock.monotonic() - self._began_at
        if busy_s >= BUSY_S or not self.may_spend(0):
            self.halt(TURN_OVER)
            self.broker.turns.wait(self._take_turn)

    def may_spend(self, cost_bytes: int) -> bool:
        """Tell whether the turn, or what can still be drawn of it, is enough for that."""
        while self.parser.budget < cost_bytes:
            drawn: int = self.broker.turns.draw(cost_bytes - self.parser.budget)
            if not drawn:
                return False
            self.parser.budget += drawn
        return True

    def _take_turn(self) -> None:
        """Have one's share of the next turn, and leave to others what is not needed."""
        turns = self.broker.turns
        parser = self.parser
        parser.budget = turns.share()
        self._began_at = self.broker.clock.monotonic()
        self._busy_s = 0.0
        self._go_on()
        turns.give_back(max(parser.budget, 0))
        parser.budget = 0

    def _go_on(self) -> None:
        """Go on with what waits, for what is left of the turn."""
        if self.state >= _CLOSING or not self._halts & TURN_OVER:
            return
        self.unhalt(TURN_OVER)
        self.resume()

    def _wait_with_reading(self) -> None:
        """Read no more while nobody parses: who is not known yet may not fill the memory."""
        if not self._reading_stops & _HALTED and self.inbound.held_bytes() > _HELD_BYTES:
            if self.state == _INTRODUCING:
                self.broker.limit_hits["bytes_before_authentication"] += 1
            self._stop_reading(_HALTED)

    def _rest(self) -> None:
        """Read nothing more until the loop has looked at all other sockets."""
        self._read_bytes = 0
        self._busy_s = 0.0
        if not self._reading_stops & _RESTING:
            self._stop_reading(_RESTING)
            self.broker.clock.call_later(0, self._allow_reading, _RESTING)

    def _stop_reading(self, why: int) -> None:
        """Read nothing more for now; the transport keeps what comes."""
        self._reading_stops |= why
        if self._transport is not None:
            with contextlib.suppress(RuntimeError):  # it is being closed
                self._transport.pause_reading()

    def _allow_reading(self, why: int) -> None:
        """Read on, unless there is another reason not to."""
        if self._reading_stops & why:
            self._reading_stops &= ~why
            if not (self._reading_stops or self.state >= _CLOSING or self._transport is None):
                with contextlib.suppress(RuntimeError):
                    self._transport.resume_reading()

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
        """Read nothing more until a receiver has caught up."""
        self._stop_reading(_HELD_BACK)

    def resume_reading(self) -> None:
        """Read on as far as receivers are concerned."""
        self._allow_reading(_HELD_BACK)

    # Sending.

    def send(self, piece: bytes) -> None:
        """Send a line of the server's own; it is written at the end of the batch."""
        self.outbound.append(piece)
        self.router.touch(self)

    def send_ok(self) -> None:
        """Say that a command has been taken, as a verbose client wants it."""
        if self.tracer is not None:
            self.tracer.sent("OK")
        self.spend(_OK_BYTES)
        self.send(_OK)

    def send_error(self, text: str) -> None:
        """Send -ERR and go on."""
        if self.tracer is not None:
            self.tracer.sent(f"-ERR {text}")
        is_plain = text.isascii() and "\\" not in text
        self.spend(COMMAND_BYTES + len(text) * (8 if is_plain else _ESCAPED_BYTES))
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
        if self.state >= _CLOSING:
            return
        self.become(_CLOSING)
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
            self._shut_bare_socket()
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

    def _shut_bare_socket(self) -> None:
        """End a connection that has no transport yet; whoever is to make it sees the end."""
        bare_socket, self.bare_socket = self.bare_socket, None
        if bare_socket is not None:
            with contextlib.suppress(OSError):
                bare_socket.shutdown(socket.SHUT_RDWR)

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
