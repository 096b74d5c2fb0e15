"""The subjects that JetStream itself listens on in an account, and where each message goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from midge.jetstream.api import routes
from midge.server.internal.service import Request, Service
from midge.server.jetstream.ingest import charge
from midge.server.jetstream.message_requests import MessageRequests
from midge.server.routing.subscription import RoutedSubscription

if TYPE_CHECKING:
    from midge.jetstream.environment.sink import Sink
    from midge.protocol.frame import Frame
    from midge.server.internal.service import Handler, Services
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client

API = b"$JS.API."
ACK = b"$JS.ACK."
FLOW_CONTROL = b"$JS.FC."

_BUCKETS = (b"$KV.", b"$OBJ.")
"""Subjects of buckets, which clients of a domain publish to behind its prefix."""

_IN_DOMAIN = (b"STREAM.", b"CONSUMER.", b"DIRECT.", b"META.", b"SERVER.", b"ACCOUNT.")
"""Beginnings of the requests that exist behind a domain's prefix, besides `INFO`."""

_AT_ONCE = (routes.NEXT, routes.DIRECT_GET)
"""Requests that are answered with messages, and wait for none of the others."""


_REQUEST_WORK = 500
"""Items of 10 ns, see `Store.work`: a pull request or a direct get takes so long at least."""

Take = Callable[[bytes, bytes, bytes, bytes], bool]
"""Takes subject, reply, headers and payload; False when there is nothing of that name."""


class InternalSubscription(RoutedSubscription):
    """A subscription of JetStream itself to a pattern, which gets each message as bytes.

    A message that it does not accept counts as undelivered, so that a request gets the 503 of no
    responders, as from nats-server, which has a subscription for each stream and consumer.
    """

    def __init__(self, subject: bytes, take: Take) -> None:
        RoutedSubscription.__init__(self, subject)
        self._take = take

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        """Hand a message over."""
        return self._take(
            frame.subject_bytes(),
            frame.reply_bytes() or b"",
            frame.header_bytes() or b"",
            frame.payload_bytes(),
        )


class ApiService(RoutedSubscription):
    """The API of one account, under a prefix that ends in a dot.

    `domain_sink` publishes messages for a bucket, behind a domain's prefix, unchanged. Requests are
    answered in the order of their arrival, also those without a reply subject. Only pulls and
    direct gets go to `requests`, which is None where the account may not use JetStream. In the
    system account, whose prefix maps everything, `is_system`, all requests go to `answer`.
    """

    def __init__(
        self,
        services: Services,
        account: Account,
        prefix: bytes,
        answer: Handler,
        requests: MessageRequests | None,
        domain_sink: Sink | None = None,
        *,
        is_system: bool = False,
    ) -> None:
        RoutedSubscription.__init__(self, prefix + b">")
        self._account = account
        self._services = services
        self._queued = Service(services, account, self.subject, answer, None)
        self._prefix = prefix
        self._is_renamed = prefix != API
        self._requests = requests
        self._domain_sink = domain_sink
        self._is_system = is_system

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        """Take a request; False when it is for a consumer or stream that is not there."""
        requests = self._requests
        if requests is not None and requests.take_next(frame):
            charge(publisher, requests.work + _REQUEST_WORK)
            return True
        subject = frame.subject_bytes()
        reply = frame.reply_bytes() or b""
        headers = frame.header_bytes() or b""
        payload = frame.payload_bytes()
        if self._is_renamed:
            request = subject[len(self._prefix) :]
            subject = API + request
            if self._domain_sink is not None and request.startswith(_BUCKETS):
                return self._domain_sink.send(request, reply, headers, payload) > 0
            is_known = request == b"INFO" or request.startswith(_IN_DOMAIN)
            if not is_known and not self._is_system:
                return False
        if not self._is_system and subject.startswith(_AT_ONCE):
            if requests is None:
                return False
            is_taken = requests.take(subject, reply, headers, payload)
            charge(publisher, requests.work + _REQUEST_WORK)
            return is_taken
        taken = Request(self._account, publisher, subject, reply, headers, payload)
        self._services.take(self._queued, taken)
        return True
