"""The options of access control: permissions, users, accounts, operator mode and TLS.

Plain data only; `midge.server.config.options` re-exports every name, so import from there. An empty
string, an empty list or a zero means "not set" wherever a docstring says so, since TOML has no
null.
"""

from typing import Annotated, Literal

from msgspec import Meta

from midge.server.config.jetstream import AccountJetStream
from midge.server.config.table import EXPECTED, Count, Seconds, Secret, Table

HookName = Annotated[
    str,
    Meta(
        pattern=r"^$|^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
        extra={EXPECTED: "'module:function' or nothing"},
    ),
]
"""A Python callable, written `module:function`; empty means none."""

ConnectionType = Literal[
    "STANDARD", "WEBSOCKET", "LEAFNODE", "LEAFNODE_WS", "MQTT", "MQTT_WS", "IN_PROCESS"
]
"""How a client reached the server, in the spelling of user JWTs."""


class SubjectPermissions(Table, frozen=True, kw_only=True):
    """The subjects that one direction (publish or subscribe) allows and denies."""

    allow: tuple[str, ...] = ()
    """Subjects, or `subject queue` pairs for subscriptions; empty allows everything."""
    deny: tuple[str, ...] = ()
    """Subjects, or `subject queue` pairs; a denial outweighs every allowance."""


class AllowResponses(Table, frozen=True, kw_only=True):
    """Grant publishing to the reply subjects of received messages."""

    max: int = 1
    """How many messages may answer one request; negative means any number."""
    expires_s: float = 120.0
    """How long the grant lives, in seconds; negative means as long as the connection."""


class Permissions(Table, frozen=True, kw_only=True):
    """The subjects that a user may publish and subscribe to."""

    publish: SubjectPermissions = SubjectPermissions()
    """Subjects that the user may publish to."""
    subscribe: SubjectPermissions = SubjectPermissions()
    """Subjects that the user may subscribe to."""
    allow_responses: AllowResponses | None = None
    """When set, replies are allowed, and nothing else unless `publish.allow` names it."""


class User(Table, frozen=True, kw_only=True):
    """One user: a name with a password, an nkey, or a certificate's identity."""

    user: str = ""
    """User name; empty when `nkey` identifies the user."""
    password: Secret = ""
    """Password, plain or a bcrypt hash beginning `$2`."""
    nkey: str = ""
    """Public user nkey (begins with `U`); empty when `user` names the user."""
    permissions: Permissions | None = None
    """The user's permissions; unset takes the enclosing `default_permissions`."""
    allowed_connection_types: tuple[ConnectionType, ...] = ()
    """How this user may connect; empty allows every way."""
    proxy_required: bool = False
    """Refuse this user but through a proxy of `proxies.trusted`."""
    messages_per_s: Count = 0
    """Messages a second that the user's clients may publish together; 0 means no limit."""
    bytes_per_s: Count = 0
    """Bytes of these a second; 0 means no limit."""


class AuthCallout(Table, frozen=True, kw_only=True):
    """A service of yours that decides on clients, asked by NATS messages."""

    issuer: str = ""
    """Public account nkey (begins with `A`) that signs the service's users; empty means none."""
    account: str = ""
    """Account that the service is in; empty means `$G`."""
    auth_users: tuple[str, ...] = ()
    """Configured users (names or nkeys) of the service itself, which no callout decides on."""
    xkey: str = ""
    """Public curve nkey (begins with `X`) of the service; with it requests are encrypted."""
    allowed_accounts: tuple[str, ...] = ()
    """Accounts whose configured users it also decides on; empty means all accounts."""


class Authorization(Table, frozen=True, kw_only=True):
    """The users that may connect when no accounts are needed, and the rules shared by all."""

    ZERO_IS_DEFAULT = ("hook_timeout_s",)

    user: str = ""
    """The only user's name; not together with `token` or `users`."""
    password: Secret = ""
    """The only user's password, plain or bcrypt."""
    token: Secret = ""
    """A token that clients send instead of a user name, plain or bcrypt."""
    proxy_required: bool = False
    """Refuse clients with this user or token but through a proxy of `proxies.trusted`."""
    timeout_s: Seconds = 0.0
    """Seconds a client has to authenticate; 0 means 2, or `tls.timeout_s` + 1 with TLS."""
    users: tuple[User, ...] = ()
    """Users of the global account."""
    default_permissions: Permissions | None = None
    """Permissions of users that have none of their own."""
    no_auth_user: str = ""
    """The user that a client without credentials becomes; empty refuses such clients."""
    auth_callout: AuthCallout = AuthCallout()
    """A service that decides on clients."""
    hook: HookName = ""
    """Async callable `module:function` that decides on every CONNECT; failing refuses."""
    hook_timeout_s: Seconds = 2.0
    """Seconds the hook has before the client is refused; 0 means the default."""
    hook_concurrency: Annotated[int, Meta(ge=1)] = 64
    """Most hook calls in flight; further clients wait within their time-out."""


