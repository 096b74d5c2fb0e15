"""Operator mode: operators sign accounts, accounts sign users, clients bring their user's token.

The whole chain is verified for every client, from the user's signature over the nonce up to a
trusted operator key; no earlier result is reused.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from msgspec import structs

from midge.protocol import errors
from midge.server.auth.claims import (
    AccountBody,
    BadTokenError,
    Claims,
    DefaultPermissions,
    OperatorBody,
    ScopedKey,
    SubjectLists,
    UserBody,
    UserLimits,
    decode_account,
    decode_operator,
    decode_user,
)
from midge.server.auth.identity import UNLIMITED, AuthRequest, Identity, Refusal, Verdict
from midge.server.auth.nkeys import KeyKind, decode_signature, is_public_key, is_signed_by
from midge.server.auth.permissions import PermissionRules
from midge.server.auth.resolvers import DirectoryResolver, MemoryResolver
from midge.server.auth.templates import TemplateError, TemplateValues, fill_in_allowed
from midge.server.auth.url_resolver import UrlResolver
from midge.server.config.security import AllowResponses, Permissions, SubjectPermissions
from midge.server.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from midge.server.config import options

ALL_USERS = "*"
"""Key of all users in an account's revocations."""

_CONNECTION_TYPES = frozenset(
    {"STANDARD", "WEBSOCKET", "LEAFNODE", "LEAFNODE_WS", "MQTT", "MQTT_WS", "IN_PROCESS"}
)
_NANOSECONDS = 1_000_000_000


