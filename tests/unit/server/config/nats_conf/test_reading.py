"""Keys of nats-server's files as options of midge."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from midge.server import preflight as config
from midge.server.accounts.plan import plan_configured
from midge.server.config.nats_conf.parser import ConfNode, ConfSource, parse_file
from midge.server.config.nats_conf.sections import Result, Section, read_map
from midge.server.config.nats_conf.server_block import SERVER
from midge.server.config.nats_conf.tls_block import TLS
from midge.server.config.options import (
    AllowResponses,
    Authorization,
    Export,
    Import,
    ImportSource,
    LeafNodes,
    LeafRemote,
    LeafRemoteTls,
    Limits,
    Mapping,
    MappingDestination,
    Operator,
    Options,
    Permissions,
    SubjectPermissions,
    Table,
    Tls,
    User,
    WebSocket,
)
from midge.server.config.reload_rules import changes
from midge.server.errors import ConfigError


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    return tmp_path / "x.conf"


def load(conf: Path, text: str) -> Options:
    conf.write_text(text, encoding="utf-8")
    return config.load(conf).options


def refusal(conf: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(conf, text)
    return str(caught.value).replace(str(conf), "x.conf")


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("listen: 5", "listen.port", 5),
        ('listen: "[::1]:5"', "listen.host", "::1"),
        ("listen: a:0", "listen.port", 4222),
        ("port: -1", "listen.port", -1),
        ("port: 0", "listen.port", 4222),
        ("net: h", "listen.host", "h"),
        ('http: ":8222"', "monitoring.http_port", 8222),
        ("http: 127.0.0.1:1", "monitoring.host", "127.0.0.1"),
        ("max_connections: -1", "limits.max_connections", 0),
        ("max_subs: -1", "limits.max_subscriptions", 0),
        ("max_sub_tokens: 16", "limits.max_subscription_tokens", 16),
        ("max_payload: 1kb", "limits.max_payload_bytes", 1024),
        ('ping_interval: "1m30.5s"', "keepalive.ping_interval_s", 90.5),
        ('write_deadline: "1h2m3s4ms5us6ns"', "limits.write_deadline_s", 3723.004005006),
        ("write_timeout: retry", "limits.write_timeout_policy", "retry"),
        ("leafnodes { write_deadline: 1s }", "leafnodes.write_deadline_s", 1.0),
        ("cluster { write_timeout: close }", "cluster.write_timeout_policy", "close"),
        ("syslog: true", "logging.syslog", True),
        ('remote_syslog: "udp://h:514"', "logging.remote_syslog", "udp://h:514"),
        ("no_fast_producer_stall: true", "limits.stall_producers", False),
        ("no_header_support: true", "limits.header_support", False),
        ("disable_sublist_cache: true", "routing.cache_max", 0),
        ("trace_verbose: true", "logging.trace", True),
        ("log_file: f", "logging.file", "f"),
        ("system: $G", "system_account", None),
        ("resolver: MEM", "operator.resolver", "memory"),
        ("websocket {port: 0, no_tls: true}", "websocket.no_tls", True),
        ('ws {ping_interval: "5s"}', "websocket.ping_interval_s", 5),
        ("ws {authorization {user: u}}", "websocket.authorization.user", "u"),
        ("ws {authentication {username: u, pass: p}}", "websocket.authorization.password", "p"),
        ("ws {authorization {token: t}}", "websocket.authorization.token", "t"),
        ('ws {authorization {timeout: "2s"}}', "websocket.authorization.timeout_s", 2),
    ],
)
def test_single_keys(conf: Path, text: str, path: str, expected: Any) -> None:
    if expected is None:
        assert "can not be found" in refusal(conf, text)
        return
    value: Any = load(conf, text)
    for name in path.split("."):
        value = getattr(value, name)
    assert value == expected


def test_users_and_permissions(conf: Path) -> None:
    authorization = load(
        conf,
        """
        authorization {
          timeout: "500ms"
          default_permissions { subscribe: ["a", "b q"] }
          users = [
            {user: u, pass: p, permissions {pub {deny: x}, allow_responses: true}}
            {username: v, password: $2a$11$abc, clients: websocket}
          ]
        }
        no_auth_user: u
        """,
    ).authorization
    assert authorization.timeout_s == 0.5
    assert authorization.no_auth_user == "u"
    assert authorization.default_permissions == Permissions(
        subscribe=SubjectPermissions(allow=("a", "b q"))
    )
    denied = SubjectPermissions(deny=("x",))
    assert authorization.users == (
        User(
            user="u",
            password="p",
            permissions=Permissions(publish=denied, allow_responses=AllowResponses()),
        ),
        User(user="v", password="$2a$11$abc", allowed_connection_types=("WEBSOCKET",)),
    )


def test_accounts(conf: Path) -> None:
    first, second = load(
        conf,
        """
        accounts {
          A {
            exports: [{stream: "s.>"}, {service: q, response_type: Single, accounts: [B]}]
            limits { max_conn: 5, max_payload: 1kb }
            mappings { x: [{destination: y, weight: 10%}, {dest: z, weight: 90}], a: b }
          }
          B { imports: [{stream: {account: A, subject: "s.>"}, prefix: p}] }
        }
        """,
    ).accounts
    assert (first.name, second.name) == ("A", "B")
    assert first.exports == (Export(stream="s.>"), Export(service="q", accounts=("B",)))
    assert (first.limits.max_connections, first.limits.max_payload_bytes) == (5, 1024)
    assert first.mappings == (
        Mapping(
            source="x",
            destinations=(
                MappingDestination(destination="y", weight_percent=10),
                MappingDestination(destination="z", weight_percent=90),
            ),
        ),
        Mapping(source="a", destinations=(MappingDestination(destination="b"),)),
    )
    source = ImportSource(account="A", subject="s.>")
    assert second.imports == (Import(stream=source, prefix="p"),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", ("on", 0.05)),
        ("false", ("off", 0.05)),
        ("auto", ("auto", 0.05)),
        ('"300ms"', ("auto", 0.3)),
    ],
)
def test_handshake_first(conf: Path, text: str, expected: tuple[str, float]) -> None:
    conf.write_text(f"handshake_first: {text}", encoding="utf-8")
    result = Result()
    block = ConfNode(parse_file(str(conf), ConfSource({})), str(conf), 1, 0)
    read_map(block, Section(result, result.values, ()), TLS)
    tls = Tls(**result.values)
    assert (tls.handshake_first, tls.handshake_first_fallback_s) == expected


@pytest.mark.parametrize(
    "block",
    [
        "listen: %s",
        "http: %s",
        "https: %s",
        *(f"{name} {{ listen: %s }}" for name in ("websocket", "leafnodes", "cluster")),
    ],
)
def test_addresses_to_listen_at(conf: Path, block: str) -> None:
    for wrong in ("a", "a:b:c", "::1", "[::1", "a:b", "a:"):
        text = refusal(conf, block % f'"{wrong}"')
        assert re.match(r"x.conf:1:\d+: could not parse (address string|port)", text)
        assert f'"{wrong}"' in text or f'"{wrong.rpartition(":")[2]}"' in text
    options = load(conf, block % '"[::1]:0"')
    own = {"listen: %s": options.listen.port, "websocket { listen: %s }": options.websocket.port}
    # 0 is nats-server's default for clients, and turns any other listener off.
    assert own.get(block, 0) == (4222 if block == "listen: %s" else 0)


CONFS = Path(__file__).parents[4] / "differential" / "conf" / "valid"


def test_zero_means_the_default() -> None:
    found = config.load(CONFS / "zeroes.conf")
    assert not found.notes
    set_ones = {".".join(path) for path in found.origins if path[0] != "authorization"}
    changed = {one.setting.key for one in changes(Options(), found.options)}
    assert changed == {
        "jetstream.enabled",
        "jetstream.sync_interval",  # a duration, of which nats-server's default is 2 minutes
        "authorization.user",
        "authorization.password",
        *(one for one in set_ones if one.endswith((".port", ".no_tls", ".remotes"))),
    }
    (remote,) = found.options.leafnodes.remotes
    assert remote == LeafRemote(urls=remote.urls, tls=LeafRemoteTls(required=True))


def test_a_negative_number_is_no_limit_or_the_default_with_a_warning() -> None:
    found = config.load(CONFS / "negatives.conf")
    lines = [int(one.split(":")[1]) for one in found.notes]
    assert lines == [2, 7, 8, 9, 10, 13, 13, 15, 15, 15, 17, 17, 19, 19, 19, 22, 22]
    assert all(one.endswith("has no use; the default holds") for one in found.notes)
    changed = {one.setting.key: one.new for one in changes(Options(), found.options)}
    assert changed["limits.max_payload_bytes"] == -1
    assert {one: changed[one] for one in changed if one.startswith("limits.")} == {
        "limits.max_payload_bytes": -1,
        "limits.max_connections": 0,
        "limits.max_closed_clients": 0,
    }


@pytest.mark.parametrize(
    "table",
    [
        Tls(timeout_s=0),
        WebSocket(handshake_timeout_s=0),
        LeafRemoteTls(timeout_s=0),
        LeafRemote(dial_timeout_s=0, first_info_timeout_s=0),
        LeafNodes(reconnect_s=0),
        Authorization(hook_timeout_s=0),
        Operator(resolver_interval_s=0),
        Limits(max_payload_bytes=0),
    ],
    ids=lambda table: type(table).__name__,
)
def test_zero_is_the_default_in_every_table_that_cannot_use_it(table: Table) -> None:
    assert table == type(table)()


@pytest.mark.parametrize("given", ["", "timeout: 2", "verify: true", "ca_file: x", "key_file: x"])
@pytest.mark.parametrize("around", ["%s", "websocket { %s }", "leafnodes { %s }", "cluster { %s }"])
def test_a_tls_block_without_a_certificate_is_refused(conf: Path, around: str, given: str) -> None:
    assert "missing 'cert_file' in TLS" in refusal(conf, around % f"tls {{ {given} }}")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("prof_port: 6060", 'field "prof_port" has no effect: there is no profiler of Go'),
        ("trace_headers: true", 'field "trace_headers" traces whole messages'),
        ("feature_flags { other: true }", 'feature flag "other" has no effect: midge does not'),
        ("accounts { A { exports: [{}] } }", "an export without a stream or service has no effect"),
        (
            "jetstream { limits { default_max_consumers: 5 } }",
            'field "default_max_consumers" has no effect: the default is no limit',
        ),
    ],
)
def test_a_line_without_effect_is_warned_of_with_its_place(
    conf: Path, text: str, what: str
) -> None:
    conf.write_text(f"debug: true\n{text}\n", encoding="utf-8")
    loaded = config.load(conf)
    (note,) = loaded.notes
    assert re.match(rf"{conf}:2:\d+: {re.escape(what)}", note)
    assert not loaded.file_warnings


@pytest.mark.parametrize("text", ["prof_port: 0", "syslog: false", "cluster { pool_size: -1 }"])
def test_nothing_is_said_of_a_value_that_asks_for_nothing(conf: Path, text: str) -> None:
    conf.write_text(text, encoding="utf-8")
    assert not config.load(conf).notes


def test_a_mapping_has_destinations_of_its_cluster(conf: Path) -> None:
    text = "mappings { a: [{dest: b, weight: 60%}, {dest: c, weight: 70%, cluster: C}] }\n"
    for cluster, destinations in (("", ["b"]), ("C", ["c"]), ("D", ["b"])):
        options = load(conf, text + (f"cluster {{ name: {cluster} }}" if cluster else ""))
        (mapping,) = plan_configured(options)["$G"].mappings
        assert [one.destination for one in mapping.destinations] == destinations
    only = load(conf, "mappings { a: { dest: c, weight: 100, cluster: C } }")
    assert plan_configured(only)["$G"].mappings == ()


def test_origins_name_line_and_column(conf: Path) -> None:
    conf.write_text("debug: true\nport: 5\n")
    origins = config.load(conf).origins
    assert origins[("listen", "port")] == f"{conf}:2:1"


def test_flags_outweigh_the_file(conf: Path) -> None:
    conf.write_text("port: 5\nhost: h\n")
    loaded = config.load(conf, flags=[(("listen", "port"), "-p", 6)])
    assert (loaded.options.listen.port, loaded.options.listen.host) == (6, "h")


def test_a_bare_duration_is_a_warning(conf: Path) -> None:
    conf.write_text("ping_interval: 5\n")
    loaded = config.load(conf)
    assert loaded.options.keepalive.ping_interval_s == 5
    (warning,) = loaded.file_warnings
    assert warning.startswith(f"{conf}:1:0: invalid use of field")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("port: 70000", "x.conf:1:0: listen.port: expected int from -1 to 65535, got 70000"),
        ("max_pending: -1",
         "x.conf:1:0: limits.max_pending_bytes: expected int of 1 or more, got -1"),
        ("authorization { password: 5 }",
         "x.conf:1:16: field \"password\": expected a string; quote it if it looks like a number"),
        ("accounts { A { exports: [{service: x, response: many}] } }",
         ("x.conf:1:38: field \"response\": expected one of singleton, single, stream, chunk, "
          "chunked, got 'many'")),
        ("tls { min_version: '1.0' }",
         "x.conf:1:6: unsupported TLS minimum version '1.0', expected '1.2' or '1.3'"),
        ("authorization: 5", "x.conf:1:0: field \"authorization\": expected a map, got 5"),
        ("authorization { users: {} }",
         'x.conf:1:16: field "users": expected an array, got a map'),
        ("write_timeout: never",
         "x.conf:1:0: write_timeout must be 'default', 'close' or 'retry'"),
        ("resolver { type: url, dir: d }",
         'x.conf:1:11: field "type": expected \'full\', \'cache\' or \'mem\''),
    ],
)  # fmt: skip
def test_refusals(conf: Path, text: str, error: str) -> None:
    assert refusal(conf, text) == error


def test_every_problem_is_reported(conf: Path) -> None:
    text = "foo: 1\nport: x\nauthorization {\n bar: 2\n}\n"
    assert refusal(conf, text).splitlines() == [
        'x.conf:1:0: unknown field "foo"',
        "x.conf:2:1: field \"port\": expected an integer, got 'x'",
        'x.conf:4:2: unknown field "bar"',
    ]


def test_secrets_are_not_repeated(conf: Path) -> None:
    assert "8675309" not in refusal(conf, "authorization { user: a, password: 8675309 }")


@pytest.mark.parametrize("name", sorted(SERVER))
def test_no_key_crashes_on_a_value_of_another_type(conf: Path, name: str) -> None:
    for text in ("5", "x", "true", "1.5", "[]", "[{}]", "{}", "{a: 1}", "2006-01-02T15:04:05Z"):
        conf.write_text(f"{name}: {text}\n")
        try:
            config.load(conf)
        except ConfigError as error:
            assert str(error)  # noqa: PT017 - either outcome is right, a crash is not


@pytest.mark.parametrize(
    ("text", "column", "name"),
    [
        ('authorization { token: "" }', 16, "token"),
        ("authorization { user: u, password: '' }", 25, "password"),
        ("authorization { users: [ { user: u, pass: $EMPTY } ] }", 36, "pass"),
    ],
)
def test_an_empty_secret_opens_nothing(
    conf: Path, text: str, column: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMPTY", "")
    expected = f'field "{name}": expected a string that is not empty'
    assert refusal(conf, text) == f"x.conf:1:{column}: {expected}"


@pytest.mark.parametrize(
    ("text", "mode", "round_trips"),
    [
        ("compression: true", "s2_auto", (0.01, 0.05, 0.1)),
        ("compression: FAST", "s2_fast", (0.01, 0.05, 0.1)),
        ("compression: disabled", "off", (0.01, 0.05, 0.1)),
        ("compression { mode: auto, rtt_thresholds: [1ms, 2ms, 0s] }", "s2_auto", (0.001, 0.002)),
    ],
)
def test_the_compression_of_links(
    conf: Path, text: str, mode: str, round_trips: tuple[float, ...]
) -> None:
    table = load(conf, f"leafnodes {{ {text} }}").leafnodes
    assert (table.compression, table.compression_rtt_s) == (mode, round_trips)