class Interceptors(Table, frozen=True, kw_only=True):
    """Python functions that see what clients do, and may change or refuse it."""

    connect: HookName = ""
    """Function `module:function` asked before a client is let in; failing refuses."""
    subscribe: HookName = ""
    """Function asked before a subscription is made."""
    publish: HookName = ""
    """Function asked before a message is routed."""
    deliver: HookName = ""
    """Function asked before a message is written to a client."""
    timeout_s: Annotated[float, Meta(gt=0)] = 1.0
    """Seconds that an async function may take before what it was asked about is refused."""
    max_pending: Annotated[int, Meta(ge=1)] = 64
    """Most pending answers per client and direction; above it, the senders wait."""


class AccountLimits(Table, frozen=True, kw_only=True):
    """The limits of one account; negative means unlimited."""

    max_connections: int = -1
    """Most client connections of the account."""
    max_subscriptions: int = -1
    """Most subscriptions per connection of the account."""
    max_payload_bytes: int = -1
    """Largest message, in bytes, header included."""
    max_leafnodes: int = -1
    """Most links of leaf nodes to the account."""
    messages_per_s: Count = 0
    """Messages a second that the account's clients may publish together; 0 means no limit."""
    bytes_per_s: Count = 0
    """Bytes of these a second; 0 means no limit."""


class Export(Table, frozen=True, kw_only=True):
    """The stream or service that an account offers: exactly one of `stream` and `service`."""

    stream: str = ""
    """Subject whose messages others may import."""
    service: str = ""
    """Subject that answers the requests of others."""
    accounts: tuple[str, ...] = ()
    """Accounts that may import; empty makes the export public."""
    response_type: Literal["singleton", "stream", "chunked"] = "singleton"
    """How many responses one service request may have."""
    response_threshold_s: Seconds = 0.0
    """Seconds until an unanswered service request is forgotten; 0 means 120."""
    account_token_position: Count = 0
    """Position (from 1) of the token that must be the importing account; 0 means none."""
    latency_subject: str = ""
    """Subject that the latencies of a service are published to; empty means none."""
    latency_sampling_percent: Annotated[int, Meta(ge=0, le=100)] = 100
    """How many of a hundred requests are measured; 0: those whose headers ask for a trace."""
    allow_trace: bool = False
    """Whether traces of requests go on in the exporter's account; for a service."""


class ImportSource(Table, frozen=True, kw_only=True):
    """Where an import comes from."""

    account: str
    """Exporting account."""
    subject: str
    """Subject in the exporting account."""


class Import(Table, frozen=True, kw_only=True):
    """The import from another account: exactly one of `stream` and `service`."""

    stream: ImportSource | None = None
    """Stream that is delivered to this account."""
    service: ImportSource | None = None
    """Service that this account may request."""
    prefix: str = ""
    """Subject prefix that a stream's messages get; not together with `to`."""
    to: str = ""
    """Local subject of the import; empty keeps the exporter's subject."""
    share: bool = False
    """Send the service a description of the requesting connection."""
    allow_trace: bool = False
    """Whether traces of messages go on in the importer's account; for a stream."""


class MappingDestination(Table, frozen=True, kw_only=True):
    """One place that a mapped subject goes to."""

    destination: str
    """Destination subject; may use `{{wildcard(n)}}`, `{{partition(n,…)}}` and the like."""
    weight_percent: Annotated[int, Meta(ge=0, le=100)] = 100
    """Share of the messages, in per cent."""
    cluster: str = ""
    """Cluster on whose servers this destination holds, in place of those without one."""


class Mapping(Table, frozen=True, kw_only=True):
    """Rewrite the subject of published messages before they are matched."""

    source: str
    """Subject to map; may have wildcards."""
    destinations: tuple[MappingDestination, ...] = ()
    """Weighted destinations; what their weights leave of 100 % stays unmapped."""


class MessageTrace(Table, frozen=True, kw_only=True):
    """Traces of messages that come with a sampled `traceparent` header."""

    destination: str = ""
    """Subject that they go to; empty turns them off."""
    sampling_percent: Annotated[int, Meta(ge=1, le=100)] = 100
    """How many of a hundred messages are traced."""


class Account(Table, frozen=True, kw_only=True):
    """One isolated subject space with its users."""

    name: str
    """Account name; `$G` and `$SYS` are taken."""
    nkey: str = ""
    """Public account nkey (begins with `A`)."""
    users: tuple[User, ...] = ()
    """Users of this account."""
    exports: tuple[Export, ...] = ()
    """Streams and services offered to other accounts."""
    imports: tuple[Import, ...] = ()
    """Streams and services taken from other accounts."""
    mappings: tuple[Mapping, ...] = ()
    """Subject mappings inside this account."""
    limits: AccountLimits = AccountLimits()
    """Connections, subscriptions and bytes that the account may use."""
    jetstream: AccountJetStream = AccountJetStream()
    """Streams, consumers and bytes that the account may use in JetStream."""
    msg_trace: MessageTrace = MessageTrace()
    """Traces that headers of OpenTelemetry ask for."""
    default_permissions: Permissions | None = None
    """Permissions of this account's users that have none of their own."""


