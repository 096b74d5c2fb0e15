"""Authentication: one place decides a client's identity. See `midge.server.auth.authenticator`."""

from midge.server.auth.authenticator import Authenticator
from midge.server.auth.hook import User
from midge.server.auth.identity import AuthRequest, Identity, Refusal, Verdict

__all__ = ["AuthRequest", "Authenticator", "Identity", "Refusal", "User", "Verdict"]
