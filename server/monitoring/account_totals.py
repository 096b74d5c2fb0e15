"""Totals per account, including closed connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.server.broker.broker import Broker, Observer, Totals

if TYPE_CHECKING:
    from midge.server.clients.connection import Connection


class AccountTotals(Observer):
    """Counts by account: an observer of a broker; `totals` returns them."""

    def __init__(self) -> None:
        self._gone: dict[str, Totals] = {}

    def client_closed(self, connection: Connection) -> None:
        """Keep the counts of a client that has disconnected."""
        totals = self._gone.setdefault(connection.account.name, Totals())
        totals.connections += 1
        totals.add(connection)
        if connection.reason is not None and connection.reason.is_slow_consumer:
            totals.slow_consumers += 1

    def totals(self, broker: Broker, name: str) -> Totals:
        """Return the totals of an account: open and closed connections."""
        gone = self._gone.get(name, Totals())
        account = broker.accounts.get(name)
        live = broker.clients_of(account) if account else []
        totals = Totals()
        totals.connections = gone.connections + len(live)
        totals.slow_consumers = gone.slow_consumers
        for field in ("in_messages", "in_bytes", "out_messages", "out_bytes"):
            setattr(totals, field, getattr(gone, field))
        for client in live:
            totals.add(client)
        return totals


def server_totals(broker: Broker) -> Totals:
    """Return the totals of the server: open and closed connections."""
    totals = Totals()
    for field in Totals.__slots__:
        setattr(totals, field, getattr(broker.totals, field))
    for client in list(broker.clients.values()):
        totals.add(client)
    return totals
