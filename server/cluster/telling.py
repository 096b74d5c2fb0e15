"""Which interest in an account is told over routes, and which of theirs is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.server.leafnodes.rules import may_tell, rules_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.auth.permissions import Permissions
    from midge.server.broker.broker import Broker
    from midge.server.config.cluster import ClusterPermissions
    from midge.server.routing.account import Account

_SYSTEM_PREFIX = b"$SYS."
_JETSTREAM_PREFIXES = (b"$JS.API.", b"$KV.", b"$OBJ.")


class Telling:
    """The rules of one server, from its settings.

    Interest that this server has for the answers it gives itself is not told: every server of a
    cluster answers its own clients. With JetStream on here its API and its buckets stay here, too,
    since those of a cluster may be those of other servers.
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
        """Return what tells whether interest of `account` in a subject is told.

        `taken` is which interest the other server says it takes; None, if it takes all.
        """
        is_system = account is self._broker.system_account
        own = _JETSTREAM_PREFIXES if self._broker.options.jetstream.enabled else ()
        untold = () if is_system else (_SYSTEM_PREFIX, *own)
        own_rules = self._imports

        def allows(subject: bytes) -> bool:
            if subject.startswith(untold):
                return False
            return may_tell(own_rules, subject) and may_tell(taken, subject)

        def allows_all(subject: bytes) -> bool:
            return not subject.startswith(untold)

        return allows_all if own_rules is None and taken is None else allows

    def takes(self, subject: bytes) -> bool:
        """Return whether interest of another server in `subject` is taken."""
        return self._exports is None or may_tell(self._exports, subject)
