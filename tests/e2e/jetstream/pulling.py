"""A consumer's client that enters in the ledger what it reads, while it reads it.

Deliveries and the answers to acks come over one connection, in the order in which the server sent
them, and are noted in that order: a message that comes after the answer to its ack came wrongly.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from typing import Any

from tests.e2e.jetstream.ledger import Ledger

BATCH = 50
EXPIRES_NS = 500_000_000
NAK_DELAY_S = 0.3
NAKS = 0.02
FORGOTTEN = 0.01

_LINE = re.compile(rb"[^\r\n]*\r\n")
_CONNECT = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}


class LoopClock:
    """Bounds when something came that the event loop hands over now.

    It came after `earliest_s`: since then all sockets have been looked at once.
    """

    def __init__(self) -> None:
        self.earliest_s = self._last_s = time.monotonic()
        self._timer = asyncio.get_running_loop().call_soon(self._tick)

    def _tick(self) -> None:
        self.earliest_s, self._last_s = self._last_s, time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(0.01, self._tick)

    def stop(self) -> None:
        """End it."""
        self._timer.cancel()


class PullingClient(asyncio.Protocol):
    """Pulls messages of one consumer, and acks, refuses or forgets them; `ended` is its end."""

    def __init__(
        self, stream: str, name: str, ledger: Ledger, clock: LoopClock, dice: random.Random
    ) -> None:
        self.ended = asyncio.Event()
        self._stream = stream
        self._name = name
        self._consumer = f"{stream}.{name}"
        self._inbox = f"_INBOX.{stream}.{name}".encode()
        self._ledger = ledger
        self._clock = clock
        self._dice = dice
        self._left = 0
        self._data = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Subscribe to messages and to the answers to acks."""
        self._transport = transport
        connect = json.dumps(_CONNECT).encode()
        self._write(b"CONNECT %s\r\nSUB %s 1\r\n" % (connect, self._inbox))
        self._write(b"SUB %s.* 2\r\n" % self._inbox)
        self._pull()

    def connection_lost(self, _: Exception | None) -> None:
        """Set the end."""
        self.ended.set()

    def data_received(self, data: bytes) -> None:
        """Record a message."""
        now_s = time.monotonic()
        self._data += data
        at = 0
        while line := _LINE.match(self._data, at):
            words = line[0].split()
            end = line.end()
            if words[:1] in ([b"MSG"], [b"HMSG"]):
                end += int(words[-1]) + 2
                if end > len(self._data):
                    break
                self._take(words, now_s)
            elif words == [b"PING"]:
                self._write(b"PONG\r\n")
            at = end
        self._data = self._data[at:]

    def _take(self, words: list[bytes], now_s: float) -> None:
        if words[2] == b"1":
            reply = words[3] if words[3].startswith(b"$JS.ACK.") else b""
            if reply:
                self._left -= 1
                self._deliver(reply, now_s)
            if not reply or self._left == 0:  # the request is over
                self._pull()
        elif words[0] == b"MSG":  # else nothing took the ack
            self._ledger.confirmed(self._consumer, int(words[1].split(b".")[-1]))

    def _deliver(self, reply: bytes, now_s: float) -> None:
        """Note a delivery; ack the message, refuse it, or forget it."""
        tokens = reply.split(b".")
        count, seq = int(tokens[4]), int(tokens[5])
        self._ledger.delivered(self._consumer, seq, count, self._clock.earliest_s, now_s)
        dice = self._dice.random()
        if dice < NAKS:
            self._ledger.refused(self._consumer, seq, time.monotonic() + NAK_DELAY_S)
            self._publish(reply, b"", b'-NAK {"delay": %d}' % round(NAK_DELAY_S * 1e9))
        elif dice >= NAKS + FORGOTTEN:
            self._publish(reply, b"%s.%d" % (self._inbox, seq), b"+ACK")

    def _pull(self) -> None:
        self._left = BATCH
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._name}".encode()
        body = json.dumps({"batch": BATCH, "expires": EXPIRES_NS}).encode()
        self._publish(subject, self._inbox, body)

    def _publish(self, subject: bytes, reply: bytes, body: bytes) -> None:
        self._write(b"PUB %s %s %d\r\n%s\r\n" % (subject, reply, len(body), body))

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)
