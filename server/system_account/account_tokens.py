"""The requests by which tools such as `nsc` store, list and delete account tokens.

They exist in operator mode with a directory resolver, under `$SYS.REQ.CLAIMS` and
`$SYS.REQ.ACCOUNT.<key>.CLAIMS`. With any other resolver, the token of an account in use can be
replaced. Unlike nats-server 2.15.1, midge stores no token that a trusted operator has not signed:
it would replace a good one and refuse all of its users.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from midge.server.auth.claims import BadTokenError, decode_account, decode_deletion
from midge.server.auth.nkeys import KeyKind, is_public_key
from midge.server.auth.resolvers import DirectoryResolver, ResolverFullError
from midge.server.log.logger import get_logger

if TYPE_CHECKING:
    from midge.server.auth.claims import AccountBody, Claims
    from midge.server.auth.operator import OperatorMode
    from midge.server.broker.broker import Broker
    from midge.server.internal.service import Request
    from midge.server.system_account.documents import Documents

log = get_logger()

_CHUNKS = 3
_KEY_TOKEN = -3  # of `$SYS.REQ.ACCOUNT.<key>.CLAIMS.UPDATE`, and of the older form without `REQ`


class AccountTokens:
    """Answers requests about the tokens in the directory of `broker`'s resolver."""

    def __init__(self, broker: Broker, documents: Documents) -> None:
        self._broker = broker
        self._documents = documents

    async def answer(self, name: str, request: Request) -> bytes | None:
        """Return the answer to the request `name`."""
        mode = self._broker.admission.authenticator.operator
        directory = None if mode is None else mode.directory
        if mode is None or directory is None:
            found = self._replace(mode, self._key(request), request.payload)
            return msgspec.json.encode({"server": self._documents.server_info(), **found})
        if name == "LOOKUP":
            return (directory.fetch(self._key(request)) or "").encode()
        if name == "PACK":
            return self._pack(directory, request)
        handler = {"UPDATE": self._update, "DELETE": self._delete, "LIST": self._list}[name]
        found = {"server": self._documents.server_info(), **handler(mode, directory, request)}
        return msgspec.json.encode(found)

    @staticmethod
    def _key(request: Request) -> str:
        return request.subject.split(b".")[_KEY_TOKEN].decode(errors="replace")

    def _replace(self, mode: OperatorMode | None, key: str, payload: bytes) -> dict[str, Any]:
        """Replace the token of an account in use, which the resolver has only in memory."""
        text = "jwt update resulted in error"
        try:
            if not payload:
                text = "jwt update error"
                raise BadTokenError("request body is empty")
            token, claims = _account_in(payload)
            if claims.sub != key:
                raise BadTokenError("subject does not match jwt content")
            if key not in self._broker.accounts:
                return _done(key, "jwt update skipped")
            if mode is None or claims.iss not in mode.trusted_keys:
                raise BadTokenError("account validation failed")
        except BadTokenError as error:
            return _failed(key, f"{text} - {error}")
        mode.replace(key, token)
        self._broker.admission.scan_tokens()
        return _done(key, "jwt updated")

    def _list(
        self, _mode: OperatorMode, directory: DirectoryResolver, _request: Request
    ) -> dict[str, Any]:
        return {"data": directory.accounts()}

    def _update(
        self, mode: OperatorMode, directory: DirectoryResolver, request: Request
    ) -> dict[str, Any]:
        """Store the token in the payload."""
        key = "n/a" if request.subject.startswith(b"$SYS.REQ.CLAIMS.") else self._key(request)
        try:
            token, claims = _account_in(request.payload)
            if key not in ("n/a", claims.sub):
                raise BadTokenError("subject does not match jwt content")
            key = claims.sub
            if claims.iss not in mode.trusted_keys:
                raise BadTokenError("not signed by a trusted operator")
            directory.store(key, token, self._broker.options.operator.resolver_max_accounts)
        except (BadTokenError, ResolverFullError, OSError) as error:
            return _failed(key, f"jwt update resulted in error - {error}")
        log.info("account_token_stored", account=key)
        self._broker.admission.scan_tokens()
        return _done(key, "jwt updated")

    def _delete(
        self, mode: OperatorMode, directory: DirectoryResolver, request: Request
    ) -> dict[str, Any]:
        """Delete the tokens of the accounts that a signed request names."""
        operator = ""
        try:
            token = request.payload.decode(errors="replace").strip()
            if token.count(".") != _CHUNKS - 1:
                raise BadTokenError("expected 3 chunks")
            claims = decode_deletion(token)
            operator = claims.iss
            table = self._broker.options.operator
            if not table.resolver_allow_delete:
                raise BadTokenError("delete must be enabled in server config")
            if claims.iss not in mode.trusted_keys:
                raise BadTokenError("not trusted")
            keys = claims.nats.accounts
            if not all(is_public_key(KeyKind.ACCOUNT, key) for key in keys):
                raise BadTokenError("malformed request")
            if mode.system_account in keys:
                raise BadTokenError("not allowed to delete system account")
            for key in keys:
                directory.delete(key, for_good=table.resolver_hard_delete)
                log.info("account_token_deleted", account=key)
        except (BadTokenError, OSError) as error:
            text = f"delete accounts request by {operator} failed - {error}"
            return {"error": {"code": 500, "description": text}}
        self._broker.admission.scan_tokens()
        return {"data": {"code": 200, "message": f"deleted {len(keys)} accounts"}}

    def _pack(self, directory: DirectoryResolver, request: Request) -> bytes:
        """Send each token in a message of its own, and return the empty message behind them."""
        for key in directory.accounts():
            line = f"{key}|{directory.fetch(key) or ''}".encode()
            self._broker.internal.publish(request.account, request.reply, line)
        return b""


def _account_in(payload: bytes) -> tuple[str, Claims[AccountBody]]:
    """Return the account token in a request, and what it claims; raises BadTokenError."""
    token = payload.decode(errors="replace").strip()
    if token.count(".") != _CHUNKS - 1:
        raise BadTokenError("expected 3 chunks")
    return token, decode_account(token)


def _done(key: str, message: str) -> dict[str, Any]:
    return {"data": {"account": key, "code": 200, "message": message}}


def _failed(key: str, text: str) -> dict[str, Any]:
    return {"error": {"account": key, "code": 500, "description": text}}
