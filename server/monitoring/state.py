"""The data of the pages: the broker, and monitoring's own counts."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from midge.server.monitoring.account_totals import AccountTotals
from midge.server.monitoring.process_usage import ProcessUsage

if TYPE_CHECKING:
    from midge.server.broker.broker import Broker
    from midge.server.histogram import Histogram
    from midge.server.jetstream.engine import Engine
    from midge.server.monitoring.console.tail import Tails
    from midge.server.peers.cluster import Cluster
    from midge.server.peers.leaf_nodes import LeafNodes
    from midge.server.tables.service import TableService
    from midge.server.workers.part import Part

_CLOCK_SLACK_S = 0.5
"""Smallest change of the clocks' difference, in seconds, that counts: below it, a connection's
times are equal on all pages."""


class State:
    """Everything that pages use; `started_at` and `configured_at` are Unix times.

    `jetstream` is None while JetStream is off, or has not recovered yet, and `leafnodes`, `cluster`
    and `tables` where the settings have none. `part` is set in one of several workers.
    """

    def __init__(self, broker: "Broker", part: "Part | None" = None) -> None:
        self.broker = broker
        self.part = part
        self.usage = ProcessUsage()
        self.account_totals = AccountTotals()
        self.requests: Counter[str] = Counter()
        self.started_at = broker.clock.wall()
        self.configured_at = self.started_at
        self.config_digest = ""
        self.jetstream: Engine | None = None
        self.leafnodes: LeafNodes | None = None
        self.cluster: Cluster | None = None
        self.tables: TableService | None = None
        self.loop_delay: Histogram | None = None
        self._wall_offset = 0.0
        self._tails: Tails | None = None
        broker.observers.append(self.account_totals)
        self.http_address = (broker.options.monitoring.host or broker.options.listen.host, 0)
        self.https_port = 0
        self.websocket_port = 0
        self.leafnode_port = 0

    def tails(self) -> "Tails":
        """Return the console's tails of this process, made on first use."""
        if self._tails is None:
            from midge.server.monitoring.console.tail import Tails  # noqa: PLC0415 - few have any

            self._tails = Tails(self.broker)
        return self._tails

    @property
    def server_name(self) -> str:
        """The configured name, or the server id."""
        return self.broker.options.server_name or self.broker.keys.server_id

    @property
    def labels(self) -> dict[str, Any]:
        """The server's tags, in small letters and once each, and its metadata; absent if none."""
        options = self.broker.options
        tags = dict.fromkeys(tag.strip().lower() for tag in options.server_tags)
        tags.pop("", None)
        labels = {"tags": list(tags), "metadata": options.server_metadata}
        return {name: found for name, found in labels.items() if found}

    def wall_offset(self) -> float:
        """Return the difference between Unix times and the clock's monotonic times."""
        clock = self.broker.clock
        offset = clock.wall() - clock.monotonic()
        if abs(offset - self._wall_offset) > _CLOCK_SLACK_S:
            self._wall_offset = offset  # the system's clock was set
        return self._wall_offset
