"""The keywords of `midge.Server` with their types, for editors and type checkers.

Made by `python -m midge.server.config.reference keywords`; nothing reads it at run time.
"""

from collections import abc
from os import PathLike
from typing import Any, Literal, TypedDict

from msgspec import Struct

from midge.server.config.options import (
    Account,
    LeafRemote,
    LeafUser,
    Mapping,
    StreamTable,
    TlsCertificate,
    User,
)

class Keywords(TypedDict, total=False):
    """Every setting under its keywords; tables may be given whole."""

    auth_timeout: float
    """Seconds a client has to authenticate; 0 means 2, or `tls.timeout_s` + 1 with TLS."""
    auth_timeout_s: float
    http_port: int
    """Port for HTTP; 0 means none, -1 takes a free one."""
    websocket_port: int
    """Port for WebSocket clients; 0 means none, -1 takes a free one."""
    host: str
    """Address to bind; `0.0.0.0` opens the server to every network, of IPv6 too."""
    port: int
    """Port for clients; -1 or 0 takes a free one."""
    client_advertise: str
    """`host[:port]` that INFO names instead of the bound address; empty means the latter."""
    proxy_protocol: bool
    """Expect a PROXY protocol header at the beginning of connections; see `proxies.addresses`."""
    max_connections: int
    """Most client connections; 0 admits none."""
    max_connections_per_user: int
    """Most connections of one user; 0 means no limit."""
    max_connections_per_address: int
    """Most connections from one source address; 0 means no limit."""
    max_payload_bytes: int
    """Largest message, in bytes, header included; -1 means no limit, 0 the default."""
    max_payload: int
    max_control_line_bytes: int
    """Longest protocol line, in bytes, without verb and line end."""
    max_control_line: int
    max_pending_bytes: int
    """Most bytes that wait for one client before it is closed as a slow consumer."""
    max_pending: int
    max_subscriptions: int
    """Most subscriptions of one connection; 0 means no limit."""
    max_subscription_tokens: int
    """Most tokens in a subscription's subject; 0 means no limit."""
    max_closed_clients: int
    """How many closed connections the monitoring remembers."""
    write_deadline_s: float
    """Seconds that a client's socket has for the output that is pending when it falls behind."""
    write_deadline: float
    write_timeout_policy: Literal["close", "default", "retry"]
    """What happens then: `close`, or `retry` if the client took some of it; default `close`."""
    stall_producers: bool
    """Hold a fast producer back when a receiver is nearly full, instead of dropping."""
    header_support: bool
    """Allow clients to send and receive message headers."""
    ping_interval_s: float
    """Seconds between PINGs to a client that sends nothing."""
    ping_interval: float
    ping_max: int
    """Unanswered PINGs that make a connection stale."""
    queue_selection: Literal["random", "round_robin"]
    """Which member of a queue group gets the next message."""
    cache_max: int
    """Match results kept per account; 0 turns the cache off."""
    cache_sweep_to: int
    """Match results left when a full cache is swept."""
    exact_match: bool
    """Look literal subjects up in a dictionary before the trie is walked."""
    flush_timeout_s: float
    """Seconds that pending output may take when the server stops."""
    flush_timeout: float
    lame_duck_duration_s: float
    """Seconds over which lame duck mode closes the clients; at least 30."""
    lame_duck_duration: float
    lame_duck_grace_period_s: float
    """Seconds before lame duck mode closes the first client; less than the duration."""
    lame_duck_grace_period: float
    user: str
    """The only user's name; not together with `token` or `users`."""
    password: str
    """The only user's password, plain or bcrypt."""
    token: str
    """A token that clients send instead of a user name, plain or bcrypt."""
    proxy_required: bool
    """Refuse clients with this user or token but through a proxy of `proxies.trusted`."""
    users: abc.Sequence[User | abc.Mapping[str, Any]]
    """Users of the global account."""
    default_permissions: Any
    """Permissions of users that have none of their own."""
    no_auth_user: str
    """The user that a client without credentials becomes; empty refuses such clients."""
    hook: str
    """Async callable `module:function` that decides on every CONNECT; failing refuses."""
    hook_timeout_s: float
    """Seconds the hook has before the client is refused; 0 means the default."""
    hook_timeout: float
    hook_concurrency: int
    """Most hook calls in flight; further clients wait within their time-out."""
    debug: bool
    """Log what helps to find a fault."""
    trace: bool
    """Log every protocol line."""
    trace_verbose: bool
    """Log the protocol of the system account too."""
    logtime: bool
    """Begin `nats` lines with the time."""
    logtime_utc: bool
    """Write times in UTC instead of local time."""
    syslog: bool
    """Send the log to the syslog daemon of this machine, unless there is a file."""
    remote_syslog: str
    """Send the log to the syslog daemon at this URL: `udp://`, `tcp://` or `unix://`."""
    file_size_limit_bytes: int
    """Size at which the log file is rotated; 0 means never."""
    file_size_limit: int
    file_max_count: int
    """Log files kept, the current one included; 0 keeps all."""
    max_traced_message_bytes: int
    """Bytes of a payload that a trace shows; 0 means all."""
    max_traced_message: int
    max_lines_per_offender_per_s: int
    """Warnings about one peer per second, the rest is counted; 0 means no limit."""
    max_lines_per_offender_per: int
    connect_error_reports: int
    """Log every n-th failed attempt to reach another server, and each cause once; 0: default."""
    reconnect_error_reports: int
    """Likewise, after the link to that server has been up; 0: default."""
    server_name: str
    """Name in INFO and monitoring; empty takes the server id."""
    server_tags: abc.Sequence[str]
    """Words such as `az:1` in monitoring, by which system requests choose servers."""
    server_metadata: Any
    """Further texts that monitoring shows of the server, by name."""
    system_account: str
    """Account that gets the system's events; empty means `$SYS`."""
    server_workers: int | Literal["auto"]
    """Processes that share the clients; `auto` is one per CPU that this process may use."""
    server_busy_poll_us: int
    """Longest wait for a request without sleep, where that hardly costs CPU time; 0 means never."""
    listen_host: str
    listen_port: int
    listen_client_advertise: str
    listen_proxy_protocol: bool
    proxies_trusted: abc.Sequence[str]
    """Public nkeys of proxies that speak NATS; they sign the nonce in CONNECT's `proxy_sig`."""
    proxies_addresses: abc.Sequence[str]
    limits_max_connections: int
    limits_max_connections_per_user: int
    limits_max_connections_per_address: int
    limits_max_payload_bytes: int
    limits_max_control_line_bytes: int
    limits_max_pending_bytes: int
    limits_max_subscriptions: int
    limits_max_subscription_tokens: int
    limits_max_closed_clients: int
    limits_write_deadline_s: float
    limits_write_timeout_policy: Literal["close", "default", "retry"]
    limits_stall_producers: bool
    limits_header_support: bool
    keepalive_ping_interval_s: float
    keepalive_ping_max: int
    routing_queue_selection: Literal["random", "round_robin"]
    routing_cache_max: int
    routing_cache_sweep_to: int
    routing_exact_match: bool
    shutdown_flush_timeout_s: float
    shutdown_lame_duck_duration_s: float
    shutdown_lame_duck_grace_period_s: float
    logging_debug: bool
    logging_trace: bool
    logging_trace_verbose: bool
    logging_logtime: bool
    logging_logtime_utc: bool
    logging_file: str
    """Path of the log file, reopened on SIGUSR1; empty means standard error."""
    logging_syslog: bool
    logging_remote_syslog: str
    logging_format: Literal["auto", "human", "json", "nats"]
    """`auto` is `human` on a terminal and `json` elsewhere; `nats` is nats-server's form."""
    logging_file_size_limit_bytes: int
    logging_file_max_count: int
    logging_max_traced_message_bytes: int
    logging_max_lines_per_offender_per_s: int
    logging_connect_error_reports: int
    logging_reconnect_error_reports: int
    authorization_user: str
    authorization_password: str
    authorization_token: str
    authorization_proxy_required: bool
    authorization_timeout_s: float
    authorization_users: abc.Sequence[User | abc.Mapping[str, Any]]
    authorization_default_permissions: Any
    authorization_no_auth_user: str
    authorization_auth_callout_issuer: str
    """Public account nkey (begins with `A`) that signs the service's users; empty means none."""
    authorization_auth_callout_account: str
    """Account that the service is in; empty means `$G`."""
    authorization_auth_callout_auth_users: abc.Sequence[str]
    """Configured users (names or nkeys) of the service itself, which no callout decides on."""
    authorization_auth_callout_xkey: str
    """Public curve nkey (begins with `X`) of the service; with it requests are encrypted."""
    authorization_auth_callout_allowed_accounts: abc.Sequence[str]
    """Accounts whose configured users it also decides on; empty means all accounts."""
    authorization_hook: str
    authorization_hook_timeout_s: float
    authorization_hook_concurrency: int
    interceptors_connect: str
    """Function `module:function` asked before a client is let in; failing refuses."""
    interceptors_subscribe: str
    """Function asked before a subscription is made."""
    interceptors_publish: str
    """Function asked before a message is routed."""
    interceptors_deliver: str
    """Function asked before a message is written to a client."""
    interceptors_timeout_s: float
    """Seconds that an async function may take before what it was asked about is refused."""
    interceptors_max_pending: int
    """Most pending answers per client and direction; above it, the senders wait."""
    accounts: abc.Sequence[Account | abc.Mapping[str, Any]]
    """Isolated subject spaces with their users."""
    mappings: abc.Sequence[Mapping | abc.Mapping[str, Any]]
    """Subject mappings of the global account."""
    operator_jwts: abc.Sequence[str]
    """Operator JWTs, or paths of files that hold one; empty turns operator mode off."""
    operator_trusted_keys: abc.Sequence[str]
    """Public operator nkeys that may sign accounts, instead of `jwts`."""
    operator_resolver: Literal["", "directory", "memory", "url"]
    """Where account JWTs are found; empty means `memory` when `resolver_preload` has any."""
    operator_resolver_directory: str
    """Directory of `<account key>.jwt` files, for the directory resolver."""
    operator_resolver_url: str
    """Web address of account JWTs, to which the account key is added, for the URL resolver."""
    operator_resolver_tls_cert_file: str
    """Path of the certificate chain shown to the other server, in PEM; empty shows none."""
    operator_resolver_tls_key_file: str
    """Path of its private key in PEM."""
    operator_resolver_tls_ca_file: str
    """Path of the authorities of its certificate; empty takes the system's."""
    operator_resolver_tls_curve_preferences: abc.Sequence[str]
    """The curve of the key exchange, such as `CurveP256`; none or several: OpenSSL chooses."""
    operator_resolver_tls_insecure: bool
    """Accept any certificate, of any name; only for tests."""
    operator_resolver_interval_s: float
    """Seconds between looks at accounts whose token, or an import's, has changed; 0: default."""
    operator_resolver_max_accounts: int
    """Most account JWTs in the directory; 0 means no limit."""
    operator_resolver_allow_delete: bool
    """Accept an operator's signed requests to delete accounts in the directory."""
    operator_resolver_hard_delete: bool
    """Remove the files of deleted accounts, instead of renaming them."""
    operator_default_sentinel: str
    """JWT of a bearer user, for clients without one; an auth callout then decides on them."""
    operator_resolver_preload: Any
    """Account JWTs by account key, known from the start."""
    operator_resolver_pinned_accounts: abc.Sequence[str]
    """When set, only these account keys (and the system account) may connect."""
    tls_cert_file: str
    """Path of the certificate chain in PEM; empty means no TLS."""
    tls_key_file: str
    """Path of the private key in PEM."""
    tls_certs: abc.Sequence[TlsCertificate | abc.Mapping[str, Any]]
    """Several certificates in place of `cert_file`, chosen by the server name of the client."""
    tls_ca_file: str
    """Path of the authorities that client certificates are checked against."""
    tls_verify: bool
    """Require a client certificate that an authority of `ca_file` signed."""
    tls_verify_and_map: bool
    """Require a client certificate, and take the user from it."""
    tls_timeout_s: float
    """Seconds for the handshake; 0 means the default."""
    tls_cipher_suites: abc.Sequence[str]
    """Cipher suites by their IANA names; empty takes the safe defaults."""
    tls_allow_insecure_cipher_suites: bool
    """Accept suites without forward secrecy in `cipher_suites`."""
    tls_curve_preferences: abc.Sequence[str]
    """The curve of the key exchange, such as `CurveP256`; none or several: OpenSSL chooses."""
    tls_min_version: Literal["1.2", "1.3"]
    """Oldest TLS version that is accepted."""
    tls_handshake_first: Literal["auto", "off", "on"]
    """Whether TLS begins before INFO; `auto` waits for a client that does so."""
    tls_handshake_first_fallback_s: float
    """Seconds that `auto` waits for a ClientHello before it sends INFO."""
    tls_connection_rate_limit: int
    """Most handshakes per second; 0 means no limit."""
    tls_pinned_certs: abc.Sequence[str]
    """SHA-256 fingerprints (hex, of the public key) that a client certificate must have."""
    tls_allow_non_tls: bool
    """Serve clients without TLS on the same port."""
    websocket_host: str
    """Address to bind."""
    websocket_advertise: str
    """`host[:port]` announced to clients; empty means the bound address."""
    websocket_proxy_protocol: bool
    """Expect a PROXY protocol header, as `listen.proxy_protocol` does."""
    websocket_tls_cert_file: str
    """Path of the certificate chain in PEM; empty means no TLS."""
    websocket_tls_key_file: str
    """Path of the private key in PEM."""
    websocket_tls_certs: abc.Sequence[TlsCertificate | abc.Mapping[str, Any]]
    """Several certificates in place of `cert_file`, chosen by the server name of the client."""
    websocket_tls_ca_file: str
    """Path of the authorities that client certificates are checked against."""
    websocket_tls_verify: bool
    """Require a client certificate that an authority of `ca_file` signed."""
    websocket_tls_verify_and_map: bool
    """Require a client certificate, and take the user from it."""
    websocket_tls_timeout_s: float
    """Seconds for the handshake; 0 means the default."""
    websocket_tls_cipher_suites: abc.Sequence[str]
    """Cipher suites by their IANA names; empty takes the safe defaults."""
    websocket_tls_allow_insecure_cipher_suites: bool
    """Accept suites without forward secrecy in `cipher_suites`."""
    websocket_tls_curve_preferences: abc.Sequence[str]
    """The curve of the key exchange, such as `CurveP256`; none or several: OpenSSL chooses."""
    websocket_tls_min_version: Literal["1.2", "1.3"]
    """Oldest TLS version that is accepted."""
    websocket_tls_handshake_first: Literal["auto", "off", "on"]
    """Whether TLS begins before INFO; `auto` waits for a client that does so."""
    websocket_tls_handshake_first_fallback_s: float
    """Seconds that `auto` waits for a ClientHello before it sends INFO."""
    websocket_tls_connection_rate_limit: int
    """Most handshakes per second; 0 means no limit."""
    websocket_tls_pinned_certs: abc.Sequence[str]
    """SHA-256 fingerprints (hex, of the public key) that a client certificate must have."""
    websocket_tls_allow_non_tls: bool
    """Serve clients without TLS on the same port."""
    websocket_no_tls: bool
    """Serve without TLS; must be said on purpose when `tls` is not set."""
    websocket_same_origin: bool
    """Refuse browsers whose page came from another host."""
    websocket_allowed_origins: abc.Sequence[str]
    """Origins that browsers may come from; empty allows every origin."""
    websocket_handshake_timeout_s: float
    """Seconds for the handshakes of TLS and HTTP; 0 means the default."""
    websocket_ping_interval_s: float
    """Seconds between PINGs to a silent client; 0 takes `keepalive.ping_interval_s`."""
    websocket_compression: bool
    """Offer permessage-deflate."""
    websocket_headers: Any
    """Headers added to the upgrade response."""
    websocket_user_cookie: str
    """Cookie that holds the user name."""
    websocket_pass_cookie: str
    """Cookie that holds the password."""
    websocket_token_cookie: str
    """Cookie that holds the token."""
    websocket_jwt_cookie: str
    """Cookie that holds the user JWT; needs operator mode."""
    websocket_authorization_user: str
    """The only user's name of this listener; not where there are users or accounts' users."""
    websocket_authorization_password: str
    """The only user's password, plain or bcrypt."""
    websocket_authorization_token: str
    """A token that clients send, plain or bcrypt; outweighs `user`."""
    websocket_authorization_timeout_s: float
    """Seconds a client has to authenticate; 0 means as many as at the other listener."""
    websocket_authorization_no_auth_user: str
    """The user that a client without credentials becomes; a user of `authorization` or accounts."""
    monitoring_host: str
    """Address to bind; empty takes `listen.host`."""
    monitoring_http_port: int
    monitoring_https_port: int
    """Port for HTTPS with the certificates of `tls`; 0 means none, -1 takes a free one."""
    monitoring_base_path: str
    """Path under which the pages are served, such as `/nats`."""
    monitoring_max_connections: int
    """Most HTTP connections at a time; the longest idle one makes room for another."""
    monitoring_idle_timeout_s: float
    """Seconds that a connection may take until its next request has come whole."""
    monitoring_max_jetstream_series: int
    """Most streams, and most durable consumers, that `/metrics` lists by name."""
    monitoring_otel: bool
    """Report OpenTelemetry spans of messages with a sampled `traceparent`; needs no port."""
    monitoring_console_enabled: bool
    """Serve `/console`."""
    monitoring_console_token: str
    """Token that shows contents and unlocks changes; empty keeps both locked."""
    jetstream_enabled: bool
    """Offer JetStream to clients."""
    jetstream_store_dir: str
    """Directory of the file streams; empty means `nats/jetstream` in the system's temporary one."""
    jetstream_in_memory: bool
    """Keep file streams in memory too, for tests; nothing survives the server."""
    jetstream_ignore_nats_streams: bool
    """Start although `store_dir` holds streams of nats-server that midge does not read."""
    jetstream_domain: str
    """Name by which leaf nodes distinguish this JetStream from another; empty means none."""
    jetstream_max_memory_bytes: int
    """Most bytes of memory streams; -1 means three quarters of the machine's or container's."""
    jetstream_max_file_bytes: int
    """Most bytes of file streams; -1 means three quarters of free disk and store together."""
    jetstream_sync_interval: str
    """`always` acknowledges when the disk has it; a duration syncs that often, as nats-server."""
    jetstream_encryption_key: str
    """Key that file streams are encrypted with, best 32 random bytes or more; empty means none."""
    jetstream_prev_encryption_key: str
    """Key before `encryption_key`, needed for the first start with a new one."""
    jetstream_cipher: Literal["aes", "chacha"]
    """Cipher of file streams: ChaCha20, or AES-256 where the processor has it."""
    jetstream_strict: bool
    """Refuse unknown fields in API requests."""
    jetstream_max_buffered_messages: int
    """Most messages of one stream that wait to be stored; 0 means 400,000."""
    jetstream_max_buffered_bytes: int
    """Most bytes of one stream that wait to be stored; 0 means 128 MiB."""
    jetstream_request_queue_limit: int
    """Most API requests that may wait; 0 means 10,000."""
    jetstream_max_concurrent_io: int
    """Accepted for nats-server's sake; one writer serves all streams here."""
    jetstream_unique_tag: str
    """Accepted for nats-server's sake; it places replicas, which midge does not have."""
    jetstream_ack_format: Literal["v1", "v2"]
    """Format of the ack and flow control subjects; `v2` is nats-server's `js_ack_fc_v2`."""
    jetstream_limits_max_ack_pending: int
    """Most unacknowledged messages of a consumer, and their default; 0 means no limit."""
    jetstream_limits_max_request_batch: int
    """Most messages that one pull request may ask for; 0 means no limit."""
    jetstream_limits_max_ha_assets: int
    """Accepted for nats-server's sake; midge has no replicated streams."""
    jetstream_limits_duplicate_window_s: float
    """Longest duplicate window of a stream; 0 means no limit."""
    jetstream_limits_max_batch_inflight_per_stream: int
    """Most atomic batches that may be open in one stream."""
    jetstream_limits_max_batch_inflight_total: int
    """Most atomic batches that may be open in the server."""
    jetstream_limits_max_batch_messages: int
    """Most messages of an atomic batch."""
    jetstream_limits_max_batch_timeout_s: float
    """Seconds after which an idle atomic batch is abandoned."""
    leafnodes_host: str
    """Address to bind for leaf nodes."""
    leafnodes_port: int
    """Port for leaf nodes; 0 means none, -1 takes a free one."""
    leafnodes_advertise: str
    """`host:port` announced to leaf nodes; empty means the bound address."""
    leafnodes_no_advertise: bool
    """Send leaf nodes no address to come back to."""
    leafnodes_proxy_protocol: bool
    """Expect a PROXY protocol header, as `listen.proxy_protocol` does."""
    leafnodes_authorization_user: str
    """The only user's name; not together with `users`."""
    leafnodes_authorization_password: str
    """The only user's password, plain or bcrypt."""
    leafnodes_authorization_nkey: str
    """The only user's public nkey, in place of name and password."""
    leafnodes_authorization_account: str
    """Account that the links belong to; empty means `$G`."""
    leafnodes_authorization_users: abc.Sequence[LeafUser | abc.Mapping[str, Any]]
    """Users, each perhaps of another account."""
    leafnodes_authorization_proxy_required: bool
    """Refuse these users but through a proxy of `proxies.trusted`."""
    leafnodes_authorization_timeout_s: float
    """Seconds that a leaf node has to authenticate; 0 means 2."""
    leafnodes_tls_cert_file: str
    """Path of the certificate chain in PEM; empty means no TLS."""
    leafnodes_tls_key_file: str
    """Path of the private key in PEM."""
    leafnodes_tls_certs: abc.Sequence[TlsCertificate | abc.Mapping[str, Any]]
    """Several certificates in place of `cert_file`, chosen by the server name of the client."""
    leafnodes_tls_ca_file: str
    """Path of the authorities that client certificates are checked against."""
    leafnodes_tls_verify: bool
    """Require a client certificate that an authority of `ca_file` signed."""
    leafnodes_tls_verify_and_map: bool
    """Require a client certificate, and take the user from it."""
    leafnodes_tls_timeout_s: float
    """Seconds for the handshake; 0 means the default."""
    leafnodes_tls_cipher_suites: abc.Sequence[str]
    """Cipher suites by their IANA names; empty takes the safe defaults."""
    leafnodes_tls_allow_insecure_cipher_suites: bool
    """Accept suites without forward secrecy in `cipher_suites`."""
    leafnodes_tls_curve_preferences: abc.Sequence[str]
    """The curve of the key exchange, such as `CurveP256`; none or several: OpenSSL chooses."""
    leafnodes_tls_min_version: Literal["1.2", "1.3"]
    """Oldest TLS version that is accepted."""
    leafnodes_tls_handshake_first: Literal["auto", "off", "on"]
    """Whether TLS begins before INFO; `auto` waits for a client that does so."""
    leafnodes_tls_handshake_first_fallback_s: float
    """Seconds that `auto` waits for a ClientHello before it sends INFO."""
    leafnodes_tls_connection_rate_limit: int
    """Most handshakes per second; 0 means no limit."""
    leafnodes_tls_pinned_certs: abc.Sequence[str]
    """SHA-256 fingerprints (hex, of the public key) that a client certificate must have."""
    leafnodes_tls_allow_non_tls: bool
    """Serve clients without TLS on the same port."""
    leafnodes_min_version: str
    """Oldest version of a leaf node's server, such as `2.10.0`; empty takes all."""
    leafnodes_compression: Literal["accept", "off", "s2_auto", "s2_best", "s2_better", "s2_fast"]
    """S2 compression: `accept` does what the other server asks for; the levels write the same."""
    leafnodes_compression_rtt_s: abc.Sequence[float]
    """Longest round trips of `s2_auto` for no compression, `s2_fast` and `s2_better`."""
    leafnodes_isolate_interest: bool
    """Do not announce the interest of one leaf node to the others."""
    leafnodes_reconnect_s: float
    """Seconds before a remote that was lost, or not reached, is tried again; 0: default."""
    leafnodes_write_deadline_s: float
    """Seconds that a link's socket has for pending output; 0 means `limits.write_deadline_s`."""
    leafnodes_write_timeout_policy: Literal["close", "default", "retry"]
    """What happens then, as `limits.write_timeout_policy` says; default `retry`."""
    leafnodes_remotes: abc.Sequence[LeafRemote | abc.Mapping[str, Any]]
    """Servers to connect to."""
    cluster_name: str
    """Name of the cluster, the same on all of its servers; empty adopts the others' name."""
    cluster_host: str
    """Address to bind for routes."""
    cluster_port: int
    """Port for routes; 0 means no cluster, -1 takes a free one."""
    cluster_advertise: str
    """`host:port` announced to the other servers; empty means the bound address."""
    cluster_no_advertise: bool
    """Announce no addresses of servers to clients: neither others' here, nor this one's there."""
    cluster_routes: abc.Sequence[str]
    """Servers to connect to: `nats-route://user:password@host:6222`; the others are learnt."""
    cluster_authorization_user: str
    """User name that other servers give."""
    cluster_authorization_password: str
    """Password of that user, plain or bcrypt."""
    cluster_authorization_timeout_s: float
    """Seconds that a server has to authenticate; 0 means 2."""
    cluster_permissions_imports_allow: abc.Sequence[str]
    """Subjects, or `subject queue` pairs for subscriptions; empty allows everything."""
    cluster_permissions_imports_deny: abc.Sequence[str]
    """Subjects, or `subject queue` pairs; a denial outweighs every allowance."""
    cluster_permissions_exports_allow: abc.Sequence[str]
    """Subjects, or `subject queue` pairs for subscriptions; empty allows everything."""
    cluster_permissions_exports_deny: abc.Sequence[str]
    """Subjects, or `subject queue` pairs; a denial outweighs every allowance."""
    cluster_tls_cert_file: str
    """Path of the certificate chain in PEM; empty means no TLS."""
    cluster_tls_key_file: str
    """Path of the private key in PEM."""
    cluster_tls_certs: abc.Sequence[TlsCertificate | abc.Mapping[str, Any]]
    """Several certificates in place of `cert_file`, chosen by the server name of the client."""
    cluster_tls_ca_file: str
    """Path of the authorities that client certificates are checked against."""
    cluster_tls_verify: bool
    """Require a client certificate that an authority of `ca_file` signed."""
    cluster_tls_verify_and_map: bool
    """Require a client certificate, and take the user from it."""
    cluster_tls_timeout_s: float
    """Seconds for the handshake; 0 means the default."""
    cluster_tls_cipher_suites: abc.Sequence[str]
    """Cipher suites by their IANA names; empty takes the safe defaults."""
    cluster_tls_allow_insecure_cipher_suites: bool
    """Accept suites without forward secrecy in `cipher_suites`."""
    cluster_tls_curve_preferences: abc.Sequence[str]
    """The curve of the key exchange, such as `CurveP256`; none or several: OpenSSL chooses."""
    cluster_tls_min_version: Literal["1.2", "1.3"]
    """Oldest TLS version that is accepted."""
    cluster_tls_handshake_first: Literal["auto", "off", "on"]
    """Whether TLS begins before INFO; `auto` waits for a client that does so."""
    cluster_tls_handshake_first_fallback_s: float
    """Seconds that `auto` waits for a ClientHello before it sends INFO."""
    cluster_tls_connection_rate_limit: int
    """Most handshakes per second; 0 means no limit."""
    cluster_tls_pinned_certs: abc.Sequence[str]
    """SHA-256 fingerprints (hex, of the public key) that a client certificate must have."""
    cluster_tls_allow_non_tls: bool
    """Serve clients without TLS on the same port."""
    cluster_check_known_urls: bool
    """Admit a server only if a DNS name in its certificate is the host of one of `routes`."""
    cluster_compression: Literal["accept", "off", "s2_auto", "s2_best", "s2_better", "s2_fast"]
    """S2 compression of routes; see `leafnodes.compression`."""
    cluster_compression_rtt_s: abc.Sequence[float]
    """Round trips of `s2_auto`; see `leafnodes.compression_rtt_s`."""
    cluster_pool_size: int
    cluster_accounts: abc.Sequence[str]
    cluster_connect_retries: int
    cluster_connect_backoff: bool
    """Double the time between attempts, up to 30 seconds."""
    cluster_ping_interval_s: float
    """Seconds between PINGs on routes; 0 means that of clients, and never more than 30."""
    cluster_write_deadline_s: float
    """Seconds that a route's socket has for pending output; 0 means `limits.write_deadline_s`."""
    cluster_write_timeout_policy: Literal["close", "default", "retry"]
    """What happens then, as `limits.write_timeout_policy` says; default `retry`."""
    recorder_directory: str
    """Directory of the recording; empty means none."""
    recorder_roll_size_bytes: int
    """Size at which a segment is closed and the next one begun."""
    recorder_roll_age_s: float
    """Age in seconds at which a segment is closed, however small."""
    recorder_retention_age_s: float
    """Age in seconds at which segments are deleted; 0 keeps them."""
    recorder_retention_bytes: int
    """Total size above which the oldest segments are deleted; 0 keeps them."""
    recorder_subjects_allow: abc.Sequence[str]
    """Subjects to record; empty records every subject."""
    recorder_subjects_deny: abc.Sequence[str]
    """Subjects not to record; outweighs `subjects_allow`."""
    recorder_payload_allow: abc.Sequence[str]
    """Subjects whose payloads are kept; empty keeps every payload."""
    recorder_payload_deny: abc.Sequence[str]
    """Subjects whose payloads are left out; outweighs `payload_allow`."""
    recorder_queue_max: int
    """Rows that may wait for the writer; further rows are dropped and counted."""
    pipeline_records_directory: str
    """Directory of the recording; empty means `recorder.directory`, or else `records`."""
    pipeline_lake_directory: str
    """Path or URI of the lake's tables; empty means `lake`."""
    pipeline_master: str
    """Spark master."""
    pipeline_spark: Any
    """More of Spark's configuration, by its own names."""
    pipeline_prefix_tokens: int
    """Tokens of a subject that make its prefix."""
    pipeline_window_s: int
    """Length in seconds of the windows that traffic is summed up in."""
    pipeline_late_after_s: float
    """Seconds that the watermark stays behind the newest message."""
    pipeline_request_timeout_s: float
    """Seconds after a request in which a message to its reply subject counts as the reply."""
    pipeline_max_files_per_batch: int
    """Most segments that one batch takes."""
    pipeline_trigger_interval_s: float
    """Seconds between two looks of `stream` for new segments."""
    pipeline_gold_interval_s: float
    """Least seconds between two rebuilds of the gold tables by `stream`."""
    pipeline_keep_days: float
    """Days before the newest one that the lake keeps; 0 keeps all."""
    pipeline_match_strategy: Literal["auto", "broadcast", "shuffle"]
    """How messages meet subscriptions."""
    pipeline_broadcast_max_patterns: int
    """Most patterns that `auto` broadcasts."""
    tables: abc.Sequence[StreamTable | abc.Mapping[str, Any]]
    """Streams whose messages a process of the server puts into Delta tables."""
    process_pid_file: str
    """File that holds the process id; empty means none."""
    process_ports_file_dir: str
    """Directory for the `<executable>_<pid>.ports` file; empty means none."""
    server: abc.Mapping[str, Any] | Struct
    listen: abc.Mapping[str, Any] | Struct
    proxies: abc.Mapping[str, Any] | Struct
    limits: abc.Mapping[str, Any] | Struct
    keepalive: abc.Mapping[str, Any] | Struct
    routing: abc.Mapping[str, Any] | Struct
    shutdown: abc.Mapping[str, Any] | Struct
    logging: abc.Mapping[str, Any] | Struct
    authorization: abc.Mapping[str, Any] | Struct
    operator: abc.Mapping[str, Any] | Struct
    tls: abc.Mapping[str, Any] | Struct
    websocket: abc.Mapping[str, Any] | Struct
    monitoring: abc.Mapping[str, Any] | Struct
    jetstream: bool | str | PathLike[str] | abc.Mapping[str, Any] | Struct
    leafnodes: abc.Mapping[str, Any] | Struct
    cluster: abc.Mapping[str, Any] | Struct
    recorder: abc.Mapping[str, Any] | Struct
    pipeline: abc.Mapping[str, Any] | Struct
    process: abc.Mapping[str, Any] | Struct
