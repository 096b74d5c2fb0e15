"""The limits of the server, and how often each was reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.protocol import errors
from midge.server.broker.broker import TOO_MANY_TOKENS
from midge.server.channels.closed_reason import ClosedReason
from midge.server.log.logger import JOURNAL

if TYPE_CHECKING:
    from midge.server.broker.broker import Broker


def limits_met(broker: Broker) -> dict[str, int]:
    """Return for each limit how often it was reached."""
    met, closed, errors_sent = broker.limit_hits, broker.closed_by_reason, broker.errors_sent
    return {
        "bytes_before_authentication": met["bytes_before_authentication"],
        "time_before_authentication": closed[ClosedReason.AUTHENTICATION_TIMEOUT],
        "handshakes": met["handshakes"],
        "handshakes_per_second": met["handshakes_per_second"],
        "connections": met["connections"],
        "connections_per_account": closed[ClosedReason.MAXIMUM_ACCOUNT_CONNECTIONS],
        "connections_per_user": met["connections_per_user"],
        "connections_per_address": met["connections_per_address"],
        "publish_quota": met["publish_quota"],
        "subscriptions": errors_sent[errors.MAXIMUM_SUBSCRIPTIONS],
        "subscription_tokens": errors_sent[TOO_MANY_TOKENS],
        "control_line": closed[ClosedReason.MAXIMUM_CONTROL_LINE],
        "payload": closed[ClosedReason.MAXIMUM_PAYLOAD],
        "pending_bytes": closed[ClosedReason.SLOW_CONSUMER_PENDING],
        "write_deadline": closed[ClosedReason.SLOW_CONSUMER_DEADLINE],
        "last_words": met["last_words"],
        "closed_clients": max(0, closed.total() - len(broker.closed)),
        "log_lines_per_offender": JOURNAL.suppressed_lines,
        "system_requests": met["system_requests"],
        "monitoring_connections": met["monitoring_connections"],
        "monitoring_pages": met["monitoring_pages"],
        "hook_calls": met["hook_calls"],
        "inflated_bytes": met["inflated_bytes"],
        "finishing_connections": met["finishing_connections"],
        "response_grants": met["response_grants"],
        "jetstream_requests": met["jetstream_requests"],
        "jetstream_messages": met["jetstream_messages"],
        "leafnode_connections": met["leafnode_connections"],
        "leafnode_subscriptions": met["leafnode_subscriptions"],
        "leafnode_denied_messages": met["leafnode_denied_messages"],
        "leafnode_payload": met["leafnode_payload"],
        "route_connections": met["route_connections"],
        "route_accounts": met["route_accounts"],
        "route_subscriptions": met["route_subscriptions"],
        "route_denied_messages": met["route_denied_messages"],
        "route_payload": met["route_payload"],
        "route_gossip": met["route_gossip"],
        "service_requests": broker.admission.links.evicted_requests,
    }
