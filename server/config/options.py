"""Every setting of the server as frozen, typed tables with their defaults, units and meaning.

`Options()` is a server on 127.0.0.1:4222 with the defaults. `midge.server.config.load` fills the
tables from a file, the environment and the command line; the same classes describe all three, the
documentation and the example file. A field's unit stands last in its name; the text under a field
is its documentation.
"""

from typing import Annotated, Literal

from msgspec import Meta

from midge.server.config.cluster import Cluster, ClusterAuthorization, ClusterPermissions
from midge.server.config.jetstream import AccountJetStream, JetStream, JetStreamLimits, StreamTable
from midge.server.config.leafnodes import (
    LeafAuthorization,
    LeafNodes,
    LeafRemote,
    LeafRemoteTls,
    LeafUser,
)
from midge.server.config.security import (
    Account,
    AccountLimits,
    AllowResponses,
    AuthCallout,
    Authorization,
    ClientTls,
    ConnectionType,
    Export,
    HookName,
    Import,
    ImportSource,
    Interceptors,
    Mapping,
    MappingDestination,
    Operator,
    Permissions,
    SubjectPermissions,
    Tls,
    TlsCertificate,
    User,
)
from midge.server.config.table import Count, Seconds, Secret, Table, WriteTimeout

__all__ = [
    "Account",
    "AccountJetStream",
    "AccountLimits",
    "AllowResponses",
    "AuthCallout",
    "Authorization",
    "ClientTls",
    "Cluster",
    "ClusterAuthorization",
    "ClusterPermissions",
    "ConnectionType",
    "Console",
    "Count",
    "Export",
    "HookName",
    "Import",
    "ImportSource",
    "Interceptors",
    "JetStream",
    "JetStreamLimits",
    "Keepalive",
    "LeafAuthorization",
    "LeafNodes",
    "LeafRemote",
    "LeafRemoteTls",
    "LeafUser",
    "Limits",
    "Listen",
    "Logging",
    "Mapping",
    "MappingDestination",
    "Monitoring",
    "Operator",
    "Options",
    "Permissions",
    "Pipeline",
    "Process",
    "Proxies",
    "Recorder",
    "Routing",
    "Seconds",
    "Secret",
    "ServerProcesses",
    "Shutdown",
    "StreamTable",
    "SubjectPermissions",
    "Table",
    "Tls",
    "TlsCertificate",
    "User",
    "WebSocket",
    "WebSocketAuthorization",
]

Port = Annotated[int, Meta(ge=-1, le=65535)]
Positive = Annotated[int, Meta(ge=1)]


class Listen(Table, frozen=True, kw_only=True):
    """Where clients connect."""

    host: str = "127.0.0.1"
    """Address to bind; `0.0.0.0` opens the server to every network, of IPv6 too."""
    port: Port = 4222
    """Port for clients; -1 or 0 takes a free one."""
    client_advertise: str = ""
    """`host[:port]` that INFO names instead of the bound address; empty means the latter."""
    proxy_protocol: bool = False
    """Expect a PROXY protocol header at the beginning of connections; see `proxies.addresses`."""


class Proxies(Table, frozen=True, kw_only=True):
    """The proxies in front of the server: those that name their clients, and those that sign."""

    trusted: tuple[str, ...] = ()
    """Public nkeys of proxies that speak NATS; they sign the nonce in CONNECT's `proxy_sig`."""
    addresses: tuple[str, ...] = ()
    """Addresses and networks (`10.0.0.0/8`) of the proxies, whose connections must begin with a
    header; other peers are served as they are. Empty means that every peer is a proxy."""


class Limits(Table, frozen=True, kw_only=True):
    """The bound of everything that a client can make grow."""

    ZERO_IS_DEFAULT = ("max_payload_bytes",)

    max_connections: Count = 65536
    """Most client connections; 0 admits none."""
    max_connections_per_user: Count = 0
    """Most connections of one user; 0 means no limit."""
    max_connections_per_address: Count = 0
    """Most connections from one source address; 0 means no limit."""
    max_payload_bytes: Annotated[int, Meta(ge=-1, le=1 << 30)] = 1 << 20
    """Largest message, in bytes, header included; -1 means no limit, 0 the default."""
    max_control_line_bytes: Annotated[int, Meta(ge=1, le=1 << 30)] = 4096
    """Longest protocol line, in bytes, without verb and line end."""
    max_pending_bytes: Positive = 64 << 20
    """Most bytes that wait for one client before it is closed as a slow consumer."""
    max_subscriptions: Count = 0
    """Most subscriptions of one connection; 0 means no limit."""
    max_subscription_tokens: Annotated[int, Meta(ge=0, le=255)] = 0
    """Most tokens in a subscription's subject; 0 means no limit."""
    max_closed_clients: Count = 10_000
    """How many closed connections the monitoring remembers."""
    write_deadline_s: Annotated[float, Meta(gt=0)] = 10.0
    """Seconds that a client's socket has for the output that is pending when it falls behind."""
    write_timeout_policy: WriteTimeout = "default"
    """What happens then: `close`, or `retry` if the client took some of it; default `close`."""
    stall_producers: bool = True
    """Hold a fast producer back when a receiver is nearly full, instead of dropping."""
    header_support: bool = True
    """Allow clients to send and receive message headers."""


