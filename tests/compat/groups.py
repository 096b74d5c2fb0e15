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
    "jetstream management",
    "key-value",
    "object store",
    "cluster",
    "no server needed",
)
"""The groups, in the order of the table."""

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
    "JSMTest": "jetstream management",
    "AccountLimitsTest": "jetstream management",
    "ConsumerReplicasTest": "jetstream management",
    "BadStreamNamesTest": "jetstream management",
    "KVTest": "key-value",
    "KVLimitMarkerTTLTest": "key-value",
    "ObjectStoreTest": "object store",
}
_BY_SUITE = {"nats-jetstream": "jetstream", "nats-key-value": "key-value"}
_IN_SUITE = {("nats-jetstream", "test_api"): "no server needed"}
_BY_FILE = {
    "test_js": "jetstream",
    "test_tls": "tls",
    "test_websocket": "websocket",
    "test_message": "no server needed",
    "test_protocol": "no server needed",
}
_BY_WORD = {
    "cluster": "cluster",
    "jetstream": "jetstream",
    "store_dir": "jetstream",
    "jwt": "jwt",
    "credentials": "jwt",
    "nkey": "nkeys",
    "websocket": "websocket",
    "tls": "tls",
    "token": "authorization",
    "auth": "authorization",
    "user_password": "authorization",
}


def group_of(suite: str, file: str, class_name: str, test: str) -> str:
    """Return the group of a test by its suite, class, file or, failing those, words of its name."""
    if suite in _BY_SUITE:
        return _IN_SUITE.get((suite, file), _BY_SUITE[suite])
    if class_name in _BY_CLASS:
        return _BY_CLASS[class_name]
    if file in _BY_FILE:
        return _BY_FILE[file]
    if not class_name:
        for word, group in _BY_WORD.items():
            if word in test:
                return group
    return "core"
