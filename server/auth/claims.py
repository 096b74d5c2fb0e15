"""JWTs of operator mode: decode a token, verify its signature, return its claims as typed values.

Every claim is optional until it is used, and a token with a value of the wrong type is refused. The
signature of a version 2 token (``ed25519-nkey``) covers header and body. The signature of a version
1 token (``ed25519``) covers only the body; such tokens are converted to version 2 when read.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

from midge.server.auth.nkeys import KeyKind, decode_signature, is_public_key, is_signed_by

TOKEN_MAX_BYTES = 1 << 20
"""Largest token, in bytes; a larger one is refused unread."""

_ALGORITHM = "ed25519-nkey"
_ALGORITHM_1 = "ed25519"
_VERSION = 2


Int64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""Range of a token's numbers: 64 bits, as other readers of tokens allow."""


class SubjectLists(Struct, frozen=True):
    """Allowed and denied subjects of one direction."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class ResponseClaim(Struct, frozen=True):
    """How many replies a user may publish, and for how long."""

    max: Int64 = 0
    ttl: Int64 = 0
    """In nanoseconds."""


class TimeRange(Struct, frozen=True):
    """A part of the day, each end as ``15:04:05``."""

    start: str = ""
    end: str = ""


class UserLimits(Struct, frozen=True):
    """A user's rights: in a user's claims, or in the template of a scoped signing key."""

    pub: SubjectLists = SubjectLists()
    sub: SubjectLists = SubjectLists()
    resp: ResponseClaim | None = None
    subs: Int64 = 0
    """Most subscriptions; -1 means unlimited, and 0 means none."""
    data: Int64 = 0
    payload: Int64 = 0
    """Largest message in bytes; -1 means unlimited."""
    src: tuple[str, ...] | str = ()
    times: tuple[TimeRange, ...] = ()
    times_location: str = ""
    bearer_token: bool = False
    allowed_connection_types: tuple[str, ...] = ()
    proxy_required: bool = False

    @property
    def sources(self) -> tuple[str, ...]:
        """The networks that the user may connect from."""
        if isinstance(self.src, str):
            return tuple(part.strip() for part in self.src.split(",") if part.strip())
        return self.src


class UserBody(UserLimits, frozen=True):
    """The ``nats`` part of a user's token."""

    issuer_account: str = ""
    tags: tuple[str, ...] = ()
    type: str = ""
    version: Int64 = 0

    def has_own_limits(self) -> bool:
        """Return whether anything is set that only a scoped signing key's template may set."""
        empty = UserLimits()
        return any(getattr(self, name) != getattr(empty, name) for name in empty.__struct_fields__)


class ScopedKey(Struct, frozen=True):
    """A signing key with a template of its users' rights."""

    kind: str
    key: str
    role: str = ""
    template: UserLimits = UserLimits()


class JetStreamLimitsClaim(Struct, frozen=True):
    """An account's JetStream limits; negative means unlimited, no storage means no JetStream."""

    mem_storage: Int64 = 0
    disk_storage: Int64 = 0
    streams: Int64 = 0
    consumer: Int64 = 0
    max_ack_pending: Int64 = 0
    mem_max_stream_bytes: Int64 = 0
    disk_max_stream_bytes: Int64 = 0
    max_bytes_required: bool = False


class AccountLimitsClaim(JetStreamLimitsClaim, frozen=True):
    """Limits of an account; negative means unlimited, and an absent one means 0."""

    subs: Int64 = 0
    conn: Int64 = 0
    leaf: Int64 = 0
    payload: Int64 = 0
    data: Int64 = 0
    imports: Int64 = 0
    exports: Int64 = 0
    wildcards: bool = False
    disallow_bearer: bool = False
    tiered_limits: dict[str, JetStreamLimitsClaim] | None = None


class LatencyClaim(Struct, frozen=True):
    """Where the latencies of a service go, and how many requests are measured."""

    sampling: int | str = 100
    results: str = ""


class ExportClaim(Struct, frozen=True):
    """An export of an account."""

    name: str = ""
    subject: str = ""
    type: str | int = ""
    token_req: bool = False
    revocations: dict[str, Int64] = {}
    response_type: str = ""
    response_threshold: Int64 = 0
    account_token_position: Int64 = 0
    service_latency: LatencyClaim | None = None
    allow_trace: bool = False


class ImportClaim(Struct, frozen=True):
    """An import of an account."""

    name: str = ""
    subject: str = ""
    account: str = ""
    token: str = ""
    to: str = ""
    local_subject: str = ""
    type: str | int = ""
    share: bool = False
    allow_trace: bool = False


