"""Random nats-server configuration files, from a table of its options with the values they take.

`python -m tests.differential.conf_options --count 2000` compares the verdicts of both servers and
lists the differences. `@NAME@` in a value is the path of a file from `files`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from midge.server.process import commands
from tests.support.keys import Authority, pem

BINARY = Path(sys.executable).parent / "nats-server"
_START_TIMEOUT_S = 20.0


class Kind(NamedTuple):
    """A kind of value: texts that nats-server takes, and texts that it refuses."""

    valid: tuple[str, ...]
    invalid: tuple[str, ...] = ()


class Block(NamedTuple):
    """A map, or with `listed` an array of maps; `base` is always in it."""

    keys: dict[str, Kind | Block]
    base: str = ""
    listed: bool = False


SWITCH = Kind(("true", "false"), ("5", '"true"', "{}", "[]"))
TEXT = Kind(('"abc"', "word", '"x-1"'), ("5", "true", "{}", "[]"))
COUNT = Kind(("1", "10", "4096"), ('"10"', "true", "1.5", "{}"))
LIMIT = Kind(("1", "100", "-1"), ('"10"', "false", "[]"))
SIZE = Kind(("8MB", "2097152", "4mb"), ('"8MB"', "true"))
STORAGE = Kind(("1GB", '"1G"', '"512M"', "-1", '""'), ('"1GB"', '"G"', "true", '"512"'))
TIMED = Kind(('"5s"', '"1m30s"', '"100ms"'), ("5", '"5"', '"x"', "true", '"5 s"'))
SPAN = Kind(('"5s"', '"2m"'), ("5", '"x"', "true", "{}"))
TIMEOUT = Kind(("2", "2.5", '"3s"', "0"), ('"x"', "true", "{}", "120", "1m"))
TLS_TIMEOUT = Kind(("2", "0.5", '"3s"'), ('"x"', "true"))
TEXTS = Kind(('["a", "b"]', '"a"'), ("5", "true", "{}", "[5]"))
LISTED = Kind(('["a", "b"]',), ('"a"', "5", "[5]"))
ADDRESS = Kind(('"127.0.0.1:-1"', "-1"), ('"a"', '"a:b:c"', "true", '"a:b"'))
ADVERTISE = Kind(('"a.example"', '"a.example:1"', '"[::1]:5"'), ("5", "true"))
HOST = Kind(("127.0.0.1", '"localhost"'), ("5", "true"))
PORT = Kind(("-1",), ('"4222"', "true", "1.5"))
SUBJECTS = Kind(('"a.>"', '["a", "b.*"]', '{ allow: "a", deny: ["b"] }', "{}"), ('"a..b"', "5"))
POLICY = Kind(("default", "close", "retry"), ('"x"', "5"))
FILE = Kind(('"@dir@/file"',), ("5",))
NKEY_USER = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
NKEY_ACCOUNT = "ABJHLOVMPA4CI6R5KLNGOB4GSLNIY7IOUPAJC4YFNDLQVIOBYQGUWVLA"

RESPONSES = Block(
    {
        **dict.fromkeys(("max", "max_msgs", "max_messages", "max_responses"), LIMIT),
        **dict.fromkeys(("expires", "expiration", "ttl"), SPAN),
    }
)
PERMISSIONS = Block(
    {
        **dict.fromkeys(("publish", "pub", "import", "subscribe", "sub", "export"), SUBJECTS),
        "allow_responses": Kind(("true", "false"), ("5",)),
        "publish_allow_responses": RESPONSES,
    }
)
USER = {
    "permissions": PERMISSIONS,
    "permission": PERMISSIONS,
    "allowed_connection_types": Kind(('["STANDARD", "websocket"]', '"MQTT"'), ("[x]", "5")),
    "connection_types": Kind(('["LEAFNODE"]',), ("[x]",)),
    "clients": Kind(('["IN_PROCESS"]',), ("[x]",)),
}
USERS = Block(USER, "user: u@n@, password: p", listed=True)
CALLOUT = Block(
    {
        "account": Kind(("$G",), ("5",)),
        "allowed_accounts": Kind(("[]",), ('"a"', "5")),
        "xkey": Kind(("XA6CTUYPVPFX63V7PRCKNAHYUFNBTCZ5MILQERYET4TSLRVWOBUG6LUB",), ('"x"', "5")),
    },
    f"issuer: {NKEY_ACCOUNT}, auth_users: [u1]",
)
AUTHORIZATION: dict[str, Kind | Block] = {
    "user": TEXT,
    "username": TEXT,
    "password": TEXT,
    "pass": TEXT,
    "token": TEXT,
    "timeout": TIMEOUT,
    "users": USERS,
    "default_permissions": PERMISSIONS,
    "default_permission": PERMISSIONS,
    "auth_callout": CALLOUT,
    "auth_hook": CALLOUT,
    "proxy_required": Kind(("false", "true"), ("5",)),
}
TLS_KEYS: dict[str, Kind | Block] = {
    "ca_file": Kind(('"@ca@"',), ("5", '"@dir@/none"', '"@key@"')),
    "verify": SWITCH,
    "verify_and_map": SWITCH,
    "timeout": TLS_TIMEOUT,
    "cipher_suites": Kind(
        ('["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256"]',), ("[]", "[x]")
    ),
    "curve_preferences": Kind(('["X25519", "CurveP256"]',), ("[]", "[x]", "5")),
    "insecure": SWITCH,
    "connection_rate_limit": COUNT,
    "pinned_certs": Kind((f'["{"a8" * 32}"]', "[]"), ('["x"]', "5")),
    "handshake_first": Kind(("true", "false", "auto", '"300ms"', "on", "off"), ('"x"', "5")),
    "first": Kind(("true",), ("5",)),
    "immediate": Kind(("true",), ("5",)),
    "min_version": Kind(('"1.2"', '"1.3"'), ('"1.1"', "1.2")),
    "allow_insecure_cipher_suites": SWITCH,
    "cert_match": TEXT,
    "cert_match_by": Kind(('"subject"', '"issuer"'), ('"x"', "5")),
    "cert_match_skip_invalid": SWITCH,
    "ca_certs_match": Kind(('"x"', '["x"]'), ("[5]",)),
    "verify_cert_and_check_known_urls": Kind(("false",), ("5",)),
}
TLS = Block(TLS_KEYS, 'cert_file: "@cert@", key_file: "@key@"')
CERTS = Block({"timeout": TLS_TIMEOUT}, 'certs: [{ cert_file: "@cert@", key_file: "@key@" }]')
COMPRESSION = Kind(
    ("off", "accept", "s2_auto", "s2_fast", "true", "{ mode: s2_auto, rtt_thresholds: [10ms] }"),
    ("5", "{ x: 1 }"),
)
MAPPINGS = Kind(
    (
        "{ a: b }",
        '{ "a.*": "b.{{wildcard(1)}}" }',
        "{ a: [{ dest: b, weight: 40% }, { destination: c, weight: 60 }] }",
        "{ a: { dest: b, weight: 100, cluster: c1 } }",
        "{ a: [{ dest: b, weight: 80%, cluster: c1 }, { dest: d, weight: 80% }] }",
    ),
    (
        "{ a: 5 }",
        '{ "a..b": c }',
        "{ a: { dest: b } }",
        "{ a: { dest: b, weight: 101 } }",
        "{ a: { dest: b, weight: 5, x: 1 } }",
        "{ a: [{ dest: b, weight: 60 }, { dest: c, weight: 60 }] }",
    ),
)
JETSTREAM_LIMITS = Block(
    {
        **dict.fromkeys(
            ("max_ack_pending", "max_ha_assets", "max_request_batch", "default_max_consumers"),
            LIMIT,
        ),
        "duplicate_window": SPAN,
        "batch": Block(
            {
                **dict.fromkeys(
                    ("max_inflight_per_stream", "max_inflight_total", "max_msgs"), COUNT
                ),
                "timeout": SPAN,
            }
        ),
    }
)
JETSTREAM = Block(
    {
        "enabled": SWITCH,
        "enable": SWITCH,
        "strict": SWITCH,
        "sync": Kind(("always", '"10s"'), ('"x"', "true")),
        "sync_interval": Kind(("ALWAYS", '"2m"'), ("5", '"x"')),
        **dict.fromkeys(("max_memory_store", "max_mem_store", "max_mem"), STORAGE),
        **dict.fromkeys(("max_file_store", "max_file"), STORAGE),
        "domain": Kind(("hub",), ("5",)),
        **dict.fromkeys(("key", "ek", "encryption_key"), Kind((f'"{"k" * 32}"',), ("5",))),
        "prev_key": TEXT,
        "cipher": Kind(("aes", "chacha", "chachapoly", "AES"), ('"x"', "5")),
        "extension_hint": Kind(("will_extend", "no_extend"), ("5",)),
        "limits": JETSTREAM_LIMITS,
        "unique_tag": TEXT,
        "max_outstanding_catchup": STORAGE,
        "max_buffered_size": STORAGE,
        "max_buffered_msgs": COUNT,
        "request_queue_limit": COUNT,
        "info_queue_limit": COUNT,
        "meta_compact": Kind(("100", "0"), ("-1", '"x"')),
        "meta_compact_size": Kind(("1MB", '"1M"'), ("-1", '"x"')),
        "meta_compact_sync": SWITCH,
        "max_concurrent_io": Kind(("4", "8", "8192"), ("3", "9000", '"x"')),
    },
    'store_dir: "@dir@/js"',
)
ACCOUNT_JETSTREAM = Block(
    {
        **dict.fromkeys(
            (
                *("max_memory", "max_mem", "mem", "memory"),
                *("max_store", "max_file", "max_disk", "store", "disk"),
                *("mem_max_stream_bytes", "memory_max_stream_bytes"),
                *("disk_max_stream_bytes", "store_max_stream_bytes"),
            ),
            Kind(("1MB", "0", "-1"), ('"1M"', "true")),
        ),
        **dict.fromkeys(
            ("max_streams", "streams", "max_consumers", "consumers", "max_ack_pending"), LIMIT
        ),
        **dict.fromkeys(("max_bytes_required", "max_stream_bytes", "max_bytes"), SWITCH),
        "cluster_traffic": Kind(("system", "owner", '""'), ('"x"', "5")),
    }
)
EXPORTS = Block(
    {
        **dict.fromkeys(
            ("response", "response_type"),
            Kind(("single", "singleton", "stream", "chunk", "Chunked"), ('"x"', "5")),
        ),
        **dict.fromkeys(
            ("threshold", "response_threshold", "response_max_time", "response_time"),
            Kind(('"5s"',), ("5", '"x"')),
        ),
        "accounts": Kind(("[A]",), ("A", "5", "[X]")),
        "account_token_position": Kind(("2",), ("1", "9", '"2"')),
        "latency": Kind(
            ("lat", "{ subject: lat, sampling: 50% }", "{ subject: lat, sampling: headers }"),
            ("5", "{}", "{ subject: lat, sampling: 500 }"),
        ),
        "allow_trace": SWITCH,
    },
    'service: "s@n@.*"',
    listed=True,
)
STREAMS = Block({"accounts": Kind(("[A]", "[]"), ("A", "5"))}, "stream: t@n@", listed=True)
ACCOUNT = Block(
    {
        "nkey": Kind((NKEY_ACCOUNT,), ("x", "5")),
        "users": USERS,
        "exports": EXPORTS,
        "imports": Kind(
            (
                "[]",
                "[{ stream: { account: Z, subject: zs } }]",
                "[{ stream: { account: Z, subject: zs }, prefix: p, allow_trace: true }]",
                "[{ stream: { account: Z, subject: zs }, to: t }]",
                "[{ service: { account: Z, subject: zr }, to: t, share: true }]",
                "[{ service: { account: Z, subject: zr }, prefix: p }]",
            ),
            (
                "5",
                "[5]",
                "[{ stream: { account: Z } }]",
                "[{ stream: { account: Y, subject: zs } }]",
                "[{ stream: { account: Z, subject: other } }]",
                "[{ service: zr }]",
                "[{ service: { account: Z, subject: zr }, allow_trace: true }]",
            ),
        ),
        "mappings": MAPPINGS,
        "maps": MAPPINGS,
        "limits": Block(
            {
                **dict.fromkeys(
                    (
                        *("max_connections", "max_conn", "max_subscriptions", "max_subs"),
                        *("max_payload", "max_pay", "max_leafnodes", "max_leafs"),
                    ),
                    LIMIT,
                )
            }
        ),
        "default_permissions": PERMISSIONS,
        "jetstream": ACCOUNT_JETSTREAM,
        "msg_trace": Kind(
            ("t", "{ dest: t, sampling: 10 }", '{ dest: t, sampling: "10%" }'),
            ("5", '"a.*"', "{ dest: t, sampling: 0 }", "{ dest: t, x: 1 }"),
        ),
        "trace_dest": Kind(("t",), ("5",)),
    }
)
STREAM_ACCOUNT = Block({"exports": STREAMS})
ACCOUNTS = Block(
    {"A": ACCOUNT, "B": STREAM_ACCOUNT},
    "Z { users: [{ user: z, password: z }], exports: [{ stream: zs }, { service: zr }] }",
)
CLUSTER = Block(
    {
        "name": Kind(("c1",), ('"a b"', "5")),
        "host": HOST,
        "net": HOST,
        "authorization": Block(
            {"user": TEXT, "timeout": TIMEOUT, "token": Kind((), ("t",))}, "password: p, user: r"
        ),
        "routes": Kind(('["nats://127.0.0.1:1"]', "[]"), ('"nats://a:1"', "5", '["nats://a b"]')),
        "tls": TLS,
        "cluster_advertise": ADVERTISE,
        "advertise": ADVERTISE,
        "no_advertise": SWITCH,
        "connect_retries": COUNT,
        "connect_backoff": SWITCH,
        "permissions": Block({"import": SUBJECTS, "export": SUBJECTS}),
        "pool_size": LIMIT,
        "compression": COMPRESSION,
        "ping_interval": TIMED,
        "ping_max": COUNT,
        "write_deadline": TIMED,
        "write_timeout": POLICY,
    },
    "port: -1",
)
REMOTES = Block(
    {
        **dict.fromkeys(("no_randomize", "dont_randomize", "hub", "disabled"), SWITCH),
        "account": Kind(("$G",), ("5",)),
        "local": Kind(("$G",), ("5",)),
        "credentials": Kind(('"@dir@/none"',), ("5",)),
        "nkey": Kind(("SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY",), ('"x"', "5")),
        "tls": Block({**TLS_KEYS, "certs": Kind(("[]",), ("5",))}, ""),
        **dict.fromkeys(
            ("deny_imports", "deny_import", "deny_exports", "deny_export"),
            Kind(('["a", "b.>"]', "a"), ('"a..b"', "5")),
        ),
        **dict.fromkeys(
            (
                *("ws_compress", "ws_compression", "websocket_compress", "websocket_compression"),
                *("ws_no_masking", "websocket_no_masking", "ignore_discovered_servers"),
                *("isolate_leafnode_interest", "isolate", "request_isolation"),
            ),
            SWITCH,
        ),
        "jetstream_cluster_migrate": Kind(("true", '{ leader_migrate_delay: "5s" }'), ("5",)),
        "compression": COMPRESSION,
        "first_info_timeout": TIMED,
        "dial_timeout": TIMED,
        "proxy": Kind(
            ("{}", '{ url: "http://a:1" }', '{ url: "http://a:1", username: u, password: p }'),
            ("5", '{ url: "x" }', '{ url: "http://a:1", username: u }', "{ x: 1 }"),
        ),
    },
    'url: "ws://127.0.0.1:1@n@"',
    listed=True,
)
LEAFNODES = Block(
    {
        "host": HOST,
        "net": HOST,
        "authorization": Block(
            {
                "timeout": TIMEOUT,
                "account": Kind(("$G",), ("5",)),
                "users": Block(
                    {"account": Kind(("$G",), ("5",))}, "user: l@n@, password: p", listed=True
                ),
                "nkey": Kind((NKEY_USER,), ('"x"', "5")),
                "proxy_required": Kind(("false", "true"), ("5",)),
            }
        ),
        "tls": TLS,
        "advertise": ADVERTISE,
        "leafnode_advertise": ADVERTISE,
        "no_advertise": SWITCH,
        "min_version": Kind(("2.8.0", '"2.10.1"'), ('"2.7.0"', '"x"', "5")),
        "minimum_version": Kind(('"2.9.0"',), ("5",)),
        "isolate_leafnode_interest": SWITCH,
        "isolate": SWITCH,
        "reconnect": TIMED,
        "reconnect_delay": TIMED,
        "reconnect_interval": TIMED,
        "dial_timeout": TIMED,
        "write_deadline": TIMED,
        "write_timeout": POLICY,
        "compression": COMPRESSION,
        "remotes": REMOTES,
    },
    "port: -1",
)
WEBSOCKET = Block(
    {
        "host": HOST,
        "net": HOST,
        "advertise": ADVERTISE,
        "tls": TLS,
        "same_origin": SWITCH,
        **dict.fromkeys(
            (
                *("allowed_origins", "allowed_origin", "allow_origins", "allow_origin"),
                *("origins", "origin"),
            ),
            Kind(('"http://a"', '["https://a:1"]'), ("5", "[5]")),
        ),
        "handshake_timeout": Kind(("3", '"3s"', "0"), ('"x"', "true")),
        "compression": SWITCH,
        "compress": SWITCH,
        "authorization": Block({"user": TEXT, "pass": TEXT, "timeout": Kind(("1", "1.5"), ())}),
        "authentication": Block({"token": TEXT}),
        **dict.fromkeys(("user_cookie", "pass_cookie", "token_cookie"), TEXT),
        "headers": Kind(("{ X-A: b }", "{}"), ("{ X-A: 5 }", "5")),
        "ping_interval": TIMED,
    },
    "port: -1, no_tls: true",
)
SERVER = Block(
    {
        "listen": ADDRESS,
        "server_name": Kind(("s1", '"x-y"'), ('"a b"', "5")),
        "client_advertise": ADVERTISE,
        **dict.fromkeys(("host", "net"), HOST),
        "port": PORT,
        **dict.fromkeys(
            (
                *("debug", "trace", "trace_verbose", "trace_headers", "logtime", "logtime_utc"),
                *("disable_sublist_cache", "no_sublist_cache", "no_header_support"),
                *("no_fast_producer_stall", "allow_non_tls", "proxy_protocol"),
            ),
            SWITCH,
        ),
        "proxies": Block(
            {"trusted": Block({"key": Kind((NKEY_USER,), ('"nope"', "5"))}, "", listed=True)}
        ),
        "syslog": Kind(("false",), ("5",)),
        "remote_syslog": Kind(('"udp://127.0.0.1:1"',), ("5",)),
        **dict.fromkeys(("mappings", "maps"), MAPPINGS),
        "accounts": ACCOUNTS,
        "authorization": Block(AUTHORIZATION, "user: u0"),
        "no_auth_user": Kind((), ("5", "nobody")),
        **dict.fromkeys(("http", "https"), Kind(('"127.0.0.1:0"',), ('"a"', "true"))),
        **dict.fromkeys(("http_port", "monitor_port"), Kind(("-1",), ('"x"', "true"))),
        "http_base_path": TEXT,
        "cluster": CLUSTER,
        "leafnodes": LEAFNODES,
        "leaf": LEAFNODES,
        "websocket": WEBSOCKET,
        "ws": WEBSOCKET,
        "jetstream": JETSTREAM,
        **dict.fromkeys(("store_dir", "storedir"), Kind(('"@dir@/js2"',), ("5",))),
        **dict.fromkeys(("logfile", "log_file", "pidfile", "pid_file"), FILE),
        "ports_file_dir": Kind(('"@dir@"',), ("5",)),
        **dict.fromkeys(
            ("logfile_size_limit", "log_size_limit", "logfile_max_num", "log_max_num"), COUNT
        ),
        **dict.fromkeys(("prof_port", "prof_block_rate"), Kind(("0",), ('"x"',))),
        "max_control_line": Kind(("4KB", "1024"), ("3GB", '"x"')),
        "max_payload": Kind(("1MB", "0", "-1"), ("3GB", '"x"')),
        "max_pending": SIZE,
        **dict.fromkeys(
            (
                *("max_connections", "max_conn", "max_subscriptions", "max_subs"),
                *("max_traced_msg_len", "max_closed_clients"),
            ),
            COUNT,
        ),
        **dict.fromkeys(
            ("max_sub_tokens", "max_subscription_tokens"), Kind(("16", "255"), ("0", "300", "-1"))
        ),
        "ping_interval": TIMED,
        "ping_max": COUNT,
        "tls": Block({**TLS_KEYS, "ocsp_peer": Kind(("false",), ("5",))}, TLS.base),
        "ocsp": Kind(("false",), ('"auto"', "5")),
        "ocsp_cache": Kind(("false",), ("5",)),
        "write_deadline": TIMED,
        "write_timeout": POLICY,
        "lame_duck_duration": Kind(('"30s"', '"2m"'), ('"1s"', "60", '"x"')),
        "lame_duck_grace_period": Kind(('"5s"', '"0s"'), ('"-1s"', "5", '"x"')),
        **dict.fromkeys(
            ("resolver", "account_resolver", "accounts_resolver"),
            Kind(
                ("MEMORY", "{ type: mem }", '{ type: full, dir: "@dir@/jwt", interval: "1m" }'),
                ("5", '"x"', "{ type: full }", '{ type: full, dir: "@dir@/jwt", timeout: 5 }'),
            ),
        ),
        "resolver_preload": Kind(("{}",), ("5", "{ A: x }", "{ A: 5 }")),
        "resolver_tls": Kind(("{}", "{ insecure: true }", "{ timeout: 1 }"), ("5", "{ x: 1 }")),
        "resolver_pinned_accounts": Kind(("[]",), ("5", "[5]")),
        **dict.fromkeys(("trusted", "trusted_keys"), Kind((), ("5", '["x"]'))),
        **dict.fromkeys(("operator", "operators", "root"), Kind((), ("5", '"@dir@/none"'))),
        **dict.fromkeys(("system_account", "system"), Kind((), ("5",))),
        **dict.fromkeys(("no_system_account", "no_system", "no_sys_acc"), Kind(("false",), ("5",))),
        **dict.fromkeys(("connect_error_reports", "reconnect_error_reports"), COUNT),
        "server_tags": TEXTS,
        "server_metadata": Kind(("{ a: b }", "{}"), ("{ a: 5 }", "5")),
        "feature_flags": Kind(
            ("{ js_ack_fc_v2: true }", "{ js_snapshot_sources: true }", "{ other: false }", "{}"),
            ("{ js_ack_fc_v2: 1 }", "5"),
        ),
        "default_js_domain": Kind(("{ A: x }",), ("5", "{ A: 5 }")),
        "default_sentinel": Kind(('""',), ("5", '"x"')),
        "bogus_key": Kind((), ("5", "{}")),
    }
)

RARE: dict[str, Kind] = {
    "gateway": Kind(("{ name: c1, port: -1 }",)),
    "mqtt": Kind(("{ port: -1 }",)),
    "ocsp": Kind(("true",)),
    "tls": Kind(('{ cert_file: "@cert@", key_file: "@key@", ocsp_peer: true }',)),
}
"""Features that midge does not have; one file of two hundred uses one."""


def write_file(rng: random.Random, paths: dict[str, str]) -> tuple[str, bool]:
    """Return a random file, and whether one of its values was chosen to be wrong."""
    corrupt = rng.random() < 0.4
    if rng.random() < 0.005:
        key = rng.choice(list(RARE))
        text = f"{key}: {rng.choice(RARE[key].valid)}\nserver_name: s1\njetstream: enabled\n"
        return _filled(text, paths, rng), False
    lines: list[tuple[str, str]] = []
    for key in rng.sample(list(SERVER.keys), rng.randint(1, 5)):
        lines.append((key, _value(rng, SERVER.keys[key], corrupt=False)))
    text = "".join(f"{key}: {value}\n" for key, value in lines)
    if corrupt:
        key = rng.choice(list(SERVER.keys))
        text += f"{key}: {_value(rng, SERVER.keys[key], corrupt=True)}\n"
    return _filled(text, paths, rng), corrupt


def _value(rng: random.Random, kind: Kind | Block, *, corrupt: bool) -> str:
    if isinstance(kind, Kind):
        wrong = kind.invalid if corrupt else ()
        return rng.choice(wrong or kind.valid or kind.invalid)
    if corrupt and rng.random() < 0.1:
        return rng.choice(("5", '"x"', "[5]", "{ bogus_key: 1 }"))
    chosen = rng.sample(list(kind.keys), min(len(kind.keys), rng.randint(0, 3) or 1))
    bad = rng.choice(chosen) if corrupt else ""
    parts = [kind.base] if kind.base else []
    parts += [f"{key}: {_value(rng, kind.keys[key], corrupt=key == bad)}" for key in chosen]
    body = "{ " + ", ".join(parts) + " }"
    return f"[{body}]" if kind.listed else body


def _filled(text: str, paths: dict[str, str], rng: random.Random) -> str:
    for name, path in paths.items():
        text = text.replace(f"@{name}@", path)
    return re.sub("@n@", lambda _: str(rng.randint(1, 9)), text)


class Verdict(NamedTuple):
    """What a server says of a file."""

    is_taken: bool
    text: str


def ask_nats_server(file: Path) -> Verdict:
    """Return the verdict of nats-server's `-t`."""
    done = subprocess.run(
        [BINARY, "-t", "-c", file], capture_output=True, text=True, timeout=60, check=False
    )
    return Verdict(done.returncode == 0, done.stderr.strip())


