"""One end of a link to another server, of either kind and whichever of the two has connected.

Leaf nodes and routes differ in their handshakes and in what a violation leads to: that is in
leaf_end.py and route_end.py.
"""

from __future__ import annotations

import base64
import secrets
from typing import TYPE_CHECKING, Any

from midge.protocol import errors
from midge.server.auth.authenticator import NOT_PINNED, is_pinned
from midge.server.channels.closed_reason import ClosedReason
from midge.server.channels.fair_turns import PORTION_BYTES
from midge.server.log.logger import get_logger
from midge.server.peers.dial import cause_of
from midge.server.peers.link import DOCUMENT_MAX_BYTES

if TYPE_CHECKING:
    from midge.server.clock import Timer
    from midge.server.peers.compression import Compression
    from midge.server.peers.dialler import Dialler
    from midge.server.peers.link import Link
    from midge.server.peers.service import LinkService
    from midge.sublist.subscription import RemoteSubscription

INTRODUCTION_MAX_BYTES = 128 * 1024
"""Longest CONNECT of a connecting server, before any authentication: 256 of them at a time."""

RENEWAL_BYTES = 32 * PORTION_BYTES
"""Charge for an INFO that renews announced interest: a millisecond, where there is much of it."""

_NONCE_BYTES = 11
_AUTH_TIMEOUT_S = 2.0

log = get_logger()


class End:
    """One end of a link of `service`; with a `dialler`, this server has connected.

    `is_done` is True once such a link has come up; if it has not, `failure` says why. `kind` begins
    the names of the limits that the other server may exceed.
    """

    kind = ""
    error_event = ""
    peer_error_event = ""

    def __init__(
        self, service: LinkService, compression: Compression, dialler: Dialler | None = None
    ) -> None:
        self.broker = service.broker
        self.compression = compression
        self.failure = ""
        self.is_done = False
        self._service = service
        self.dialler = dialler
        self._timer: Timer | None = None

    @property
    def was_solicited(self) -> bool:
        """Whether this server has connected."""
        return self.dialler is not None

    # Come and gone.

    def link_to(self, peer: tuple[str, int]) -> Link:
        """Return a new link, of which this is the end, to a server at `peer`."""
        raise NotImplementedError

    def greeting(self, link: Any) -> bytes:
        """Return the bytes before the TLS handshake of a server that connects, if there are any."""
        return b""

    def opened(self, link: Any) -> None:
        """Begin, unless the certificate of the other server is not pinned."""
        self.broker.transport_made(link)
        pinned = self.pinned_certs() if link.channel.tls_facts() is not None else ()
        if pinned and not is_pinned(link.channel.peer_certificate(), pinned):
            self.fail(link, None, ClosedReason.TLS_HANDSHAKE_FAILURE, NOT_PINNED)

    def pinned_certs(self) -> tuple[str, ...]:
        """Return the fingerprints, one of which the other server's certificate must have."""
        raise NotImplementedError

    def closed(self, link: Any) -> None:
        """Unregister a link that has ended."""
        self.stop_timer()
        self._service.leave(link)

    def lost(self, link: Any) -> None:
        """Record that the transport is gone, and have the server connected to again."""
        self.broker.connection_lost(link)
        if self.dialler is not None:
            self.dialler.ended(link)

    def transport_failed(self, link: Any, error: Exception) -> None:
        """Note why the link that this server has begun does not come up."""
        if not self.is_done:
            self.failure = self.failure or cause_of(error)

    def await_connect(self, link: Any, timeout_s: float) -> None:
        """Wait for CONNECT of a server that has connected."""
        link.parser.connect_required = True
        link.parser.max_control_line = INTRODUCTION_MAX_BYTES
        self.wait(link, timeout_s or _AUTH_TIMEOUT_S)

    def take_connect(self, link: Any) -> None:
        """Allow long lines again: CONNECT is there."""
        link.parser.max_control_line = DOCUMENT_MAX_BYTES

    def wait(
        self,
        link: Any,
        timeout_s: float,
        wire: str = errors.AUTHENTICATION_TIMEOUT,
        reason: ClosedReason = ClosedReason.AUTHENTICATION_TIMEOUT,
        detail: str = "",
    ) -> None:
        """Close `link` with `wire` unless `stop_timer` is called in time."""
        self.stop_timer()
        clock = self.broker.clock
        self._timer = clock.call_later(timeout_s, self._time_out, link, wire, reason, detail)

    def stop_timer(self) -> None:
        """Wait for nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self, link: Any, wire: str, reason: ClosedReason, detail: str) -> None:
        self._timer = None
        self.fail(link, wire, reason, detail)

    def fail(self, link: Any, wire: str | None, reason: ClosedReason, detail: str = "") -> None:
        """Close `link` for something that went wrong, which is logged."""
        error = detail or wire or reason.value
        if not self.takes_failure(error):
            log.error(self.error_event, cid=link.cid, peer=link.peer, error=error)
        link.close(reason, wire)

    def takes_failure(self, error: str) -> bool:
        """Return whether the dialler logs `error`, as the reason of a failed attempt.

        That is so until the link is up, and the first error is the reason.
        """
        takes = self.was_solicited and not self.is_done
        if takes:
            self.failure = self.failure or error
        return takes

    # What the other server says.

    def on_connect(self, link: Any, document: bytes) -> None:
        """Take CONNECT."""

    def on_info(self, link: Any, document: bytes) -> None:
        """Take INFO."""

    def on_peer_error(self, link: Any, text: bytes) -> None:
        """Log what the other server found wrong."""
        error = errors.quote(text[:256])
        if not self.takes_failure(error):
            log.error(self.peer_error_event, cid=link.cid, peer=link.peer, error=error)

    def answered(self, link: Any) -> None:
        """Choose the level of compression by the round trip of a PING that has been answered."""
        self.compression.answered(link)

    # Interest and messages.

    def interest_changed(self, source: Any, remote: RemoteSubscription, change: int) -> None:
        """Pass on that there is so much more, or less, interest behind the link."""
        if source.announcer is not None:
            ledger = self._service.ledger.of(source.account)
            ledger.link_changed(source, remote.subject, remote.queue, change, remote.origin)

    def refuse_surplus(self, link: Any) -> None:
        """Count interest beyond the bound, which is ignored."""
        self._count("subscriptions")

    def refuse_message(self, link: Any, subject: bytes) -> None:
        """Count a message that is not allowed, which is dropped."""
        self._count("denied_messages")

    def refuse_oversized(self, link: Any) -> None:
        """Count a message that the other side would not take."""
        self._count("payload")

    def _count(self, limit: str) -> None:
        self.broker.limit_hits[f"{self.kind}_{limit}"] += 1


def new_nonce() -> bytes:
    """Return what a server that connects is to sign."""
    return base64.urlsafe_b64encode(secrets.token_bytes(_NONCE_BYTES)).rstrip(b"=")