class OperatorMode:
    """Authenticates clients by their tokens."""

    def __init__(self, settings: options.Operator, system_account: str = "") -> None:
        """Read the operators' tokens and set up the resolver of `settings`.

        Raises:
            ConfigError: an operator's token is invalid, or a resolver is missing.
        """
        read = [_read_operator(i, text) for i, text in enumerate(settings.jwts)]
        operators = [claims for _, claims in read]
        self.tokens = tuple(token for token, _ in read)
        self.trusted_keys = frozenset(
            [*settings.trusted_keys, *(key for found in operators for key in _keys_of(found))]
        )
        for key in self.trusted_keys:
            if not is_public_key(KeyKind.OPERATOR, key):
                raise ConfigError(f"expected an operator key, got {key!r}", key="operator")
        named = [found.nats.system_account for found in operators if found.nats.system_account]
        self.system_account = system_account or (named[0] if named else "")
        self._resolver = _make_resolver(settings)
        self._pinned = frozenset(settings.resolver_pinned_accounts)
        self._sentinel = _read_sentinel(settings.default_sentinel)
        self._accounts: dict[str, tuple[str, Claims[AccountBody]]] = {}

    def authenticate(self, request: AuthRequest, now_s: float) -> Verdict:
        """Return the identity of the token in `request` at `now_s` (seconds since the epoch)."""
        try:
            return self._check(self._with_sentinel(request), now_s)
        except (BadTokenError, TemplateError, ValueError) as error:
            return Refusal(f"user token: {error}")

    def _with_sentinel(self, request: AuthRequest) -> AuthRequest:
        """Return `request` with the default token if it has none."""
        if request.jwt or not self._sentinel:
            return request
        return structs.replace(request, jwt=self._sentinel)

    def account(self, key: str, now_s: float) -> Claims[AccountBody]:
        """Return the claims of the account with public `key`.

        Raises:
            BadTokenError: the account is unknown, or its token is not valid at `now_s`.
        """
        token = self._resolver.fetch(key)
        if token is None:
            raise BadTokenError("account is unknown")
        known = self._accounts.get(key)
        if known is None or known[0] != token:
            known = (token, decode_account(token))
            self._accounts[key] = known
        claims = known[1]
        if claims.sub != key:
            raise BadTokenError("account token is of another account")
        if claims.iss not in self.trusted_keys:
            raise BadTokenError("account token is not signed by a trusted operator")
        if why := claims.why_not_now(now_s):
            raise BadTokenError(f"account {why}")
        return claims

    async def begin(self, changed: Callable[[], None]) -> None:
        """Try the resolver, and load the system account, where that takes time.

        `changed` is called when the token of an account has been replaced.

        Raises:
            ConfigError: the resolver's web server does not answer.
        """
        if isinstance(self._resolver, UrlResolver):
            await self._resolver.begin(self.system_account, changed)

    def loading(self, request: AuthRequest, now_s: float) -> Awaitable[None] | None:
        """Begin to load the account of `request`, if a web server may have a better token of it."""
        if not isinstance(self._resolver, UrlResolver):
            return None
        try:
            user = decode_user(self._with_sentinel(request).jwt)
        except BadTokenError:
            return None
        key = user.nats.issuer_account or user.iss
        try:
            self.account(key, now_s)
        except BadTokenError:
            is_worthwhile = not self._is_shut_out(key) and self._resolver.may_know_more(key)
            return self._resolver.load(key) if is_worthwhile else None
        return None

    def keep_tokens_of(self, other: OperatorMode) -> None:
        """Take over what the resolver of `other` has fetched."""
        if isinstance(self._resolver, UrlResolver) and isinstance(other._resolver, UrlResolver):
            self._resolver.keep(other._resolver)

    def close(self) -> None:
        """Release the threads of the resolver."""
        if isinstance(self._resolver, UrlResolver):
            self._resolver.close()

    @property
    def directory(self) -> DirectoryResolver | None:
        """The resolver, if it is one whose tokens can be changed."""
        return self._resolver if isinstance(self._resolver, DirectoryResolver) else None

    def replace(self, key: str, token: str) -> None:
        """Take `token` for the account with public `key`, until the resolver has another one."""
        assert not isinstance(self._resolver, DirectoryResolver), "its files are written"
        self._resolver.replace(key, token)

    def token_of(self, key: str) -> str:
        """Return the token of the account with public `key`; empty if it is unknown."""
        return self._resolver.fetch(key) or ""

    def delegating(self, request: AuthRequest, now_s: float) -> Claims[AccountBody] | None:
        """Return the account of the token in `request`, if a service decides on its users.

        This does not check whether the client owns the token.
        """
        try:
            user = decode_user(self._with_sentinel(request).jwt)
            key = user.nats.issuer_account or user.iss
            if user.why_not_now(now_s) or self._is_shut_out(key):
                return None
            return self.delegating_account(key, now_s)
        except BadTokenError:
            return None

    def delegating_account(self, key: str, now_s: float) -> Claims[AccountBody] | None:
        """Return the account with that `key`, if a service decides on its users.

        Raises:
            BadTokenError: the account is unknown, or its token is not valid at `now_s`.
        """
        account = self.account(key, now_s)
        external = account.nats.authorization
        return account if external is not None and external.auth_users else None

    def delegated(self, user: Claims[UserBody], now_s: float) -> Identity:
        """Return the identity of `user`, which a service has made for one client, at `now_s`.

        As in nats-server, only the account's limits apply to it.

        Raises:
            BadTokenError, TemplateError, ValueError: the token's issuer may not make such a user.
        """
        account = self.account(user.nats.issuer_account or user.iss, now_s)
        try:
            template = self._template_of(account, user.iss)
        except BadTokenError:
            raise BadTokenError(f'user JWT issuer "{user.iss}" is not known') from None
        limits: UserLimits = user.nats if template is None else _fill_in(template, user, account)
        ends_s = end_of_time_range(limits, now_s)
        if limits.times and ends_s is None:
            raise BadTokenError("authorized user outside of valid connect times")
        whole = _identity(user, limits, account, ends_s)
        of_account = account.nats.limits
        return structs.replace(
            whole,
            max_subscriptions=_lower(UNLIMITED, of_account.subs),
            max_payload_bytes=_lower(UNLIMITED, of_account.payload),
        )

    def is_key_of(self, account_key: str, key: str, now_s: float) -> bool:
        """Return whether `key` is the account's own or one of its signing keys."""
        try:
            account = self.account(account_key, now_s)
            self._template_of(account, key)
        except BadTokenError:
            return False
        return True

    def _is_shut_out(self, account_key: str) -> bool:
        """Return whether only other accounts may connect."""
        return bool(self._pinned) and account_key not in {*self._pinned, self.system_account}

    def why_ended(
        self, identity: Identity, now_s: float, known: dict[str, Claims[AccountBody]] | None = None
    ) -> Refusal | None:
        """Return why a connected `identity` is no longer valid at `now_s`, or None.

        Called for every connection of an account whose token has changed; `known` caches the
        accounts for the calls of one such round.
        """
        known = {} if known is None else known
        try:
            account = known.get(identity.account)
            if account is None:
                account = known[identity.account] = self.account(identity.account, now_s)
            self._template_of(account, identity.issuer)
        except BadTokenError as error:
            return Refusal(
                str(error), errors.ACCOUNT_AUTHENTICATION_EXPIRED, "Authentication Expired"
            )
        if is_revoked(account.nats.revocations, identity.user, identity.issued_at_s):
            return Refusal("revoked", errors.AUTHENTICATION_REVOKED, "Credentials Revoked")
        return None

    def _check(self, request: AuthRequest, now_s: float) -> Verdict:
        """Return the same as `authenticate`, but raise BadTokenError for a bad token."""
        if not request.jwt:
            raise BadTokenError("operator mode needs one")
        user = decode_user(request.jwt)
        if why := user.why_not_yet(now_s):
            raise BadTokenError(why)
        if 0 < user.exp < int(now_s):
            raise BadTokenError("user token has expired")
        account_key = user.nats.issuer_account or user.iss
        if self._is_shut_out(account_key):
            return Refusal("account is not pinned")
        account = self.account(account_key, now_s)
        template = self._template_of(account, user.iss)
        limits = user.nats if template is None else _fill_in(template, user, account)
        if why := _why_not_from_here(limits, request):
            return Refusal(why)
        if not _is_proven(user, limits, account, request):
            return Refusal("nonce is not signed by the user")
        if is_revoked(account.nats.revocations, user.sub, user.iat):
            return Refusal("user is revoked")
        ends_s = end_of_time_range(limits, now_s)
        if limits.times and ends_s is None:
            return Refusal("user may not connect at this time of day")
        if why := user.why_not_any_more(now_s):
            # Checked last, as in nats-server: only an otherwise valid user gets this error.
            return Refusal(f"user {why}", errors.AUTHENTICATION_EXPIRED, "Authentication Expired")
        return _identity(user, limits, account, ends_s)

    def _template_of(self, account: Claims[AccountBody], issuer: str) -> UserLimits | None:
        """Return the template of the signing key `issuer`, or None when it has none.

        Raises:
            BadTokenError: the account has no such key.
        """
        if issuer == account.sub:
            return None
        for key in account.nats.signing_keys or ():
            if isinstance(key, ScopedKey):
                if key.key == issuer:
                    if key.kind != "user_scope":
                        raise BadTokenError("signing key has an unknown scope")
                    return key.template
            elif key == issuer:
                return None
        raise BadTokenError("issuer is no key of the account")


