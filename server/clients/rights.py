"""The rights of an admitted client: to subscribe, publish, name a reply subject, answer.

Every path that could refuse a subscription or a message asks here. `permissions` are the client's,
or None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.protocol import errors
from midge.server.routing.reserved import RESERVED_REPLIES, RESERVED_SUBJECTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.protocol.frame import Frame
    from midge.server.auth.permissions import Permissions
    from midge.server.channels.host import Host

_SYSTEM_QUEUE = b"_sys_"


class Rights:
    """The rights of a server's clients, by their permissions and the limits of `host`.

    `delivered_by` returns the subject by which JetStream delivers a message; None for any other.
    """

    def __init__(self, host: Host, delivered_by: Callable[[Frame], bytes | None]) -> None:
        self._host = host
        self._delivered_by = delivered_by

    def refuse_subscription(
        self, permissions: Permissions | None, subject: bytes, queue: bytes | None
    ) -> str | None:
        """Return the -ERR text if the subscription is not allowed, or None."""
        if queue == _SYSTEM_QUEUE or (
            permissions is not None and not permissions.may_subscribe(subject, queue)
        ):
            return errors.subscription_violation(subject, queue)
        most_tokens = self._host.options.limits.max_subscription_tokens
        if most_tokens and subject.count(b".") + 1 > most_tokens:
            return errors.too_many_tokens(subject)
        return None

    def permits_delivery(
        self, permissions: Permissions | None, queue: bytes | None, frame: Frame
    ) -> bool:
        """Return whether `frame` comes by a subject that is not denied, whatever subject it shows.

        As on nats-server: a consumer would wait for ever where its subscriber is denied one of the
        stream's subjects.
        """
        by = self._delivered_by(frame)
        return by is not None and (permissions is None or permissions.may_deliver(by, queue))

    def refuse_publish(
        self, permissions: Permissions | None, subject: bytes, frame: Frame
    ) -> str | None:
        """Return the -ERR text if publishing the message is not allowed, or None."""
        allowed = not subject.startswith(RESERVED_SUBJECTS) and (
            permissions is None
            or permissions.may_publish(subject)
            or permissions.use_response(subject, self._host.clock.monotonic())
        )
        if not allowed:
            return errors.publish_violation(subject)
        return self.refuse_reply(frame)

    def refuse_reply(self, frame: Frame) -> str | None:
        """Return the -ERR text if no client may name the reply subject, or None."""
        reply = frame.reply_bytes()
        if reply is not None and reply.startswith(RESERVED_REPLIES):
            return errors.reply_violation(reply)
        return None

    def grant_reply(self, permissions: Permissions | None, frame: Frame) -> None:
        """Allow the client to answer the message that it is about to get."""
        reply = frame.reply_bytes()
        if reply is None or permissions is None:
            return
        if permissions.grant_response(reply, self._host.clock.monotonic()):
            self._host.limit_hits["response_grants"] += 1