class Keepalive(Table, frozen=True, kw_only=True):
    """How silent connections are found."""

    ping_interval_s: Annotated[float, Meta(gt=0)] = 120.0
    """Seconds between PINGs to a client that sends nothing."""
    ping_max: Positive = 2
    """Unanswered PINGs that make a connection stale."""


class Routing(Table, frozen=True, kw_only=True):
    """How messages find their receivers."""

    queue_selection: Literal["round_robin", "random"] = "round_robin"
    """Which member of a queue group gets the next message."""
    cache_max: Count = 1024
    """Match results kept per account; 0 turns the cache off."""
    cache_sweep_to: Count = 256
    """Match results left when a full cache is swept."""
    exact_match: bool = True
    """Look literal subjects up in a dictionary before the trie is walked."""


class Shutdown(Table, frozen=True, kw_only=True):
    """How the server ends."""

    flush_timeout_s: Seconds = 1.0
    """Seconds that pending output may take when the server stops."""
    lame_duck_duration_s: Annotated[float, Meta(ge=30)] = 120.0
    """Seconds over which lame duck mode closes the clients; at least 30."""
    lame_duck_grace_period_s: Seconds = 10.0
    """Seconds before lame duck mode closes the first client; less than the duration."""


class Logging(Table, frozen=True, kw_only=True):
    """Level, format and destination of the log."""

    ZERO_IS_DEFAULT = ("connect_error_reports", "reconnect_error_reports")

    debug: bool = False
    """Log what helps to find a fault."""
    trace: bool = False
    """Log every protocol line."""
    trace_verbose: bool = False
    """Log the protocol of the system account too."""
    logtime: bool = True
    """Begin `nats` lines with the time."""
    logtime_utc: bool = False
    """Write times in UTC instead of local time."""
    file: str = ""
    """Path of the log file, reopened on SIGUSR1; empty means standard error."""
    syslog: bool = False
    """Send the log to the syslog daemon of this machine, unless there is a file."""
    remote_syslog: str = ""
    """Send the log to the syslog daemon at this URL: `udp://`, `tcp://` or `unix://`."""
    format: Literal["auto", "human", "json", "nats"] = "auto"
    """`auto` is `human` on a terminal and `json` elsewhere; `nats` is nats-server's form."""
    file_size_limit_bytes: Count = 0
    """Size at which the log file is rotated; 0 means never."""
    file_max_count: Count = 0
    """Log files kept, the current one included; 0 keeps all."""
    max_traced_message_bytes: Count = 0
    """Bytes of a payload that a trace shows; 0 means all."""
    max_lines_per_offender_per_s: Count = 10
    """Warnings about one peer per second, the rest is counted; 0 means no limit."""
    connect_error_reports: int = 3600
    """Log every n-th failed attempt to reach another server, and each cause once; 0: default."""
    reconnect_error_reports: int = 1
    """Likewise, after the link to that server has been up; 0: default."""


class WebSocketAuthorization(Table, frozen=True, kw_only=True):
    """Users of the WebSocket listener; a name here replaces all of the same in `authorization`."""

    user: str = ""
    """The only user's name of this listener; not where there are users or accounts' users."""
    password: Secret = ""
    """The only user's password, plain or bcrypt."""
    token: Secret = ""
    """A token that clients send, plain or bcrypt; outweighs `user`."""
    timeout_s: Seconds = 0.0
    """Seconds a client has to authenticate; 0 means as many as at the other listener."""
    no_auth_user: str = ""
    """The user that a client without credentials becomes; a user of `authorization` or accounts."""

    @property
    def is_set(self) -> bool:
        """Return whether this listener has rules of its own."""
        return bool(self.user or self.token or self.no_auth_user)