def is_revoked(revocations: Mapping[str, int] | None, key: str, issued_at_s: int) -> bool:
    """Return whether a token issued to `key` at `issued_at_s` has been revoked since."""
    if not revocations:
        return False
    return any(
        since is not None and since >= issued_at_s
        for since in (revocations.get(key), revocations.get(ALL_USERS))
    )


def _read_operator(i: int, text: str) -> tuple[str, Claims[OperatorBody]]:
    """Return an operator's token and its claims; `text` is the token or the path of its file."""
    where = f"operator.jwts[{i}]"
    try:
        token = text if text.startswith("eyJ") else _token_in_file(Path(text))
        return token, decode_operator(token)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        expected = "expected an operator token or its file"
        raise ConfigError(f"{expected}: open {text:.200}: {reason}", key=where) from error
    except BadTokenError as error:
        raise ConfigError(f"expected an operator token or its file: {error}", key=where) from error


def _token_in_file(path: Path) -> str:
    """Return the token in the file `path`, which may have BEGIN and END lines around it."""
    lines = [line.strip() for line in path.read_text(encoding="ascii").splitlines()]
    tokens = [line for line in lines if line.startswith("eyJ")]
    if not tokens:
        raise BadTokenError("no token in the file")
    return tokens[0]


def _keys_of(operator: Claims[OperatorBody]) -> list[str]:
    """List the keys that may sign accounts for `operator`."""
    signing = list(operator.nats.signing_keys or ())
    return signing if operator.nats.strict_signing_key_usage else [operator.sub, *signing]


