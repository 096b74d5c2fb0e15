"""Which part of a server each test of the Python client's suites needs."""

from __future__ import annotations

GROUPS = (
    "core",
    "authorization",
    "accounts",
    "tls",
    "nkeys",
    "jwt",
    "websocket",
    "jetstream",
    "cluster",
    "no server needed",
)
"""The groups, in the order of the table."""

OUT_OF_SCOPE = {
    "jetstream": "needs JetStream, which midge refuses to pretend",
    "cluster": "needs routes between servers, which midge has not",
}
"""Groups that need what midge is not, with the reason why it fails them."""

REQUIRED = frozenset(GROUPS) - OUT_OF_SCOPE.keys()
"""Groups in which midge passes whatever nats-server passes."""

_BY_CLASS = {
    "ClientUtilsTest": "no server needed",
    "ProcessHeadersTest": "no server needed",
    "CompatibilityTest": "no server needed",
    "TestHeaderCatcher": "websocket",
    "APIDataClassTest": "no server needed",
    "ClusterInfoTest": "no server needed",
    "DatetimeFieldsTest": "no server needed",
    "NUIDTest": "no server needed",
    "ProtocolParserTest": "no server needed",
    "NoAuthUserClientTest": "accounts",
    "ClientReconnectTest": "authorization",
    "ClientLameDuckModeTest": "authorization",
    "ClientReconnectToServerHandlerTest": "authorization",
    "ClientServerPoolTest": "authorization",
    "ClientAuthTokenTest": "authorization",
    "ClientTLSTest": "tls",
    "ClientTLSHandshakeFirstTest": "tls",
    "ClientTLSReconnectTest": "tls",
    "ClientNkeysAuthTest": "nkeys",
    "ClientJWTAuthTest": "jwt",
    "WebSocketTest": "websocket",
    "WebSocketTLSTest": "websocket",
    "ClusterDiscoveryTest": "cluster",
    "ClusterDiscoveryReconnectTest": "cluster",
}
_BY_FILE = {
    "test_js": "jetstream",
    "test_tls": "tls",
    "test_websocket": "websocket",
    "test_message": "no server needed",
    "test_protocol": "no server needed",
}
_BY_WORD = {
    "jetstream": "jetstream",
    "store_dir": "jetstream",
    "cluster": "cluster",
    "jwt": "jwt",
    "credentials": "jwt",
    "nkey": "nkeys",
    "websocket": "websocket",
    "tls": "tls",
    "token": "authorization",
    "auth": "authorization",
    "user_password": "authorization",
}


def group_of(file: str, class_name: str, test: str) -> str:
    """Give the group of a test by its file, its class or, failing those, words in its name."""
    if class_name in _BY_CLASS:
        return _BY_CLASS[class_name]
    if file in _BY_FILE:
        return _BY_FILE[file]
    if not class_name:
        for word, group in _BY_WORD.items():
            if word in test:
                return group
    return "core"
