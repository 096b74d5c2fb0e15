"""Authentication: one place decides a client's identity. See `midge.server.auth.authenticator`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midge.server.auth.authenticator import Authenticator
from midge.server.auth.identity import AuthRequest, Identity, Refusal, Verdict

if TYPE_CHECKING:
    from midge.server.auth.hook import User

__all__ = ["AuthRequest", "Authenticator", "Identity", "Refusal", "User", "Verdict"]


def __getattr__(name: str) -> Any:
    """Import what a hook returns when one asks for it: few servers have a hook."""
    if name == "User":
        from midge.server.auth.hook import User  # noqa: PLC0415 - see above

        return User
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