class WeightedMapping(Struct, frozen=True):
    """One destination of a mapping; a weight of 0 means all."""

    subject: str
    weight: Annotated[int, Meta(ge=0, le=100)] = 0
    cluster: str = ""


class DefaultPermissions(Struct, frozen=True):
    """Permissions of users without their own."""

    pub: SubjectLists = SubjectLists()
    sub: SubjectLists = SubjectLists()
    resp: ResponseClaim | None = None


class ExternalAuthorization(Struct, frozen=True):
    """Auth callout: a service, run by `auth_users`, decides on an account's users."""

    auth_users: tuple[str, ...] | None = ()
    allowed_accounts: tuple[str, ...] | None = ()
    """Other accounts that it may put users into; `*` alone means all."""
    xkey: str = ""
    """Public curve key that requests are encrypted for; empty means no encryption."""


class TraceClaim(Struct, frozen=True):
    """Destination of `traceparent` traces, and the percentage that is traced."""

    dest: str = ""
    sampling: Int64 = 0


class AccountBody(Struct, frozen=True):
    """The ``nats`` part of an account's token."""

    imports: tuple[ImportClaim, ...] | None = ()
    exports: tuple[ExportClaim, ...] | None = ()
    limits: AccountLimitsClaim = AccountLimitsClaim()
    signing_keys: tuple[str | ScopedKey, ...] | None = ()
    revocations: dict[str, Int64] | None = None
    default_permissions: DefaultPermissions = DefaultPermissions()
    mappings: dict[str, tuple[WeightedMapping, ...]] | None = None
    tags: tuple[str, ...] | None = ()
    authorization: ExternalAuthorization | None = None
    trace: TraceClaim | None = None
    type: str = ""
    version: Int64 = 0


class OperatorBody(Struct, frozen=True):
    """The ``nats`` part of an operator's token."""

    signing_keys: tuple[str, ...] | None = ()
    system_account: str = ""
    strict_signing_key_usage: bool = False
    type: str = ""
    version: Int64 = 0


class DeletionBody(Struct, frozen=True):
    """The ``nats`` part of an operator's request to delete accounts."""

    accounts: tuple[str, ...]
    type: str = ""
    version: Int64 = 0


class ActivationBody(Struct, frozen=True):
    """The ``nats`` part of an activation token: the right to import a private export."""

    subject: str = ""
    kind: str | int = ""
    issuer_account: str = ""
    type: str = ""
    version: Int64 = 0


class ResponseBody(Struct, frozen=True):
    """The ``nats`` part of an auth callout's answer: a user's token, or a reason for refusal."""

    jwt: str = ""
    error: str = ""
    issuer_account: str = ""
    type: str = ""
    version: Int64 = 0


Body = TypeVar(
    "Body", UserBody, AccountBody, OperatorBody, ActivationBody, ResponseBody, DeletionBody
)


class Claims(Struct, Generic[Body], frozen=True):
    """One token, its signature verified against the key it names as its issuer."""

    iss: str
    sub: str
    nats: Body
    name: str = ""
    aud: str = ""
    iat: Int64 = 0
    exp: Int64 = 0
    nbf: Int64 = 0
    jti: str = ""

    def why_not_now(self, now_s: float) -> str | None:
        """Return why the token is not valid at `now_s` (seconds since the epoch), or None."""
        return self.why_not_any_more(now_s) or self.why_not_yet(now_s)

    def why_not_any_more(self, now_s: float) -> str | None:
        """Return the reason if the token has expired at `now_s`, else None."""
        return "token has expired" if self.exp and self.exp <= now_s else None

    def why_not_yet(self, now_s: float) -> str | None:
        """Return the reason if the token is not valid yet at `now_s`, else None."""
        return "token is not valid yet" if self.nbf and self.nbf > now_s else None


class _Header(Struct, frozen=True):
    """The first part of a token."""

    typ: str = ""
    alg: str = ""


class BadTokenError(Exception):
    """A refused token; the text gives the reason, and no part of the token."""


def decode_user(token: str) -> Claims[UserBody]:
    """Return the claims of a user's `token`; raises `BadTokenError`."""
    claims = _decode(token, Claims[UserBody], "user")
    _check_keys(claims.sub, KeyKind.USER, claims.iss, (KeyKind.ACCOUNT,))
    issuer_account = claims.nats.issuer_account
    if issuer_account and not is_public_key(KeyKind.ACCOUNT, issuer_account):
        raise BadTokenError("issuer_account is no account key")
    return claims


def decode_account(token: str) -> Claims[AccountBody]:
    """Return the claims of an account's `token`; raises `BadTokenError`."""
    claims = _decode(token, Claims[AccountBody], "account")
    _check_keys(claims.sub, KeyKind.ACCOUNT, claims.iss, (KeyKind.OPERATOR,))
    return claims


