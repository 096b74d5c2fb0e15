"""Why a connection ended, in nats-server's words, for monitoring and events."""

from enum import Enum


class ClosedReason(Enum):
    """Why a connection ended."""

    CLIENT_CLOSED = "Client Closed"
    AUTHENTICATION_TIMEOUT = "Authentication Timeout"
    AUTHENTICATION_FAILURE = "Authentication Failure"
    AUTHENTICATION_EXPIRED = "Authentication Expired"
    CREDENTIALS_REVOKED = "Credentials Revoked"
    TLS_HANDSHAKE_FAILURE = "TLS Handshake Failure"
    SLOW_CONSUMER_PENDING = "Slow Consumer (Pending Bytes)"
    SLOW_CONSUMER_DEADLINE = "Slow Consumer (Write Deadline)"
    WRITE_ERROR = "Write Error"
    READ_ERROR = "Read Error"
    STALE_CONNECTION = "Stale Connection"
    PROTOCOL_VIOLATION = "Protocol Violation"
    BAD_CLIENT_PROTOCOL = "Bad Client Protocol Version"
    MAXIMUM_CONNECTIONS = "Maximum Connections Exceeded"
    MAXIMUM_ACCOUNT_CONNECTIONS = "Maximum Account Connections Exceeded"
    MAXIMUM_PAYLOAD = "Maximum Message Payload Exceeded"
    MAXIMUM_CONTROL_LINE = "Maximum Control Line Exceeded"
    MAXIMUM_SUBSCRIPTIONS = "Maximum Subscriptions Exceeded"
    MISSING_ACCOUNT = "Missing Account"
    NO_RESPONDERS_REQUIRES_HEADERS = "No Responders Requires Headers"
    DUPLICATE_REMOTE_LEAFNODE = "Duplicate Remote LeafNode Connection"
    DUPLICATE_ROUTE = "Duplicate Route"
    ROUTE_REMOVED = "Route Removed"
    DUPLICATE_SERVER_NAME = "Duplicate Server Name"
    CLUSTER_NAME_CONFLICT = "Cluster Name Conflict"
    WRONG_PORT = "Incorrect Port"
    SERVER_SHUTDOWN = "Server Shutdown"
    KICKED = "Kicked"
    PROXY_REQUIRED = "Proxy Required"
    PROXY_NOT_TRUSTED = "Proxy Not Trusted"

    @property
    def is_slow_consumer(self) -> bool:
        """Whether the client did not read its messages fast enough."""
        return self in _SLOW_CONSUMER


_SLOW_CONSUMER = (ClosedReason.SLOW_CONSUMER_PENDING, ClosedReason.SLOW_CONSUMER_DEADLINE)