def starts_nats_server(file: Path) -> Verdict:
    """Return whether nats-server also starts with the file: `-t` does not check all of it."""
    command = [BINARY, "-c", file, "-a", "127.0.0.1", "-p", "-1", "-l", f"{file}.log"]
    log = Path(f"{file}.log")
    log.unlink(missing_ok=True)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            process.wait(1.0)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait(_START_TIMEOUT_S)
            return Verdict(True, "")
        assert process.stdout is not None
        text = process.stdout.read().decode()
    return Verdict(False, text + (log.read_text() if log.exists() else ""))


def ask_midge(file: Path) -> Verdict:
    """Return the verdict of midge's `-t`, in this process."""
    err = io.StringIO()
    with contextlib.redirect_stderr(err):
        code = commands.midge_server(["-t", "-c", str(file)])
    return Verdict(code == 0, err.getvalue().strip())


EXCEPTION = re.compile(
    r'field "\w+": midge does not support|missing \'cert_file\' in TLS|'
    "expected a user name, since a password is set"
)
"""midge's words for a feature that it lacks, and where nats-server admits everyone, or no one."""


class Compared(NamedTuple):
    """The verdicts on many files."""

    counts: Counter[str]
    differences: list[str]
    """Files that one server takes and the other refuses, with both verdicts."""
    exceptions: list[str]
    """Those that need a feature that midge does not have."""