class ClientTls(Table, frozen=True, kw_only=True):
    """Encryption of what this server connects to."""

    cert_file: str = ""
    """Path of the certificate chain shown to the other server, in PEM; empty shows none."""
    key_file: str = ""
    """Path of its private key in PEM."""
    ca_file: str = ""
    """Path of the authorities of its certificate; empty takes the system's."""
    curve_preferences: tuple[str, ...] = ()
    """The curve of the key exchange, such as `CurveP256`; none or several: OpenSSL chooses."""
    insecure: bool = False
    """Accept any certificate, of any name; only for tests."""


class Operator(Table, frozen=True, kw_only=True):
    """Operator mode: accounts and users come as signed JWTs."""

    ZERO_IS_DEFAULT = ("resolver_interval_s",)

    jwts: tuple[str, ...] = ()
    """Operator JWTs, or paths of files that hold one; empty turns operator mode off."""
    trusted_keys: tuple[str, ...] = ()
    """Public operator nkeys that may sign accounts, instead of `jwts`."""
    resolver: Literal["", "memory", "directory", "url"] = ""
    """Where account JWTs are found; empty means `memory` when `resolver_preload` has any."""
    resolver_directory: str = ""
    """Directory of `<account key>.jwt` files, for the directory resolver."""
    resolver_url: str = ""
    """Web address of account JWTs, to which the account key is added, for the URL resolver."""
    resolver_tls: ClientTls = ClientTls()
    """Encryption of the URL resolver's requests, if its address begins with `https`."""
    resolver_interval_s: Seconds = 120.0
    """Seconds between looks at accounts whose token, or an import's, has changed; 0: default."""
    resolver_max_accounts: Count = 0
    """Most account JWTs in the directory; 0 means no limit."""
    resolver_allow_delete: bool = False
    """Accept an operator's signed requests to delete accounts in the directory."""
    resolver_hard_delete: bool = False
    """Remove the files of deleted accounts, instead of renaming them."""
    default_sentinel: str = ""
    """JWT of a bearer user, for clients without one; an auth callout then decides on them."""
    resolver_preload: dict[str, str] = {}  # noqa: RUF012 - msgspec copies the default
    """Account JWTs by account key, known from the start."""
    resolver_pinned_accounts: tuple[str, ...] = ()
    """When set, only these account keys (and the system account) may connect."""


INSECURE_CIPHER_SUITES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
}
"""Suites that need `allow_insecure_cipher_suites`, with OpenSSL's names."""


class TlsCertificate(Table, frozen=True, kw_only=True):
    """One of several certificates of a listener."""

    cert_file: str
    """Path of the certificate chain in PEM."""
    key_file: str
    """Path of its private key in PEM."""


class Tls(Table, frozen=True, kw_only=True):
    """Encryption of a listener; setting `cert_file` turns it on."""

    ZERO_IS_DEFAULT = ("timeout_s",)

    cert_file: str = ""
    """Path of the certificate chain in PEM; empty means no TLS."""
    key_file: str = ""
    """Path of the private key in PEM."""
    certs: tuple[TlsCertificate, ...] = ()
    """Several certificates in place of `cert_file`, chosen by the server name of the client."""
    ca_file: str = ""
    """Path of the authorities that client certificates are checked against."""
    verify: bool = False
    """Require a client certificate that an authority of `ca_file` signed."""
    verify_and_map: bool = False
    """Require a client certificate, and take the user from it."""
    timeout_s: Seconds = 2.0
    """Seconds for the handshake; 0 means the default."""
    cipher_suites: tuple[str, ...] = ()
    """Cipher suites by their IANA names; empty takes the safe defaults."""
    allow_insecure_cipher_suites: bool = False
    """Accept suites without forward secrecy in `cipher_suites`."""
    curve_preferences: tuple[str, ...] = ()
    """The curve of the key exchange, such as `CurveP256`; none or several: OpenSSL chooses."""
    min_version: Literal["1.2", "1.3"] = "1.2"
    """Oldest TLS version that is accepted."""
    handshake_first: Literal["off", "on", "auto"] = "off"
    """Whether TLS begins before INFO; `auto` waits for a client that does so."""
    handshake_first_fallback_s: Seconds = 0.05
    """Seconds that `auto` waits for a ClientHello before it sends INFO."""
    connection_rate_limit: Count = 0
    """Most handshakes per second; 0 means no limit."""
    pinned_certs: tuple[str, ...] = ()
    """SHA-256 fingerprints (hex, of the public key) that a client certificate must have."""
    allow_non_tls: bool = False
    """Serve clients without TLS on the same port."""

    @property
    def enabled(self) -> bool:
        """Return whether this listener speaks TLS."""
        return bool(self.cert_file or self.certs)

    @property
    def pairs(self) -> tuple[TlsCertificate, ...]:
        """Return the certificates with their keys; the first one is for clients without a name."""
        if self.certs or not self.cert_file:
            return self.certs
        return (TlsCertificate(cert_file=self.cert_file, key_file=self.key_file),)