def _make_resolver(
    settings: options.Operator,
) -> MemoryResolver | DirectoryResolver | UrlResolver:
    """Return the resolver that `settings` ask for."""
    if settings.resolver == "directory":
        directory = Path(settings.resolver_directory)
        if not settings.resolver_directory or (directory.exists() and not directory.is_dir()):
            raise ConfigError(
                f"expected a directory, got {settings.resolver_directory!r}",
                key="operator.resolver_directory",
            )
        return DirectoryResolver(directory, settings.resolver_preload)
    if settings.resolver == "url":
        return _url_resolver(settings)
    if settings.resolver == "memory" or settings.resolver_preload:
        return MemoryResolver(settings.resolver_preload)
    raise ConfigError("operator mode needs an account resolver", key="operator.resolver")


def _url_resolver(settings: options.Operator) -> UrlResolver:
    context = None
    if settings.resolver_url.startswith("https:"):
        from midge.server.auth.client_tls import build_client_context  # noqa: PLC0415 - seldom

        context = build_client_context(settings.resolver_tls, "operator.resolver_tls")
    return UrlResolver(settings.resolver_url, context, settings.resolver_interval_s)


def _read_sentinel(token: str) -> str:
    """Return the token of clients that have none; it must be a bearer's, as on nats-server."""
    if not token:
        return ""
    where = "operator.default_sentinel"
    try:
        user = decode_user(token)
    except BadTokenError as error:
        raise ConfigError(f"default sentinel JWT: {error}", key=where) from None
    if not user.nats.bearer_token:
        raise ConfigError("default sentinel JWT is not bearer", key=where)
    return token


def _fill_in(
    template: UserLimits, user: Claims[UserBody], account: Claims[AccountBody]
) -> UserLimits:
    """Return the rights of `user` from a scoped signing key's `template`."""
    if user.nats.has_own_limits():
        raise BadTokenError("a user of a scoped signing key may not bring limits of its own")
    values = TemplateValues(
        name=user.name,
        subject=user.sub,
        account_name=account.name,
        account_subject=account.sub,
        tags=user.nats.tags,
        account_tags=account.nats.tags or (),
    )
    changed = {name: getattr(template, name) for name in template.__struct_fields__}
    for direction in ("pub", "sub"):
        lists: SubjectLists = changed[direction]
        changed[direction] = SubjectLists(*fill_in_allowed(lists.allow, lists.deny, values))
    return UserLimits(**changed)


def _why_not_from_here(limits: UserLimits, request: AuthRequest) -> str | None:
    """Return why the user may not connect from this address or in this way, or None."""
    wanted = {kind.upper() for kind in limits.allowed_connection_types}
    if wanted and request.connection_type not in wanted & _CONNECTION_TYPES:
        return f"user may not connect by {request.connection_type}"
    if not limits.sources:
        return None
    address = ipaddress.ip_address(request.peer_host)
    networks = [_network(source) for source in limits.sources]
    if not any(address in network for network in networks):
        return "user may not connect from this address"
    return None


