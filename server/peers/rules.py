"""The rules of links, made of the permissions that their two ends have of each other."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from midge.protocol.leaf_messages import LOOP_PREFIX
from midge.server.auth.permissions import PermissionRules, Permissions
from midge.server.config.security import AllowResponses, SubjectPermissions
from midge.server.config.security import Permissions as Table
from midge.sublist.subjects import is_literal, matches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from midge.server.broker.broker import Broker
    from midge.server.config.cluster import ClusterPermissions
    from midge.server.config.jetstream import JetStream
    from midge.server.routing.account import Account

_SYSTEM_PREFIX = b"$SYS."
_JETSTREAM_PREFIXES = (b"$JS.API.", b"$KV.", b"$OBJ.")
_JETSTREAM_SUBJECTS = ("$JS.API.>", "$KV.>", "$OBJ.>")


class Denied(NamedTuple):
    """Subjects that are not sent over a link, and those that are not taken from it."""

    send: tuple[str, ...]
    take: tuple[str, ...]


def denied_for(jetstream: JetStream) -> Denied:
    """Return the subjects that no link carries while JetStream is on here.

    Subjects without a domain would be ambiguous. Requests for the own domain are answered here,
    even if the other side has the same domain by mistake.
    """
    if not jetstream.enabled:
        return Denied((), ())
    own = (f"$JS.{jetstream.domain}.API.>",) if jetstream.domain else ()
    return Denied(_JETSTREAM_SUBJECTS + own, _JETSTREAM_SUBJECTS)


def may_announce(rules: Permissions | None, subject: bytes) -> bool:
    """Return whether interest in `subject` may be announced over a link with these rules.

    Subjects that detect loops always may. As on nats-server a wildcard may be wider than the
    allowed subjects; then each denied message is held back.
    """
    if rules is None or subject.startswith(LOOP_PREFIX) or rules.may_subscribe(subject, None):
        return True
    if is_literal(subject) or not rules.rules.check_deliver(subject, None):
        return False
    allowed = rules.rules.table.subscribe.allow
    return any(matches(entry.encode(), subject) for entry in allowed)


def interest_filter(rules: Permissions | None) -> Callable[[bytes], bool]:
    """Return a function: may interest in a subject go over a link with these rules?"""
    return partial(may_announce, rules)


def rules_of(
    allow: Iterable[str], deny: Iterable[str], responses: AllowResponses | None = None
) -> Permissions | None:
    """Return rules for the subjects of one direction, messages and interest; None: none.

    Entries may have a queue group, which means nothing here.

    Raises:
        ValueError: an entry is not a subject.
    """
    subjects = SubjectPermissions(
        allow=tuple(entry.split(" ")[0] for entry in allow),
        deny=tuple(entry.split(" ")[0] for entry in deny),
    )
    if not subjects.allow and not subjects.deny and responses is None:
        return None
    table = Table(publish=subjects, subscribe=subjects, allow_responses=responses)
    return Permissions(PermissionRules(table))


class RouteInterestRules:
    """Decides by the settings which interest crosses the routes of one server, in each direction.

    Interest in subjects that this server answers itself is not announced, because every server of a
    cluster answers its own clients. With JetStream, the interest in its API and its buckets is not
    announced either, because other servers of the cluster may have their own.
    """

    def __init__(self, broker: Broker, permissions: ClusterPermissions) -> None:
        """Read `permissions`.

        Raises:
            ValueError: an entry is not a subject.
        """
        self._broker = broker
        self.permissions = permissions
        imports, exports = permissions.imports, permissions.exports
        self._imports = rules_of(imports.allow, imports.deny)
        self._exports = rules_of(exports.allow, exports.deny)

    def of(self, account: Account, taken: Permissions | None) -> Callable[[bytes], bool]:
        """Return a function: is interest of `account` in a subject announced?

        `taken` are the rules for interest that the other server accepts; None if it accepts all.
        """
        is_system = account is self._broker.system_account
        own = _JETSTREAM_PREFIXES if self._broker.options.jetstream.enabled else ()
        unannounced = () if is_system else (_SYSTEM_PREFIX, *own)
        own_rules = self._imports

        def allows(subject: bytes) -> bool:
            if subject.startswith(unannounced):
                return False
            return may_announce(own_rules, subject) and may_announce(taken, subject)

        def allows_all(subject: bytes) -> bool:
            return not subject.startswith(unannounced)

        return allows_all if own_rules is None and taken is None else allows

    def takes(self, subject: bytes) -> bool:
        """Return whether interest of another server in `subject` is accepted."""
        return self._exports is None or may_announce(self._exports, subject)
