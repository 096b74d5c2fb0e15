"""Checks of a client's CONNECT for options that no client may have; credentials from cookies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.protocol import errors
from midge.server.clients.closed_reason import ClosedReason

if TYPE_CHECKING:
    from midge.protocol.messages import ConnectOptions


def refusal_of(options: ConnectOptions, *, headers: bool) -> tuple[ClosedReason, str] | None:
    """Return reason and -ERR text if no client may connect with such options, else None."""
    if options.account or options.new_account:
        return ClosedReason.AUTHENTICATION_FAILURE, errors.AUTHORIZATION_VIOLATION
    if options.protocol < 0 or options.protocol > 1:
        return ClosedReason.BAD_CLIENT_PROTOCOL, errors.INVALID_CLIENT_PROTOCOL
    if options.no_responders and not headers:
        return ClosedReason.NO_RESPONDERS_REQUIRES_HEADERS, errors.NO_RESPONDERS_REQUIRES_HEADERS
    return None


def take_cookies(options: ConnectOptions, cookies: dict[str, str]) -> None:
    """Complete the credentials of a CONNECT from the cookies that a browser sent."""
    options.jwt = options.jwt or cookies.get("jwt", "")
    options.user = options.user or cookies.get("user", "")
    options.password = options.password or cookies.get("password", "")
    options.auth_token = options.auth_token or cookies.get("auth_token", "")
