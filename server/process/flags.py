"""The flags of `midge-server` and `midge serve`: nats-server's, and one for every setting."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from msgspec import inspect

from midge.server.config import schema
from midge.server.config.from_text import from_text
from midge.server.errors import ConfigError
from midge.server.process.go_flags import Flag, FlagError, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from midge.server.process.go_flags import CommandLine, GivenFlag

ACTIONS = (
    Flag(("h", "help"), "bool", ("help",)),
    Flag(("v", "version"), "bool", ("version",)),
    Flag(("help_tls",), "bool", ("help_tls",)),
    Flag(("t",), "bool", ("check",)),
    Flag(("c", "config"), "str", ("config",)),
    Flag(("sl", "signal"), "str", ("signal",)),
)
"""Flags that select an action instead of a setting."""

SETTINGS = (
    Flag(("a", "addr", "net"), "str", ("listen", "host")),
    Flag(("p", "port"), "int", ("listen", "port")),
    Flag(("n", "name", "server_name"), "str", ("server_name",)),
    Flag(("client_advertise",), "str", ("listen", "client_advertise")),
    Flag(("P", "pid"), "str", ("process", "pid_file")),
    Flag(("ports_file_dir",), "str", ("process", "ports_file_dir")),
    Flag(("m", "http_port"), "int", ("monitoring", "http_port")),
    Flag(("ms", "https_port"), "int", ("monitoring", "https_port")),
    Flag(("D", "debug"), "bool", ("logging", "debug")),
    Flag(("V", "trace"), "bool", ("logging", "trace")),
    Flag(("VV",), "bool", ("logging", "VV")),
    Flag(("DV",), "bool", ("logging", "DV")),
    Flag(("DVV",), "bool", ("logging", "DVV")),
    Flag(("T", "logtime"), "bool", ("logging", "logtime")),
    Flag(("logtime_utc",), "bool", ("logging", "logtime_utc")),
    Flag(("l", "log"), "str", ("logging", "file")),
    Flag(("s", "syslog"), "bool", ("logging", "syslog")),
    Flag(("r", "remote_syslog"), "str", ("logging", "remote_syslog")),
    Flag(("log_size_limit",), "int", ("logging", "file_size_limit_bytes")),
    Flag(("max_traced_msg_len",), "int", ("logging", "max_traced_message_bytes")),
    Flag(("user",), "str", ("authorization", "user")),
    Flag(("pass",), "str", ("authorization", "password")),
    Flag(("auth",), "str", ("authorization", "token")),
    Flag(("tls",), "bool", ("tls", "tls")),
    Flag(("tlscert",), "str", ("tls", "cert_file")),
    Flag(("tlskey",), "str", ("tls", "key_file")),
    Flag(("tlsverify",), "bool", ("tls", "verify")),
    Flag(("tlscacert",), "str", ("tls", "ca_file")),
    Flag(("js", "jetstream"), "bool", ("jetstream", "enabled")),
    Flag(("sd", "store_dir"), "str", ("jetstream", "store_dir")),
    Flag(("cluster", "cluster_listen"), "str", ("cluster", "listen")),
    Flag(("cluster_name",), "str", ("cluster", "name")),
    Flag(("cluster_advertise",), "str", ("cluster", "advertise")),
    Flag(("routes",), "str", ("cluster", "routes")),
    Flag(("no_advertise",), "bool", ("cluster", "no_advertise")),
    Flag(("connect_retries",), "int", ("cluster", "connect_retries")),
    Flag(("record",), "str", ("recorder", "directory")),
    Flag(("workers",), "str", ("server", "workers")),
)
"""nats-server's flags for settings, `--record` and `--workers`."""


UNSUPPORTED = (Flag(("profile",), "int", ("there is no profiler of Go",), has_no_effect=True),)
"""nats-server's flags for features that midge does not have; the target is what holds instead."""

_WORKERS = inspect.IntType()  # what else `--workers` may be stays the word that it is

DEFAULT_PORT = 4222
"""The port that nats-server uses for `-p 0`."""

DEFAULT_CLUSTER_PORT = 6222
"""The port for routes where the URL of `-cluster` has none."""

_LEVELS: dict[str, tuple[str, ...]] = {
    "VV": ("trace", "trace_verbose"),
    "DV": ("debug", "trace"),
    "DVV": ("debug", "trace", "trace_verbose"),
}