def compare(count: int, seed: int, directory: Path, paths: dict[str, str]) -> Compared:
    """Write `count` files into `directory` and compare the verdicts of both servers."""
    rng = random.Random(seed)
    counts: Counter[str] = Counter()
    differences: list[str] = []
    exceptions: list[str] = []
    file = directory / "x.conf"
    paths = {**paths, "dir": str(directory)}
    for number in range(count):
        text, _ = write_file(rng, paths)
        file.write_text(text, encoding="utf-8")
        theirs, ours = ask_nats_server(file), ask_midge(file)
        if theirs.is_taken and not ours.is_taken:
            theirs = starts_nats_server(file)
        counts[f"nats-server {_word(theirs)}, midge {_word(ours)}"] += 1
        if theirs.is_taken == ours.is_taken:
            continue
        refusals = [one for one in ours.text.splitlines() if "has no effect" not in one]
        if theirs.is_taken and all(EXCEPTION.search(one) for one in refusals):
            exceptions.append(f"{text}  {ours.text}")
            continue
        shown = f"#{number}: {text.strip()}\n  nats-server: {theirs.text}\n  midge: {ours.text}"
        differences.append(shown.replace(str(directory), "DIR"))
    return Compared(counts, differences, exceptions)


def _word(verdict: Verdict) -> str:
    return "accepts" if verdict.is_taken else "refuses"


def make_certificates(directory: Path) -> dict[str, str]:
    """Write a certificate with its key and its authority; return their paths."""
    authority = Authority()
    certificate, key = authority.issue("CN=localhost")
    contents = {"ca": authority.pem, "cert": pem(certificate), "key": key}
    for name, content in contents.items():
        (directory / f"{name}.pem").write_bytes(content)
    return {name: str(directory / f"{name}.pem") for name in contents}


def main() -> None:
    """Print the figures, and each difference."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        os.chdir(directory)
        found = compare(given.count, given.seed, directory, make_certificates(directory))
    sys.stdout.write("\n\n".join(found.differences + found.exceptions) + "\n\n")
    for what, times in sorted(found.counts.items()):
        sys.stdout.write(f"{times:6,} {what}\n")
    sys.stdout.write(f"{len(found.exceptions):6,} exceptions, {len(found.differences):,} others\n")


if __name__ == "__main__":
    main()