def allows_known_ways(limits: UserLimits) -> bool:
    """Return whether at least one of the user's connection types, if any are set, exists."""
    wanted = {kind.upper() for kind in limits.allowed_connection_types}
    return not wanted or not wanted.isdisjoint(_CONNECTION_TYPES)


def _network(source: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """Return the network that a token names; raises ValueError unless the prefix has a length."""
    if not source.rpartition("/")[2].isdecimal() or "/" not in source:
        raise ValueError(f"{source!r} is no network with the length of its prefix")
    return ipaddress.ip_network(source, strict=False)


def _is_proven(
    user: Claims[UserBody],
    limits: UserLimits,
    account: Claims[AccountBody],
    request: AuthRequest,
) -> bool:
    """Return whether the client has proven to own the user's key, or needs only the token."""
    if limits.bearer_token:
        return not account.nats.limits.disallow_bearer
    signature = decode_signature(request.signature)
    if signature is None or not request.nonce:
        return False
    return is_signed_by(KeyKind.USER, user.sub, request.nonce, signature)


def end_of_time_range(limits: UserLimits, now_s: float) -> float | None:
    """Return the end of the time range that contains `now_s`, the latest of several, or None."""
    zone = ZoneInfo(limits.times_location) if limits.times_location else None
    now = datetime.fromtimestamp(now_s, UTC).astimezone(zone)
    ends: list[float] = []
    for part in limits.times:
        start = datetime.combine(now.date(), time.fromisoformat(part.start), now.tzinfo)
        end = datetime.combine(now.date(), time.fromisoformat(part.end), now.tzinfo)
        if start > end and now < end:
            start -= timedelta(days=1)
        elif start > end:
            end += timedelta(days=1)
        if start < now < end:
            ends.append(end.timestamp())
    return max(ends, default=None)


def _identity(
    user: Claims[UserBody],
    limits: UserLimits,
    account: Claims[AccountBody],
    ends_s: float | None,
) -> Identity:
    """Return the identity of `user`, whose current time range ends at `ends_s`."""
    user_ends_s = min([end for end in (float(user.exp), ends_s) if end], default=None)
    ends = [end for end in (user_ends_s, float(account.exp)) if end]
    account_limits = account.nats.limits
    return Identity(
        user=user.sub,
        account=account.sub,
        rules=_rules(limits, account),
        max_subscriptions=_lower(limits.subs, account_limits.subs),
        max_payload_bytes=_lower(limits.payload, account_limits.payload),
        expires_at_s=min(ends, default=None),
        ends_with_account=bool(account.exp) and (not user_ends_s or account.exp <= user_ends_s),
        issued_at_s=user.iat,
        issuer=user.iss,
        display_name=user.name,
        tags=user.nats.tags,
        proxy_required=limits.proxy_required,
    )


def _rules(limits: UserLimits, account: Claims[AccountBody]) -> PermissionRules | None:
    """Compile the user's permissions, or the account's defaults if the user has none."""
    return rules_of(limits) or rules_of(account.nats.default_permissions)


def rules_of(chosen: UserLimits | DefaultPermissions) -> PermissionRules | None:
    """Compile the permissions in a token; None if it has none."""
    if chosen.pub == SubjectLists() and chosen.sub == SubjectLists() and chosen.resp is None:
        return None
    responses = None
    if chosen.resp is not None:
        expires_s = chosen.resp.ttl / _NANOSECONDS
        responses = AllowResponses(max=chosen.resp.max, expires_s=expires_s)
    return PermissionRules(
        Permissions(
            publish=SubjectPermissions(allow=chosen.pub.allow, deny=chosen.pub.deny),
            subscribe=SubjectPermissions(allow=chosen.sub.allow, deny=chosen.sub.deny),
            allow_responses=responses,
        )
    )


def _lower(one: int, other: int) -> int:
    """Return the lower of two limits; -1 means unlimited, any other negative number means 0."""
    limited = [max(limit, 0) for limit in (one, other) if limit != UNLIMITED]
    return min(limited, default=UNLIMITED)