class WebSocket(Table, frozen=True, kw_only=True):
    """The listener for WebSocket clients; setting `port` turns it on."""

    ZERO_IS_DEFAULT = ("handshake_timeout_s",)

    host: str = "127.0.0.1"
    """Address to bind."""
    port: Port = 0
    """Port for WebSocket clients; 0 means none, -1 takes a free one."""
    advertise: str = ""
    """`host[:port]` announced to clients; empty means the bound address."""
    proxy_protocol: bool = False
    """Expect a PROXY protocol header, as `listen.proxy_protocol` does."""
    tls: Tls = Tls()
    """Certificates of this listener."""
    no_tls: bool = False
    """Serve without TLS; must be said on purpose when `tls` is not set."""
    same_origin: bool = False
    """Refuse browsers whose page came from another host."""
    allowed_origins: tuple[str, ...] = ()
    """Origins that browsers may come from; empty allows every origin."""
    handshake_timeout_s: Seconds = 2.0
    """Seconds for the handshakes of TLS and HTTP; 0 means the default."""
    ping_interval_s: Seconds = 0.0
    """Seconds between PINGs to a silent client; 0 takes `keepalive.ping_interval_s`."""
    compression: bool = False
    """Offer permessage-deflate."""
    headers: dict[str, str] = {}  # noqa: RUF012 - msgspec copies the default
    """Headers added to the upgrade response."""
    user_cookie: str = ""
    """Cookie that holds the user name."""
    pass_cookie: str = ""
    """Cookie that holds the password."""
    token_cookie: str = ""
    """Cookie that holds the token."""
    jwt_cookie: str = ""
    """Cookie that holds the user JWT; needs operator mode."""
    authorization: WebSocketAuthorization = WebSocketAuthorization()
    """Users of this listener, where they differ from the other listeners' users."""


class Console(Table, frozen=True, kw_only=True):
    """The web console on the monitoring port."""

    enabled: bool = False
    """Serve `/console`."""
    token: Secret = ""
    """Token that shows contents and unlocks changes; empty keeps both locked."""


class Monitoring(Table, frozen=True, kw_only=True):
    """The HTTP monitoring; setting a port turns it on."""

    host: str = ""
    """Address to bind; empty takes `listen.host`."""
    http_port: Port = 0
    """Port for HTTP; 0 means none, -1 takes a free one."""
    https_port: Port = 0
    """Port for HTTPS with the certificates of `tls`; 0 means none, -1 takes a free one."""
    base_path: str = ""
    """Path under which the pages are served, such as `/nats`."""
    max_connections: Positive = 128
    """Most HTTP connections at a time; the longest idle one makes room for another."""
    idle_timeout_s: Annotated[float, Meta(gt=0)] = 30.0
    """Seconds that a connection may take until its next request has come whole."""
    max_jetstream_series: Count = 1000
    """Most streams, and most durable consumers, that `/metrics` lists by name."""
    otel: bool = False
    """Report OpenTelemetry spans of messages with a sampled `traceparent`; needs no port."""
    console: Console = Console()
    """The web console."""


class Recorder(Table, frozen=True, kw_only=True):
    """Write what the server routes as Parquet files; setting `directory` turns it on."""

    directory: str = ""
    """Directory of the recording; empty means none."""
    roll_size_bytes: Positive = 64 << 20
    """Size at which a segment is closed and the next one begun."""
    roll_age_s: Annotated[float, Meta(gt=0)] = 60.0
    """Age in seconds at which a segment is closed, however small."""
    retention_age_s: Seconds = 0.0
    """Age in seconds at which segments are deleted; 0 keeps them."""
    retention_bytes: Count = 0
    """Total size above which the oldest segments are deleted; 0 keeps them."""
    subjects_allow: tuple[str, ...] = ()
    """Subjects to record; empty records every subject."""
    subjects_deny: tuple[str, ...] = ()
    """Subjects not to record; outweighs `subjects_allow`."""
    payload_allow: tuple[str, ...] = ()
    """Subjects whose payloads are kept; empty keeps every payload."""
    payload_deny: tuple[str, ...] = ()
    """Subjects whose payloads are left out; outweighs `payload_allow`."""
    queue_max: Positive = 1048576
    """Rows that may wait for the writer; further rows are dropped and counted."""