USAGE = """
Usage: midge-server [options]

Server Options:
    -a, --addr, --net <host>         Bind to host address (default: 127.0.0.1)
    -p, --port <port>                Use port for clients, -1 for a free one (default: 4222)
    -n, --name
        --server_name <server_name>  Server name (default: auto)
    -P, --pid <file>                 File to store PID
    -m, --http_port <port>           Use port for http monitoring
    -ms,--https_port <port>          Use port for https monitoring
    -c, --config <file>              Configuration file: TOML (*.toml) or nats-server's form
    -t                               Test configuration and exit
    -sl,--signal <signal>[=<pid>]    Send signal to midge-server process
                                     (ldm, stop, quit, term, reopen, reload);
                                     <pid> can be either a PID or the path to a PID file
        --client_advertise <string>  Client URL to advertise to clients
        --ports_file_dir <dir>       Creates a ports file in the specified directory
                                     (<executable_name>_<pid>.ports)
        --record <dir>               Record what is routed as Parquet files
        --workers <n>|auto           Serve clients by so many processes (default: 1);
                                     auto is one per CPU that this process may use

JetStream Options:
    -js, --jetstream                 Enable JetStream functionality
    -sd, --store_dir <dir>           Set the storage directory

Logging Options:
    -l, --log <file>                 File to redirect log output
    -s, --syslog                     Log to syslog
    -r, --remote_syslog <addr>       Syslog server addr (udp://localhost:514)
    -T, --logtime                    Timestamp log entries (default: true)
        --logtime_utc                Timestamps in UTC instead of local timezone (default: false)
    -D, --debug                      Enable debugging output
    -V, --trace                      Trace the raw protocol
    -VV                              Verbose trace (traces system account as well)
    -DV                              Debug and trace
    -DVV                             Debug and verbose trace
        --log_size_limit <limit>     Logfile size limit in bytes (default: none)
        --max_traced_msg_len <len>   Maximum printable length for traced messages

Authorization Options:
        --user <user>                User required for connections
        --pass <password>            Password required for connections
        --auth <token>               Authorization token required for connections

TLS Options:
        --tls                        Enable TLS, do not verify clients (default: false)
        --tlscert <file>             Server certificate file
        --tlskey <file>              Private key for server certificate
        --tlsverify                  Enable TLS, verify client certificates
        --tlscacert <file>           Client certificate CA for verification

Every other setting: --<table>-<field> <value>, such as --limits-max-connections 100;
midge check shows them all.

Cluster Options:
        --routes <rurl-1, rurl-2>    Routes to solicit and connect
        --cluster <cluster-url>      Cluster URL for solicited routes
        --cluster_name <string>      Cluster Name, if not set one will be dynamically generated
        --no_advertise <bool>        Do not advertise known cluster information to clients
        --cluster_advertise <string> Cluster URL to advertise to other servers
        --connect_retries <number>   For implicit routes, number of connect retries

Common Options:
    -h, --help                       Show this message
    -v, --version                    Show version
        --help_tls                   TLS help

"""

HELP_TLS = """\
TLS configuration is specified in the tls section of a configuration file:

e.g.

    tls {
        cert_file:      "./certs/server-cert.pem"
        key_file:       "./certs/server-key.pem"
        ca_file:        "./certs/ca.pem"
        verify:         true
        verify_and_map: true

        cipher_suites: [
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
        ]
    }

The same in TOML is a table [tls] with the same names and '=' in place of ':'.
"""


def parse_flags(arguments: Sequence[str]) -> CommandLine:
    """Return the flags and words of a server's command line.

    Raises: FlagError for an unknown flag, a missing or a wrong value.
    """
    try:
        return parse(arguments, ACTIONS + SETTINGS + UNSUPPORTED)
    except FlagError:
        # Those of all settings are known by the types of all options, which takes 8 ms.
        return parse(arguments, server_flags())


@functools.lru_cache(maxsize=1)
def server_flags() -> tuple[Flag, ...]:
    """Return every flag of a server."""
    own = tuple(
        Flag((setting.flag,), "switch" if _is_switch(setting) else "str", setting.path)
        for setting in schema.settings()
    )
    return ACTIONS + SETTINGS + UNSUPPORTED + own


def _is_switch(setting: schema.Setting) -> bool:
    return isinstance(schema.strip_metadata(setting.type), inspect.BoolType)


def setting_values(given: Iterable[GivenFlag]) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    """Yield path, flag and value of the settings among the given flags, in order."""
    for one in given:
        if one.flag not in ACTIONS and one.flag not in UNSUPPORTED:
            yield from _values_of(one)


def notes_on(given: Iterable[GivenFlag]) -> tuple[str, ...]:
    """Return a warning for each of the given flags that has no effect."""
    return tuple(
        f"flag {one.spelling} has no effect: {one.flag.target[0]}"
        for one in given
        if one.flag in UNSUPPORTED and one.value
    )


def _values_of(one: GivenFlag) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    path, value = one.flag.target, one.value
    if path[-1] in _LEVELS:
        yield from ((("logging", name), one.spelling, value) for name in _LEVELS[path[-1]])
    elif path == ("listen", "port") and value == 0:
        yield path, one.spelling, DEFAULT_PORT
    elif path == ("server", "workers"):
        yield path, one.spelling, from_text(str(value), _WORKERS)
    elif path == ("cluster", "listen"):
        for name, part in cluster_listen(str(value)).items():
            yield ("cluster", *name.split(".")), one.spelling, part
    elif path == ("cluster", "routes"):
        yield path, one.spelling, [url.strip() for url in str(value).split(",") if url.strip()]
    elif one.flag in SETTINGS:
        if path != ("tls", "tls"):
            yield path, one.spelling, value
    else:
        setting = schema.settings_by_path()[path]
        yield path, one.spelling, from_text(str(value), setting.type)


def cluster_listen(url: str) -> dict[str, Any]:
    """Return the settings in the URL of `-cluster`: the address to listen on, and the credentials.

    Raises: ConfigError if it is not a URL.
    """
    from urllib.parse import unquote, urlsplit  # noqa: PLC0415 - few flags hold a URL

    try:
        parts = urlsplit(url if "://" in url else f"nats-route://{url}")
        found: dict[str, Any] = {"port": parts.port or DEFAULT_CLUSTER_PORT}
    except ValueError as error:
        raise ConfigError(f"flag -cluster: {error}") from None
    if parts.hostname:
        found["host"] = parts.hostname
    if parts.username:
        found["authorization.user"] = unquote(parts.username)
        found["authorization.password"] = unquote(parts.password or "")
    return found


def check_tls_flags(given: Iterable[GivenFlag]) -> None:
    """Make sure that the flags that turn TLS on come with certificate and key.

    Raises: ConfigError with nats-server's words.
    """
    values = {one.flag.target: one.value for one in given if one.flag.target[0] == "tls"}
    if not values.get(("tls", "tls")) and not values.get(("tls", "verify")):
        return
    if not values.get(("tls", "cert_file")):
        raise ConfigError("TLS Server certificate must be present and valid")
    if not values.get(("tls", "key_file")):
        raise ConfigError("TLS Server private key must be present and valid")
