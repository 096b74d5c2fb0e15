"""The users of the configuration, indexed by name, by nkey and by certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from midge.server.auth.identity import UNLIMITED, Identity
from midge.server.auth.nkeys import KeyKind, is_public_key
from midge.server.auth.passwords import is_bcrypt
from midge.server.auth.permissions import PermissionRules
from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.errors import ConfigError

if TYPE_CHECKING:
    from midge.server.auth.certificates import CertificateNames, DistinguishedName
    from midge.server.config import options
    from midge.server.config.security import ConnectionType


class KnownUser(Struct, frozen=True, kw_only=True):
    """One configured user."""

    identity: Identity
    """The identity of a client that authenticates as this user."""
    password: str
    """The password, plain or bcrypt; empty without one."""
    connection_types: tuple[ConnectionType, ...]
    """The connection types of the user; empty allows every type."""

    def may_connect_by(self, connection_type: str) -> bool:
        """Return whether the user may connect by `connection_type`."""
        return not self.connection_types or connection_type in self.connection_types


class UserDirectory:
    """All configured users; immutable."""

    def __init__(self, settings: options.Options) -> None:
        """Read the users of the authorization table and of every account.

        Raises:
            ConfigError: two users share a name or key, or an entry is invalid.
        """
        self._by_name: dict[str, KnownUser] = {}
        self._by_nkey: dict[str, KnownUser] = {}
        authorization = settings.authorization
        for i, user in enumerate(authorization.users):
            where = f"authorization.users[{i}]"
            self._add(where, user, GLOBAL_ACCOUNT, authorization.default_permissions, UNLIMITED)
        for account in settings.accounts:
            for i, user in enumerate(account.users):
                where = f"accounts[{account.name!r}].users[{i}]"
                defaults = account.default_permissions
                payload_bytes = account.limits.max_payload_bytes
                self._add(where, user, account.name, defaults, payload_bytes)
        self._by_subject = self._read_subjects()
        hashes = (user.password for user in self._by_name.values() if is_bcrypt(user.password))
        self.decoy_hash = next(hashes, "")
        """A hash to check for unknown names, so that they take as long; empty if no user has a
        hash."""

    def __len__(self) -> int:
        """Return the number of users."""
        return len(self._by_name) + len(self._by_nkey)

    @property
    def has_names(self) -> bool:
        """Return whether any user has a name, and with it a password or a certificate."""
        return bool(self._by_name)

    @property
    def has_nkeys(self) -> bool:
        """Return whether any user signs a nonce, so that INFO must offer one."""
        return bool(self._by_nkey)

    def by_name(self, name: str) -> KnownUser | None:
        """Return the user called `name`."""
        return self._by_name.get(name)

    def by_nkey(self, public_key: str) -> KnownUser | None:
        """Return the user that owns `public_key`."""
        return self._by_nkey.get(public_key)

    def by_certificate(self, names: CertificateNames, connection_type: str) -> KnownUser | None:
        """Return the user of the first name in `names` that a user has."""
        for name in names.alternatives:
            user = self._by_name.get(name)
            if user is not None and user.may_connect_by(connection_type):
                return user
        user = self._by_subject.get(names.subject) if names.subject else None
        return user if user is not None and user.may_connect_by(connection_type) else None

    def _add(
        self,
        where: str,
        user: options.User,
        account: str,
        defaults: options.Permissions | None,
        max_payload_bytes: int,
    ) -> None:
        """Add `user`, configured at `where`."""
        name = user.nkey or user.user
        by = self._by_nkey if user.nkey else self._by_name
        if not name:
            raise ConfigError("expected a user or an nkey", key=where)
        if user.nkey and not is_public_key(KeyKind.USER, user.nkey):
            raise ConfigError(f"expected a public user key, got {name!r}", key=f"{where}.nkey")
        if name in by:
            raise ConfigError(f"duplicate user {name!r}", key=where)
        identity = Identity(
            user=name,
            account=account,
            rules=compile_rules(f"{where}.permissions", user.permissions or defaults),
            max_payload_bytes=max_payload_bytes,
            proxy_required=user.proxy_required,
            messages_per_s=user.messages_per_s,
            bytes_per_s=user.bytes_per_s,
        )
        by[name] = KnownUser(
            identity=identity,
            password=user.password,
            connection_types=user.allowed_connection_types,
        )

    def _read_subjects(self) -> dict[DistinguishedName, KnownUser]:
        """Index the users whose names are distinguished names."""
        subjects: dict[DistinguishedName, KnownUser] = {}
        candidates = [name for name in self._by_name if "=" in name]
        if candidates:
            # Imported here: only such users need the certificate parser.
            from midge.server.auth.certificates import read_distinguished_name  # noqa: PLC0415

            for name in candidates:
                subject = read_distinguished_name(name)
                if subject:
                    subjects.setdefault(subject, self._by_name[name])
        return subjects


def compile_rules(where: str, table: options.Permissions | None) -> PermissionRules | None:
    """Compile the permissions at `where`; None restricts nothing.

    Raises:
        ConfigError: an entry is not a valid subject.
    """
    if table is None:
        return None
    try:
        return PermissionRules(table)
    except ValueError as error:
        raise ConfigError(str(error), key=where) from error
