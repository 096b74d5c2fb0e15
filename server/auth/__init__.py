"""Authentication: who a client is, decided in one place. See `midge.server.auth.authenticator`."""

from midge.server.auth.authenticator import Authenticator
from midge.server.auth.hook import User
from midge.server.auth.identity import AuthRequest, Identity, Refusal, Verdict

__all__ = ["AuthRequest", "Authenticator", "Identity", "Refusal", "User", "Verdict"]
