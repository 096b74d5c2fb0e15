"""Authentication: one function for every connection in every mode.

`Authenticator.authenticate` turns any `AuthRequest` into an `Identity` or a `Refusal`: even an
internal error refuses the client. It returns the answer itself if nothing has to be awaited, and an
awaitable otherwise (for bcrypt or a hook).
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from msgspec import structs

from midge.server.auth.identity import AuthRequest, Identity, Refusal, Verdict
from midge.server.auth.nkeys import KeyKind, decode_signature, is_signed_by, kind_of
from midge.server.auth.passwords import (
    PasswordChecker,
    is_bcrypt,
    is_same_text,
    listeners_of,
)
from midge.server.auth.users import KnownUser, UserDirectory
from midge.server.config.account_names import GLOBAL_ACCOUNT, SYSTEM_ACCOUNT
from midge.server.config.security import Authorization
from midge.server.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from midge.protocol.messages import ConnectOptions
    from midge.server.auth.hook import AuthHook
    from midge.server.auth.operator import OperatorMode
    from midge.server.config import options

    SharedRules = options.Authorization | options.WebSocketAuthorization

ANYBODY = Identity()
"""Any client of a listener where clients need not authenticate."""

_UNNAMED = Identity(user=f"nats-{os.urandom(4).hex()}")
"""A client without credentials where only the system account has users; nats-server makes up such
a name, too, and reports it."""
_LISTENERS = ("STANDARD", "WEBSOCKET")
NOT_PINNED = "client certificate is not pinned"
_FINGERPRINT_LENGTH = 64


class Authenticator:
    """Authenticates clients by the configuration. A reload replaces it as a whole.

    `open_listeners` names the listeners whose clients are `ANYBODY`, whatever they send.
    """

    def __init__(
        self, settings: options.Options, *, wall_clock: Callable[[], float] = time.time
    ) -> None:
        """Compile `settings`; `wall_clock` returns seconds since the epoch.

        Raises:
            ConfigError: the settings are invalid or contradictory.
        """
        self._wall_clock = wall_clock
        self._authorization = settings.authorization
        self._websocket = settings.websocket.authorization
        self._users = UserDirectory(settings)
        self._mapped_types = frozenset(
            kind for kind, tls in listeners_of(settings).items() if tls.verify_and_map
        )
        self._pinned = {
            kind: tls.pinned_certs
            for kind, tls in (("STANDARD", settings.tls), ("WEBSOCKET", settings.websocket.tls))
        }
        self._proxies = settings.proxies.trusted
        self._passwords = PasswordChecker()
        self._hook = _make_hook(settings)
        table = settings.authorization.auth_callout
        self.callout = table if table.issuer else None
        self.operator = _make_operator_mode(settings, self._users)
        _check_consistency(settings, self._users)
        self._is_global_open = _has_only_system_users(settings)
        self._free = frozenset(kind for kind in _LISTENERS if not self._asks(kind))
        open_to_all = [kind for kind in self._free if not self._pinned.get(kind)]
        self.open_listeners = frozenset([] if self._proxies else open_to_all)

    def is_required_by(self, connection_type: str) -> bool:
        """Return whether clients of this type must authenticate (INFO's ``auth_required``)."""
        return connection_type not in self._free

    def _asks(self, connection_type: str) -> bool:
        # A listener's own rules define how a client authenticates, but they never exempt it.
        rules = (self._authorization, self._rules(connection_type))
        named = any(table.user or table.token for table in rules)
        return bool(named or len(self._users) or self._hook or self.operator or self.callout)

    @property
    def needs_nonce(self) -> bool:
        """Return whether INFO must give clients a nonce to sign."""
        asks = self.operator is not None or self._hook is not None
        return asks or self._users.has_nkeys or bool(self._proxies)

    def admits_silent_clients(self, connection_type: str) -> bool:
        """Return whether such clients need neither CONNECT nor credentials (``no_auth_user``)."""
        rules = self._rules(connection_type)
        return not self.is_required_by(connection_type) or bool(rules.no_auth_user)

    def authenticate(self, request: AuthRequest) -> Verdict | Awaitable[Verdict]:
        """Return the identity of `request`, or its refusal; an awaitable if that takes time."""
        try:
            verdict = self._decide(request)
        except Exception as error:  # noqa: BLE001 - an internal error must not admit a client
            return Refusal(f"internal error: {type(error).__name__}: {error}")
        if isinstance(verdict, Verdict):
            return self.through_proxy(request, verdict)
        return self._through_proxy_later(request, _refuse_on_error(verdict))

    async def _through_proxy_later(
        self, request: AuthRequest, verdict: Awaitable[Verdict]
    ) -> Verdict:
        return self.through_proxy(request, await verdict)

    def through_proxy(self, request: AuthRequest, verdict: Verdict) -> Verdict:
        """Refuse an untrusted proxy, and its absence where the user must have one."""
        if isinstance(verdict, Refusal):
            return verdict
        if request.proxy_signature and self._proxies:
            key = self._proxy_of(request)
            if not key:
                return Refusal("the proxy is not trusted", reason="Proxy Not Trusted")
            return structs.replace(verdict, proxy_key=key)
        if verdict.proxy_required:
            text = "the user must connect through a trusted proxy"
            return Refusal(text, reason="Proxy Required")
        return verdict

    def _proxy_of(self, request: AuthRequest) -> str:
        """Return the key of the trusted proxy that signed the nonce; empty for none."""
        signature = decode_signature(request.proxy_signature)
        if signature is None or not request.nonce:
            return ""
        for key in self._proxies:
            kind = kind_of(key)
            if kind is not None and is_signed_by(kind, key, request.nonce, signature):
                return key
        return ""

    def has_lost(self, offered: ConnectOptions, account: str) -> bool:
        """Return whether the user of a connected client is no longer a user of `account`."""
        if offered.nkey:
            user = self._users.by_nkey(offered.nkey)
        elif offered.user:
            user = self._users.by_name(offered.user)
        else:
            return False
        return user is None or user.identity.account != account

    def keep_tokens_of(self, other: Authenticator) -> None:
        """Take over the account tokens that `other`, which this one replaces, has fetched."""
        if self.operator is not None and other.operator is not None:
            self.operator.keep_tokens_of(other.operator)

    def close(self) -> None:
        """Release the threads."""
        self._passwords.close()
        if self.operator is not None:
            self.operator.close()

    def _rules(self, connection_type: str) -> SharedRules:
        """Return the rules of the listener for clients without their own user."""
        is_own = connection_type == "WEBSOCKET" and self._websocket.is_set
        return self._websocket if is_own else self._authorization

    def _decide(self, request: AuthRequest) -> Verdict | Awaitable[Verdict]:
        """Authenticate by the method that the settings require; the client cannot choose one."""
        pinned = self._pinned.get(request.connection_type)
        if pinned and not is_pinned(request.certificate, pinned):
            return Refusal(NOT_PINNED)
        if self._hook is not None:
            return self._hook.authenticate(request)
        if self.operator is not None:
            loading = self.operator.loading(request, self._wall_clock())
            if loading is not None:
                return self._by_loaded_token(request, self.operator, loading)
            return self.operator.authenticate(request, self._wall_clock())
        if not self.is_required_by(request.connection_type):
            return ANYBODY
        return self._by_configured_user(request)

    async def _by_loaded_token(
        self, request: AuthRequest, operator: OperatorMode, loading: Awaitable[None]
    ) -> Verdict:
        await loading
        return operator.authenticate(request, self._wall_clock())

    def _by_configured_user(self, request: AuthRequest) -> Verdict | Awaitable[Verdict]:
        """Return the configured user whose credentials the client has."""
        if request.nkey and self._users.has_nkeys:
            return self._by_nkey(request)
        if self._users.has_names and request.connection_type in self._mapped_types:
            return self._by_certificate(request)
        rules = self._rules(request.connection_type)
        if not request.has_credentials and rules.no_auth_user:
            return self._silent_user(rules.no_auth_user, request)
        if not request.has_credentials and self._is_global_open:
            return _UNNAMED
        if request.user and self._users.has_names:
            return self._by_name(request)
        return self._by_shared_secret(rules, request)

    def _silent_user(self, name: str, request: AuthRequest) -> Verdict:
        """Return the user `name`, which clients without credentials get."""
        user = self._users.by_name(name) or self._users.by_nkey(name)
        if user is None or not user.may_connect_by(request.connection_type):
            return Refusal("no_auth_user may not connect in this way")
        return user.identity

    def _by_nkey(self, request: AuthRequest) -> Verdict:
        """Return the user that owns the key in `request`, when it signed the nonce."""
        user = self._users.by_nkey(request.nkey)
        if user is None or not user.may_connect_by(request.connection_type):
            return Refusal("unknown nkey")
        signature = decode_signature(request.signature)
        if signature is None or not request.nonce:
            return Refusal("signature is missing or has a bad form")
        if not is_signed_by(KeyKind.USER, request.nkey, request.nonce, signature):
            return Refusal("nonce is not signed by the nkey")
        return user.identity

    def _by_certificate(self, request: AuthRequest) -> Verdict | Awaitable[Verdict]:
        """Return the user that the client's certificate names; a password is checked as well."""
        from midge.server.auth.certificates import read_names  # noqa: PLC0415 - large

        names = read_names(request.certificate) if request.certificate else None
        if names is None:
            return Refusal("client certificate is missing or cannot be read")
        user = self._users.by_certificate(names, request.connection_type)
        if user is None:
            return Refusal("client certificate names no user")
        return self._with_password(user, user.password, request.password)

    def _by_name(self, request: AuthRequest) -> Verdict | Awaitable[Verdict]:
        """Return the user named in `request`, when the password is right."""
        user = self._users.by_name(request.user)
        if user is None or not user.may_connect_by(request.connection_type):
            # An unknown name takes as long as a wrong password, so that clients cannot probe names.
            return self._with_password(None, self._users.decoy_hash, request.password)
        if not user.password and self._mapped_types:
            return Refusal("user needs a client certificate")
        decoy = self._users.decoy_hash
        if (
            decoy
            and not is_bcrypt(user.password)
            and not is_same_text(user.password, request.password)
        ):
            # A wrong password of a user without a hash also takes as long, if other users have one.
            return self._with_password(None, decoy, request.password)
        return self._with_password(user, user.password, request.password)

    def _by_shared_secret(
        self, rules: SharedRules, request: AuthRequest
    ) -> Verdict | Awaitable[Verdict]:
        """Check the token, or the name and password, that all clients share by `rules`."""
        is_proxied = rules is self._authorization and self._authorization.proxy_required
        if rules.token:
            anybody = Identity(proxy_required=True) if is_proxied else ANYBODY
            return self._with_secret(anybody, rules.token, request.token)
        if not rules.user:
            return Refusal("no credentials")
        is_named = is_same_text(rules.user, request.user)
        shared = Identity(user=rules.user, account=GLOBAL_ACCOUNT, proxy_required=is_proxied)
        identity = shared if is_named else None
        return self._with_secret(identity, rules.password, request.password)

    def _with_password(
        self, user: KnownUser | None, stored: str, offered: str
    ) -> Verdict | Awaitable[Verdict]:
        """Return `user` when it is known and its `stored` password is the one `offered`."""
        return self._with_secret(user.identity if user else None, stored, offered)

    def _with_secret(
        self, identity: Identity | None, stored: str, offered: str
    ) -> Verdict | Awaitable[Verdict]:
        """Return `identity`, unless it is None or `offered` is not the `stored` secret."""
        if is_bcrypt(stored):
            return self._with_hash(identity, stored, offered)
        is_right = is_same_text(stored, offered)
        return identity if identity and is_right else Refusal("wrong name or password")

    async def _with_hash(self, identity: Identity | None, stored: str, offered: str) -> Verdict:
        """Return the same as `_with_secret`, for a hash."""
        is_right = await self._passwords.is_hash_of(stored, offered)
        return identity if identity and is_right else Refusal("wrong name or password")


def is_pinned(certificate: bytes, pinned: tuple[str, ...]) -> bool:
    """Return whether the public key of `certificate` (DER or empty) is among `pinned`."""
    from midge.server.auth.certificates import public_key_fingerprint  # noqa: PLC0415 - large

    if not certificate:
        return False
    return public_key_fingerprint(certificate) in {pin.lower() for pin in pinned}


async def _refuse_on_error(verdict: Awaitable[Verdict]) -> Verdict:
    """Return the `verdict`, or a refusal if evaluating it fails."""
    try:
        return await verdict
    except Exception as error:  # noqa: BLE001 - an internal error must not admit a client
        return Refusal(f"internal error: {type(error).__name__}: {error}")


def _make_hook(settings: options.Options) -> AuthHook | None:
    """Return the hook that `settings` name, or None."""
    table = settings.authorization
    if not table.hook:
        return None
    from midge.server.auth.hook import AuthHook, load_callable  # noqa: PLC0415 - few have one

    try:
        function = load_callable(table.hook)
    except ValueError as error:
        raise ConfigError(str(error), key="authorization.hook") from error
    return AuthHook(
        function,
        timeout_s=table.hook_timeout_s,
        concurrency=table.hook_concurrency,
        accounts=frozenset([GLOBAL_ACCOUNT, *(account.name for account in settings.accounts)]),
    )


def _make_operator_mode(settings: options.Options, users: UserDirectory) -> OperatorMode | None:
    """Return operator mode when `settings` turn it on."""
    if not settings.operator.jwts and not settings.operator.trusted_keys:
        return None
    if len(users) or settings.accounts:
        raise ConfigError("operator mode takes accounts and users from tokens only", key="operator")
    from midge.server.auth.operator import OperatorMode  # noqa: PLC0415 - few have one

    return OperatorMode(settings.operator, settings.system_account)


def _check_consistency(settings: options.Options, users: UserDirectory) -> None:
    """Raise ConfigError for settings that do not define which clients may connect."""
    table = settings.authorization
    if table.user and (table.users or table.token):
        raise ConfigError("expected a user, or users and a token", key="authorization")
    if table.password and not table.user:
        raise ConfigError("a password needs a user", key="authorization.password")
    own = settings.websocket.authorization
    for key, silent in (("", table.no_auth_user), ("websocket.", own.no_auth_user)):
        if silent and users.by_name(silent) is None and users.by_nkey(silent) is None:
            where = f"{key}authorization.no_auth_user"
            raise ConfigError(f"{silent!r} is no configured user", key=where)
    _check_pins(settings.tls, "tls")
    for where in ("websocket", "leafnodes", "cluster"):
        _check_pins(getattr(settings, where).tls, f"{where}.tls")


def _check_pins(tls: options.Tls, where: str) -> None:
    """Raise ConfigError for malformed pins.

    With pins, and without `verify`, every client is refused, because none shows a certificate.
    """
    for pin in tls.pinned_certs:
        if len(pin) != _FINGERPRINT_LENGTH or not all(c in "0123456789abcdefABCDEF" for c in pin):
            text = f"expected 64 hex digits, got {pin!r}"
            raise ConfigError(text, key=f"{where}.pinned_certs")


def _has_only_system_users(settings: options.Options) -> bool:
    """Return whether clients without credentials enter the global account, as on nats-server.

    The system account is the only one that is configured, and nothing else demands credentials.
    """
    system = settings.system_account or SYSTEM_ACCOUNT
    return (
        {account.name for account in settings.accounts} == {system}
        and settings.authorization == Authorization()
        and not (settings.operator.jwts or settings.operator.trusted_keys)
    )
