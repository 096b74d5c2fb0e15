"""Quotas of messages and bytes a second, per user and per account.

A quota delays a publisher and never disconnects it: the parser of the client halts until the quota
has room again, so its input waits in the kernel, whose window slows the client down. A message that
exceeds the quota is taken, and the client owes it: the pause lasts until the debt is paid. A quota
that was not used saves up to one second of it.

Each worker process counts for itself, and messages of leaf nodes and routes do not count.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from midge.server.channels.reading import OVER_QUOTA

if TYPE_CHECKING:
    from midge.server.accounts.plan import AccountPlan
    from midge.server.auth import Identity
    from midge.server.channels.channel import ChannelOwner
    from midge.server.channels.host import Host

_WAKE_S = 1.0
"""Longest time between two looks at a client that waits: it is not stale meanwhile."""


class Rate(NamedTuple):
    """The most of each a second; 0 means no limit."""

    messages_per_s: int
    bytes_per_s: int


class Quota:
    """The use of one user's or account's rate; `holds` counts the pauses that it caused."""

    __slots__ = ("_at", "_bytes", "_messages", "holds", "rate")

    def __init__(self, rate: Rate, now: float) -> None:
        self.rate = rate
        self.holds = 0
        self._messages = float(rate.messages_per_s)
        self._bytes = float(rate.bytes_per_s)
        self._at = now

    def charge(self, messages: int, size: int, now: float) -> float:
        """Charge for a message of `size` bytes; return the seconds until the debt is paid."""
        per_s, bytes_per_s = self.rate
        elapsed_s = max(now - self._at, 0.0)
        self._at = now
        wait_s = 0.0
        if per_s:
            self._messages = min(self._messages + elapsed_s * per_s, per_s) - messages
            wait_s = -self._messages / per_s
        if bytes_per_s:
            self._bytes = min(self._bytes + elapsed_s * bytes_per_s, bytes_per_s) - size
            wait_s = max(wait_s, -self._bytes / bytes_per_s)
        return max(wait_s, 0.0)


class PublishQuotas:
    """The quotas of a server, and the clients that wait for theirs."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._quotas: dict[tuple[str, str], Quota] = {}
        self._of: dict[int, list[Quota]] = {}

    def apply(self, cid: int, plan: AccountPlan, identity: Identity) -> bool:
        """Set the quotas that hold for a client from now on; return whether there are any."""
        found: list[Quota] = []
        if plan.messages_per_s or plan.bytes_per_s:
            rate = Rate(plan.messages_per_s, plan.bytes_per_s)
            found.append(self._quota((plan.name, ""), rate))
        if identity.messages_per_s or identity.bytes_per_s:
            rate = Rate(identity.messages_per_s, identity.bytes_per_s)
            found.append(self._quota((plan.name, identity.user), rate))
        if found:
            self._of[cid] = found
        else:
            self._of.pop(cid, None)
        return bool(found)

    def _quota(self, key: tuple[str, str], rate: Rate) -> Quota:
        quota = self._quotas.get(key)
        if quota is None or quota.rate != rate:
            holds = 0 if quota is None else quota.holds
            quota = self._quotas[key] = Quota(rate, self._host.clock.monotonic())
            quota.holds = holds
        return quota

    def forget(self, cid: int) -> None:
        """Forget a connection that has ended."""
        self._of.pop(cid, None)

    def of_account(self, account: str) -> dict[str, Quota]:
        """Return an account's quotas by user; the quota of the account itself has no name."""
        return {user: quota for (name, user), quota in self._quotas.items() if name == account}

    def __len__(self) -> int:
        return len(self._quotas)

    def items(self) -> list[tuple[tuple[str, str], Quota]]:
        """List the quotas, each with its account and its user."""
        return list(self._quotas.items())

    def charge(self, client: ChannelOwner, size: int) -> None:
        """Charge for a message of `client`; halt its parser while a quota is exceeded."""
        now = self._host.clock.monotonic()
        longest_s = 0.0
        for quota in self._of.get(client.cid, ()):
            wait_s = quota.charge(1, size, now)
            if wait_s > 0.0:
                quota.holds += 1
                longest_s = max(longest_s, wait_s)
        if longest_s > 0.0:
            self._host.limit_hits["publish_quota"] += 1
            client.channel.reading.halt(OVER_QUOTA)
            self._wait(client, now + longest_s)

    def _wait(self, client: ChannelOwner, until: float) -> None:
        delay_s = min(until - self._host.clock.monotonic(), _WAKE_S)
        self._host.clock.call_later(max(delay_s, 0.0), partial(self._wake, client, until))

    def _wake(self, client: ChannelOwner, until: float) -> None:
        if client.reason is not None:
            return
        now = client.channel.keepalive.last_heard = self._host.clock.monotonic()
        if now < until:
            self._wait(client, until)
            return
        client.channel.reading.unhalt(OVER_QUOTA)
        client.channel.resume()