def decode_operator(token: str) -> Claims[OperatorBody]:
    """Return the claims of an operator's `token`; raises `BadTokenError`."""
    claims = _decode(token, Claims[OperatorBody], "operator")
    _check_keys(claims.sub, KeyKind.OPERATOR, claims.iss, (KeyKind.OPERATOR,))
    if claims.sub != claims.iss and claims.iss not in (claims.nats.signing_keys or ()):
        raise BadTokenError("operator token is not signed by the operator")
    return claims


def decode_deletion(token: str) -> Claims[DeletionBody]:
    """Return the claims of a request to delete accounts; raises `BadTokenError`."""
    claims = _decode(token, Claims[DeletionBody], "generic")
    _check_keys(claims.sub, KeyKind.OPERATOR, claims.iss, (KeyKind.OPERATOR,))
    return claims


def decode_activation(token: str) -> Claims[ActivationBody]:
    """Return the claims of an activation `token`; raises `BadTokenError`."""
    claims = _decode(token, Claims[ActivationBody], "activation")
    _check_keys(claims.sub, KeyKind.ACCOUNT, claims.iss, (KeyKind.ACCOUNT,))
    return claims


def decode_response(token: str) -> Claims[ResponseBody]:
    """Return the claims of an auth callout's answer; raises `BadTokenError`."""
    claims = _decode(token, Claims[ResponseBody], "authorization_response")
    _check_keys(claims.sub, KeyKind.USER, claims.iss, (KeyKind.ACCOUNT,))
    issuer_account = claims.nats.issuer_account
    if issuer_account and not is_public_key(KeyKind.ACCOUNT, issuer_account):
        raise BadTokenError("issuer_account is no account key")
    return claims


def _check_keys(
    subject: str, subject_kind: KeyKind, issuer: str, issuer_kinds: tuple[KeyKind, ...]
) -> None:
    """Raise BadTokenError if subject or issuer is a key of the wrong kind."""
    if not is_public_key(subject_kind, subject):
        raise BadTokenError(f"subject is no {subject_kind.name.lower()} key")
    if not any(is_public_key(kind, issuer) for kind in issuer_kinds):
        raise BadTokenError("issuer is no key of the right kind")


def _decode(token: str, claims_type: type[Claims[Body]], expected_type: str) -> Claims[Body]:
    """Check form and signature of `token` and return its claims."""
    if len(token) > TOKEN_MAX_BYTES:
        raise BadTokenError("token is too long")
    parts = token.strip().split(".")
    if len(parts) != 3:
        raise BadTokenError("token has not three parts")
    try:
        header = msgspec.json.decode(_unbase64(parts[0]), type=_Header)
        if header.typ.lower() != "jwt" or header.alg not in {_ALGORITHM, _ALGORITHM_1}:
            raise BadTokenError("token is of another kind or algorithm")
        is_old = header.alg == _ALGORITHM_1
        body = _unbase64(parts[1])
        if is_old:
            claims = msgspec.convert(_modernized(msgspec.json.decode(body)), claims_type)
        else:
            claims = msgspec.json.decode(body, type=claims_type)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadTokenError(f"token cannot be read: {error}") from None
    if claims.nats.type != expected_type or claims.nats.version != _VERSION:
        raise BadTokenError(f"token is no {expected_type} token of version {_VERSION}")
    signature = decode_signature(parts[2])
    signed = (parts[1] if is_old else f"{parts[0]}.{parts[1]}").encode()
    kinds = (KeyKind.ACCOUNT, KeyKind.OPERATOR)
    if signature is None or not any(
        is_signed_by(kind, claims.iss, signed, signature) for kind in kinds
    ):
        raise BadTokenError("token is not signed by its issuer")
    return claims


def _modernized(claims: Any) -> dict[str, Any]:
    """Return the claims of a version 1 token in the form of version 2.

    Version 1 has the type beside the ``nats`` part, and also a user's account fields; its users
    have no limits of their own.
    """
    if not isinstance(claims, dict) or not isinstance(claims.get("nats", {}), dict):
        raise msgspec.ValidationError("expected an object with an object in nats")
    old = claims.get("nats", {})
    nats = {**old, "type": claims.get("type", ""), "version": _VERSION}
    nats |= {name: claims[name] for name in ("issuer_account", "tags") if name in claims}
    if nats["type"] == "user":
        nats |= {"subs": -1, "data": -1, "payload": -1}
    elif nats["type"] == "activation":
        nats["kind"] = old.get("type", "")
    return {**claims, "nats": nats}


def _unbase64(text: str) -> bytes:
    """Decode base64 of the URL alphabet without padding; raises ValueError."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error
