"""Auth callout: a service of the operator decides on clients; questions and answers are tokens.

The server publishes a question about a client to `$SYS.REQ.USER.AUTH` in the service's account. The
question names a user key that is made for this question alone. The answer is a token of the service
with a user's token for this key, or with the reason for a refusal. This module makes the question
and checks the answer; the broker sends and receives them.
"""

from __future__ import annotations

import base64
import hashlib
import os
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from midge.server.auth.claims import (
    BadTokenError,
    Claims,
    ResponseBody,
    UserBody,
    decode_response,
    decode_user,
)
from midge.server.auth.identity import AuthRequest, Identity
from midge.server.auth.nkeys import KeyKind, encode_public_key, is_public_key
from midge.server.auth.operator import allows_known_ways, end_of_time_range, rules_of
from midge.server.auth.permissions import PermissionRules
from midge.server.auth.xkeys import BoxError
from midge.server.config.security import Permissions, SubjectPermissions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from midge.server.auth.operator import OperatorMode
    from midge.server.auth.xkeys import CurveKey

CALLOUT_SUBJECT = b"$SYS.REQ.USER.AUTH"
XKEY_HEADER = "Nats-Server-Xkey"

_AUDIENCE = "nats-authorization-request"
_KEY_BYTES = 32
_CLIENT_TYPES = {"STANDARD": "nats", "WEBSOCKET": "websocket"}


class CalloutService(NamedTuple):
    """The authorization service: its account, the key that it signs with, and its own users.

    `account` is the name of its account, or the account's key in operator mode. `issuer` signs
    answers and users. Outside operator mode, `operator` is None and `accounts` names all accounts.
    """

    account: str
    issuer: str
    auth_users: tuple[str, ...]
    xkey: str = ""
    allowed_accounts: tuple[str, ...] = ()
    operator: OperatorMode | None = None
    accounts: Collection[str] = ()


class CalloutError(Exception):
    """An answer that refuses the client; the text is nats-server's, for log and event."""


