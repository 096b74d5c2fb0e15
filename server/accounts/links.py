"""Links that carry messages between accounts, as the plan of their imports says.

Each import is one subscription in the account that messages come from; its messages are routed
again in the other account, under the subject that the import defines. No message crosses in any
other way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from midge.server.accounts.link_context import Carry, Describe, LinkContext, RouteFrame
from midge.server.accounts.plan import StreamImport
from midge.server.routing.mapping import Mappings

if TYPE_CHECKING:
    from random import Random

    from midge.server.accounts.plan import AccountPlan, ImportPlan, ServiceImport
    from midge.server.accounts.service_link import ServiceLink
    from midge.server.accounts.stream_link import StreamLink
    from midge.server.clock import Clock
    from midge.server.routing.account import Account
    from midge.server.routing.subscription import RoutedSubscription


class AccountLinks(LinkContext):
    """The links between the accounts of one server, changed by plan."""

    def __init__(
        self,
        route: RouteFrame,
        clock: Clock,
        random: Random,
        account: Callable[[str], Account],
        describe: Describe,
        carry: Carry,
    ) -> None:
        """Deliver with `route` and `carry`; `account` returns the account of a name."""
        super().__init__(route, carry, clock, random, describe)
        self._account = account
        self.plans: dict[str, AccountPlan] = {}
        self.applied: Callable[[], object] = lambda: None
        """Called when other plans are in force."""
        self._links: dict[ImportPlan, RoutedSubscription] = {}
        self._services: dict[str, Counter[bytes]] = {}
        self._streams: dict[str, list[StreamLink]] = {}

    def apply(self, plans: Mapping[str, AccountPlan]) -> None:
        """Apply `plans`; links that stay the same are not touched."""
        wanted: dict[ImportPlan, None] = {}
        for plan in plans.values():
            wanted.update(dict.fromkeys([*plan.stream_imports, *plan.service_imports]))
        for gone in self._links.keys() - wanted.keys():
            self._unlink(gone)
        for plan in plans.values():
            before = self.plans.get(plan.name)
            if before is None or before.mappings != plan.mappings:
                account = self._account(plan.name)
                account.mapper = Mappings(plan.mappings, self.random) if plan.mappings else None
            for imported in (*plan.stream_imports, *plan.service_imports):
                if imported not in self._links:
                    self._link(imported, self._account(plan.name))
        self.plans = dict(plans)
        self.applied()

    def _link(self, plan: ImportPlan, importer: Account) -> None:
        """Start to carry messages to `importer`, as `plan` says."""
        # Few servers have imports, and no start is to wait for what they need.
        from midge.server.accounts.service_link import ServiceLink  # noqa: PLC0415
        from midge.server.accounts.stream_link import StreamLink  # noqa: PLC0415

        link: StreamLink | ServiceLink
        if isinstance(plan, StreamImport):
            link = StreamLink(self, plan, importer)
            self._streams.setdefault(plan.source_account, []).append(link)
        else:
            service = cast("ServiceImport", plan)
            link = ServiceLink(self, service, importer, self._account(service.target_account))
            self._services.setdefault(plan.source_account, Counter())[plan.source] += 1
        self._account(plan.source_account).add(link)
        self._links[plan] = link

    def _unlink(self, plan: ImportPlan) -> None:
        """Remove the link of `plan`, and the pending responses to its requests."""
        link = self._links.pop(plan)
        if isinstance(plan, StreamImport):
            self._streams[plan.source_account].remove(cast("StreamLink", link))
        else:
            self._services[plan.source_account] -= Counter([plan.source])
            cast("ServiceLink", link).forget_all()
        # Last, because listeners count the remaining imports when it is removed.
        self._account(plan.source_account).remove(link)

    def has_crossings(self, account: str) -> bool:
        """Return whether messages in `account` go through any import."""
        return bool(self._streams.get(account)) or bool(self._services.get(account))

    def streams_of(self, account: str) -> list[StreamLink]:
        """List the imports of what `account` exports as streams."""
        return list(self._streams.get(account, ()))

    def count_streams(self, account: str, subject: bytes) -> int:
        """Count the imports of exactly `subject` from `account`, as a stream."""
        streams = self._streams.get(account)
        return sum(one.subject == subject for one in streams) if streams else 0

    def count_services(self, account: str, subject: bytes) -> int:
        """Count the imports of exactly `subject` from `account`, as a service."""
        services = self._services.get(account)
        return 0 if services is None else services.get(subject, 0)

    def count_crossings(self, account: str, subject: bytes) -> int:
        """Count the imports, of either kind, that messages to `subject` in `account` go through."""
        return self.count_services(account, subject) + self.count_streams(account, subject)