class Pipeline(Table, frozen=True, kw_only=True):
    """Settings of `midge pipeline`, which processes recorded traffic."""

    records_directory: str = ""
    """Directory of the recording; empty means `recorder.directory`, or else `records`."""
    lake_directory: str = ""
    """Path or URI of the lake's tables; empty means `lake`."""
    master: str = "local[*]"
    """Spark master."""
    spark: dict[str, str] = {}  # noqa: RUF012 - msgspec copies the default
    """More of Spark's configuration, by its own names."""
    prefix_tokens: Positive = 2
    """Tokens of a subject that make its prefix."""
    window_s: Positive = 60
    """Length in seconds of the windows that traffic is summed up in."""
    late_after_s: Annotated[float, Meta(gt=0)] = 60.0
    """Seconds that the watermark stays behind the newest message."""
    request_timeout_s: Annotated[float, Meta(gt=0)] = 30.0
    """Seconds after a request in which a message to its reply subject counts as the reply."""
    max_files_per_batch: Positive = 64
    """Most segments that one batch takes."""
    trigger_interval_s: Annotated[float, Meta(gt=0)] = 10.0
    """Seconds between two looks of `stream` for new segments."""
    gold_interval_s: Annotated[float, Meta(gt=0)] = 60.0
    """Least seconds between two rebuilds of the gold tables by `stream`."""
    keep_days: Annotated[float, Meta(ge=0)] = 0.0
    """Days before the newest one that the lake keeps; 0 keeps all."""
    match_strategy: Literal["auto", "broadcast", "shuffle"] = "auto"
    """How messages meet subscriptions."""
    broadcast_max_patterns: Positive = 250_000
    """Most patterns that `auto` broadcasts."""


class ServerProcesses(Table, frozen=True, kw_only=True):
    """How processes serve clients; for the daemon only."""

    workers: Annotated[int, Meta(ge=1, le=256)] | Literal["auto"] = 1
    """Processes that share the clients; `auto` is one per CPU that this process may use."""
    busy_poll_us: Annotated[int, Meta(ge=0, le=1000)] = 50
    """Longest wait for a request without sleep, where that hardly costs CPU time; 0 means never."""


class Process(Table, frozen=True, kw_only=True):
    """Files that describe this process to other programs."""

    pid_file: str = ""
    """File that holds the process id; empty means none."""
    ports_file_dir: str = ""
    """Directory for the `<executable>_<pid>.ports` file; empty means none."""


class Options(Table, frozen=True, kw_only=True):
    """All settings of one server."""

    server_name: str = ""
    """Name in INFO and monitoring; empty takes the server id."""
    server_tags: tuple[str, ...] = ()
    """Words such as `az:1` in monitoring, by which system requests choose servers."""
    server_metadata: dict[str, str] = {}  # noqa: RUF012 - msgspec copies the default
    """Further texts that monitoring shows of the server, by name."""
    system_account: str = ""
    """Account that gets the system's events; empty means `$SYS`."""
    server: ServerProcesses = ServerProcesses()
    """How many processes serve clients as one server."""
    listen: Listen = Listen()
    """Where clients connect."""
    proxies: Proxies = Proxies()
    """The proxies in front of the server: those that name their clients, and those that sign."""
    limits: Limits = Limits()
    """The bound of everything that a client can make grow."""
    keepalive: Keepalive = Keepalive()
    """How silent connections are found."""
    routing: Routing = Routing()
    """How messages find their receivers."""
    shutdown: Shutdown = Shutdown()
    """How the server ends."""
    logging: Logging = Logging()
    """Level, format and destination of the log."""
    authorization: Authorization = Authorization()
    """Users where no accounts are needed, and rules that hold for all users."""
    interceptors: Interceptors = Interceptors()
    """Python functions that see what clients do, and may change or refuse it."""
    accounts: tuple[Account, ...] = ()
    """Isolated subject spaces with their users."""
    mappings: tuple[Mapping, ...] = ()
    """Subject mappings of the global account."""
    operator: Operator = Operator()
    """Operator mode: accounts and users come as signed JWTs."""
    tls: Tls = Tls()
    """Encryption of the client listener and of HTTPS monitoring."""
    websocket: WebSocket = WebSocket()
    """The listener for WebSocket clients."""
    monitoring: Monitoring = Monitoring()
    """The HTTP monitoring."""
    jetstream: JetStream = JetStream()
    """Streams, consumers, key-value buckets and object stores."""
    leafnodes: LeafNodes = LeafNodes()
    """Links to other servers."""
    cluster: Cluster = Cluster()
    """This server as a member of a cluster."""
    recorder: Recorder = Recorder()
    """Write what the server routes as Parquet files."""
    pipeline: Pipeline = Pipeline()
    """Where the data pipeline works."""
    tables: tuple[StreamTable, ...] = ()
    """Streams whose messages a process of the server puts into Delta tables."""
    process: Process = Process()
    """Files that describe this process to other programs."""