class Question:
    """One question about one client: `token` is the question, and `judge` checks the answer."""

    def __init__(
        self,
        service: CalloutService,
        request: AuthRequest,
        user: str,
        curve: CurveKey | None,
        server_id: str,
    ) -> None:
        """Ask `service` about `request`, whose client is, or claims to be, `user`.

        With `curve` the request is encrypted, and the answer may be.
        """
        self.user_key = encode_public_key(KeyKind.USER, os.urandom(_KEY_BYTES))
        self._service = service
        self._request = request
        self._user = user
        self._curve = curve
        self._server_id = server_id

    def claims(self, server: dict[str, Any], issuer: str, now_s: int, ends_s: int) -> bytes:
        """Return the claims of the question, as JSON, for `issuer` to sign."""
        claims = {
            "aud": _AUDIENCE,
            "exp": ends_s,
            "iat": now_s,
            "iss": issuer,
            "sub": self._service.issuer,
            "nats": {
                "server_id": server,
                "user_nkey": self.user_key,
                "client_info": self._client_info(),
                "connect_opts": self._connect_options(),
                **({"client_tls": self._tls()} if self._request.tls else {}),
                "type": "authorization_request",
                "version": 2,
            },
        }
        digest = hashlib.new("sha512_256", msgspec.json.encode(claims)).digest()
        return msgspec.json.encode({**claims, "jti": base64.b32encode(digest).decode().rstrip("=")})

    def judge(self, answer: bytes, now_s: float) -> Identity:
        """Return the client's identity from the service's `answer`, at `now_s`.

        Raises:
            CalloutError: the service refuses the client, or the answer is invalid.
        """
        try:
            user = self._user_of(answer, now_s)
            if user.nats.proxy_required:
                raise BadTokenError("proxy connection required")
            if why := _outside(user, now_s):
                raise CalloutError(f"Error validating user JWT: {why}")
            if user.sub != self.user_key:
                raise CalloutError(
                    f'Expected authorized user of "{self.user_key}" but got "{user.sub}" '
                    f'on account "{self._service.account}"'
                )
            if not allows_known_ways(user.nats):
                raise BadTokenError(
                    f'authorized user on account "{self._service.account}" '
                    "using invalid connection type"
                )
            return self._named(self._identity(user, now_s), user)
        except (BadTokenError, BoxError, ValueError) as error:
            raise CalloutError(_capitalized(str(error))) from None

    def _user_of(self, answer: bytes, now_s: float) -> Claims[UserBody]:
        """Return the user's token in `answer`."""
        service = self._service
        if not answer:
            raise BadTokenError(
                f'auth callout violation: "no reason supplied" on account "{service.account}"'
            )
        is_encrypted = self._curve is not None and not answer.startswith(b"eyJ")
        if self._curve is not None and is_encrypted:
            answer = self._open(answer, self._curve)
        response = decode_response(answer.decode("ascii", "replace"))
        if why := _invalid(response) or _outside(response, now_s):
            raise BadTokenError(f"authorization response had validation errors: {why}")
        if response.sub != self.user_key:
            raise BadTokenError(
                "auth callout violation: auth callout response is not for expected user"
            )
        if response.aud != self._server_id:
            raise BadTokenError("auth callout violation: auth callout response is not for server")
        if response.nats.error:
            raise BadTokenError(f"auth callout service returned an error: {response.nats.error}")
        if not is_encrypted:
            self._check_signer(response, now_s)
        return decode_user(response.nats.jwt)

    def _check_signer(self, response: Claims[ResponseBody], now_s: float) -> None:
        """Raise CalloutError unless the service's key signed; an encrypted answer proves itself."""
        operator, account = self._service.operator, self._service.account
        issuer_account = response.nats.issuer_account
        if operator is None:
            is_known = response.iss == self._service.issuer
        elif issuer_account and issuer_account != account:
            raise BadTokenError(
                f'auth callout response issuer account "{issuer_account}" '
                "is not the callout account"
            )
        else:
            is_known = operator.is_key_of(account, response.iss, now_s)
        if not is_known:
            raise BadTokenError("auth callout signing key is unknown")

    def _open(self, answer: bytes, curve: CurveKey) -> bytes:
        try:
            return curve.open(answer, self._service.xkey)
        except BoxError as error:
            text = f'error decrypting auth callout response on account "{self._service.account}"'
            raise BadTokenError(f"{text}: {error}") from None

    def _identity(self, user: Claims[UserBody], now_s: float) -> Identity:
        """Return the identity of `user` in its account."""
        service = self._service
        if service.operator is None:
            return self._configured(user, now_s)
        issuer = user.nats.issuer_account or user.iss
        allowed = service.allowed_accounts
        if issuer != service.account and allowed != ("*",) and issuer not in allowed:
            raise BadTokenError(
                f'account "{user.iss}" not permitted as valid account option for auth callout '
                f'for account "{service.account}"'
            )
        return service.operator.delegated(user, now_s)

    def _configured(self, user: Claims[UserBody], now_s: float) -> Identity:
        """Return the identity of `user` in a configured account, which its audience names."""
        service = self._service
        if user.nats.issuer_account:
            raise BadTokenError(
                f'error non operator mode account "{service.account}": '
                "attempted to use issuer_account"
            )
        if user.iss != service.issuer:
            raise BadTokenError(
                f'wrong issuer for auth callout response on account "{service.account}", '
                f'expected "{service.issuer}" got "{user.iss}"'
            )
        if user.aud not in service.accounts:
            raise BadTokenError(
                f'no valid account "{user.aud}" for auth callout response on account '
                f'"{service.account}": account missing'
            )
        ends_s = end_of_time_range(user.nats, now_s)
        if user.nats.times and ends_s is None:
            raise BadTokenError(
                f'authorized user on account "{service.account}" outside of valid connect times'
            )
        ends = [end for end in (float(user.exp), ends_s) if end]
        return Identity(
            account=user.aud,
            rules=rules_of(user.nats),
            expires_at_s=min(ends, default=None),
            issued_at_s=user.iat,
            issuer=user.iss,
            tags=user.nats.tags,
        )

    def _named(self, identity: Identity, user: Claims[UserBody]) -> Identity:
        """Return `identity` with the display name of the client."""
        shown = user.name or self._user
        return msgspec.structs.replace(identity, user=shown, display_name=user.name)

    # The fields of the question.

    def _client_info(self) -> dict[str, Any]:
        request = self._request
        facts = {
            "host": request.peer_host,
            "id": request.cid,
            "user": self._user,
            "name": request.client_name,
            "kind": "Leafnode" if request.connection_type == "LEAFNODE" else "Client",
            "type": _CLIENT_TYPES.get(request.connection_type, ""),
            "nonce": request.nonce.decode() if request.signature else "",
        }
        return {name: value for name, value in facts.items() if value}

    def _connect_options(self) -> dict[str, Any]:
        request = self._request
        said = {
            "jwt": request.jwt,
            "nkey": request.nkey,
            "sig": request.signature,
            "auth_token": request.token,
            "user": request.user,
            "pass": request.password,
            "name": request.client_name,
            "lang": request.lang,
            "version": request.version,
        }
        return {name: value for name, value in said.items() if value} | {
            "protocol": request.protocol
        }

    def _tls(self) -> dict[str, Any]:
        version, suite = self._request.tls or ("", "")
        facts: dict[str, Any] = {"version": version.removeprefix("TLSv"), "cipher": suite}
        if self._request.certificate_chain:
            facts["verified_chains"] = [
                [ssl.DER_cert_to_PEM_cert(one) for one in self._request.certificate_chain]
            ]
        return facts


def claimed_user(request: AuthRequest) -> str:
    """Return the user that the client claims to be, in nats-server's form; "" if it has a JWT."""
    if request.nkey or request.user or request.jwt:
        return request.nkey or request.user
    return "[REDACTED]" if request.token else ""


def signed_token(claims: bytes, sign: Callable[[bytes], bytes]) -> bytes:
    """Return `claims` as a token."""
    parts = (b'{"typ":"JWT","alg":"ed25519-nkey"}', claims)
    signed = b".".join(_base64(part) for part in parts)
    return signed + b"." + _base64(sign(signed))


def without_callout(identity: Identity) -> Identity:
    """Return `identity` without the right to publish to the subject of the server's questions."""
    table = Permissions() if identity.rules is None else identity.rules.table
    subject = CALLOUT_SUBJECT.decode()
    publish = SubjectPermissions(allow=table.publish.allow, deny=(*table.publish.deny, subject))
    denied = msgspec.structs.replace(table, publish=publish)
    return msgspec.structs.replace(identity, rules=PermissionRules(denied))


def _invalid(response: Claims[ResponseBody]) -> str:
    """Return the fault in the form of an answer, in nats-server's words, or ""."""
    if not is_public_key(KeyKind.SERVER, response.aud):
        return "Audience must be a server public key"
    if response.nats.jwt and response.nats.error:
        return "Only Error or Jwt can be set"
    return "" if response.nats.jwt or response.nats.error else "Error or Jwt is required"


def _outside(claims: Claims[ResponseBody] | Claims[UserBody], now_s: float) -> str:
    """Return why a token is not valid at `now_s`, in nats-server's words, or ""."""
    if claims.why_not_any_more(now_s):
        return "claim is expired"
    return "claim is not yet valid" if claims.why_not_yet(now_s) else ""


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _base64(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")
