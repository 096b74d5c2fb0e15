"""Authentication: `midge.server.auth.authenticator` decides on the identity of every client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midge.server.auth.authenticator import Authenticator
from midge.server.auth.identity import AuthRequest, Identity, Refusal, Verdict

if TYPE_CHECKING:
    from midge.server.auth.hook import User

__all__ = ["AuthRequest", "Authenticator", "Identity", "Refusal", "User", "Verdict"]


def __getattr__(name: str) -> Any:
    """Import the classes that a hook returns on first use, because few servers have a hook."""
    if name == "User":
        from midge.server.auth.hook import User  # noqa: PLC0415 - see above

        return User
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
