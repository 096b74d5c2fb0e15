"""Settings that contradict one another."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from midge.server.config.contradictions import find_contradictions
from midge.server.config.options import Options
from midge.server.config.type_check import format_path

USER = {"user": "a", "password": "b"}
ACCOUNT = {"name": "A"}


def contradictions(raw: dict[str, Any]) -> dict[str, str]:
    options = msgspec.convert(raw, Options)
    return {format_path(found.path): found.text for found in find_contradictions(options)}


def within(table: dict[str, Any], *path: str) -> dict[str, Any]:
    return {path[0]: within(table, *path[1:])} if path else table


def tables(*found: dict[str, Any]) -> dict[str, Any]:
    listed = [{"name": f"t{n}", "stream": "S", "url": f"{n}", **one} for n, one in enumerate(found)]
    return {"jetstream": {"enabled": True}, "tables": listed}


@pytest.mark.parametrize(
    ("raw", "path", "text"),
    [
        ({**tables({}), "jetstream": {}}, "tables", "tables need JetStream"),
        (tables({"name": "a"}, {"name": "a"}), "tables[1].name", 'Duplicate table "a"'),
        (tables({"url": "a"}, {"url": "a/"}), "tables[1].url", 'another table is at "a/" too'),
        (tables({"account": "A"}), "tables[0].account", 'account "A" is not configured'),
        (
            tables({"columns": {"n": "int64"}, "partition_by": ["n"]}),
            "tables[0].partition_by",
            "expected a column of the kind date or token(N)",
        ),
        ({"server_name": "a b"}, "server_name", "cannot contain spaces"),
        (
            {"shutdown": {"lame_duck_grace_period_s": 120}},
            "shutdown.lame_duck_grace_period_s",
            "expected less than",
        ),
        ({"jetstream": {"domain": "a b"}}, "jetstream.domain", 'derived "$JS.a b.API.>" is not a'),
        ({"jetstream": {"domain": ">"}}, "jetstream.domain", 'derived "$JS.>.API.>" is not a'),
        ({"jetstream": {"domain": "a.b"}}, "jetstream.domain", "may not contain ., * or >"),
        ({"jetstream": {"domain": "a*"}}, "jetstream.domain", "may not contain ., * or >"),
        ({"routing": {"cache_max": 10}}, "routing.cache_sweep_to", "expected at most"),
        ({"authorization": {"token": "t", **USER}}, "authorization.token", "user/pass and token"),
        (
            {"authorization": {**USER, "users": [USER]}},
            "authorization.user",
            "single user/pass and a users array",
        ),
        ({"authorization": {"password": "p"}}, "authorization.user", "expected a user name"),
        (
            {"authorization": {"users": [USER, USER]}},
            "authorization.users[1]",
            'Duplicate user "a" detected',
        ),
        (
            {"authorization": {"users": [{"nkey": "U1"}, {"nkey": "U1"}]}},
            "authorization.users[1]",
            'Duplicate nkey "U1" detected',
        ),
        ({"authorization": {"users": [{}]}}, "authorization.users[0]", "requires a user"),
        (
            {"authorization": {"users": [{"user": "a", "nkey": "U"}]}},
            "authorization.users[0].nkey",
            "got both",
        ),
        (
            {"authorization": {"users": [{"nkey": "U", "password": "p"}]}},
            "authorization.users[0].password",
            "no password",
        ),
        ({"accounts": [{"name": "$G"}]}, "accounts[0].name", "Reserved Account"),
        ({"accounts": [{"name": ""}]}, "accounts[0].name", "without blanks"),
        ({"accounts": [ACCOUNT, ACCOUNT]}, "accounts", 'Duplicate account "A"'),
        ({"system_account": "X"}, "system_account", "got 'X'"),
        (
            {"accounts": [{**ACCOUNT, "exports": [{}]}]},
            "accounts[0].exports[0]",
            "either stream or service",
        ),
        (
            {"accounts": [{**ACCOUNT, "imports": [{}]}]},
            "accounts[0].imports[0]",
            "either stream or service",
        ),
        (
            {"accounts": [{**ACCOUNT, "imports": [{"stream": {"account": "B", "subject": "x"}}]}]},
            "accounts[0].imports[0]",
            '"B" account not defined for stream import',
        ),
        (
            {
                "accounts": [
                    {
                        **ACCOUNT,
                        "imports": [
                            {"service": {"account": "A", "subject": "x"}, "prefix": "p"},
                        ],
                    }
                ]
            },
            "accounts[0].imports[0].prefix",
            "only a stream",
        ),
        ({"authorization": {"no_auth_user": "x"}}, "authorization.no_auth_user", "not present"),
        ({"tls": {"cert_file": "c"}}, "tls.key_file", "missing 'key_file'"),
        *(
            (within({"tls": table}, *path), f"{'.'.join((*path, 'tls'))}.cert_file", f"'{name}'")
            for path in ((), ("websocket",), ("leafnodes",), ("cluster",))
            for table, name in (
                ({"verify": True}, "verify"),
                ({"ca_file": "c"}, "ca_file"),
                ({"timeout_s": 5}, "timeout_s"),
                ({"min_version": "1.3", "pinned_certs": ["a"]}, "min_version"),
            )
        ),
        *(
            (
                {"leafnodes": {"remotes": [{"urls": ["h"], "tls": {given: "c"}}]}},
                f"leafnodes.remotes[0].tls.{missing}",
                f"missing '{missing}'",
            )
            for given, missing in (("cert_file", "key_file"), ("key_file", "cert_file"))
        ),
        ({"websocket": {"port": 80}}, "websocket.no_tls", "expected websocket.tls"),
        (
            {"websocket": {"authorization": {"no_auth_user": "x"}}},
            "websocket.authorization.no_auth_user",
            "not present",
        ),
        (
            {
                "authorization": {"users": [USER]},
                "websocket": {"authorization": {"user": "b", "password": "p"}},
            },
            "websocket.authorization.user",
            "username not compatible with presence of users",
        ),
        (
            {
                "accounts": [{**ACCOUNT, "users": [USER]}],
                "websocket": {"authorization": {"token": "t"}},
            },
            "websocket.authorization.token",
            "token not compatible with presence of users",
        ),
        (
            {"websocket": {"authorization": {"password": "p"}}},
            "websocket.authorization.user",
            "expected a user name",
        ),
        ({"websocket": {"jwt_cookie": "j"}}, "websocket.jwt_cookie", "expected operator mode"),
        *(
            (
                {"websocket": {"allowed_origins": [origin]}},
                "websocket.allowed_origins",
                repr(origin),
            )
            for origin in ("*", "x", "http://", "ftp://h", "http://h:b", "http://h:99999", "h:80")
        ),
        *(
            ({"websocket": {"headers": {name: "x"}}}, "websocket.headers", "not allowed")
            for name in ("Upgrade", "host", "Sec-WebSocket-Accept", "nats-no-masking")
        ),
        *(
            ({"websocket": {"headers": headers}}, "websocket.headers", "of one line")
            for headers in ({"": "x"}, {"a b": "x"}, {"a": "x\r\nSet-Cookie: y"})
        ),
        ({"monitoring": {"https_port": 80}}, "monitoring.https_port", "HTTPS needs it"),
        (
            {
                "monitoring": {"https_port": 80, "http_port": 81},
                "tls": {"cert_file": "c", "key_file": "k"},
            },
            "monitoring.https_port",
            "cannot have both",
        ),
        (
            {"operator": {"default_sentinel": "x"}},
            "operator.default_sentinel",
            "requires operators",
        ),
        (
            {"cluster": {"pool_size": -1, "accounts": ["A"]}},
            "cluster.pool_size",
            "pool_size cannot be negative if pinned accounts are specified",
        ),
        ({"cluster": {"accounts": ["A", "A"]}}, "cluster.accounts", "duplicate account name"),
    ],
)
def test_contradictions(raw: dict[str, Any], path: str, text: str) -> None:
    found = contradictions(raw)
    assert list(found) == [path]
    assert text in found[path]


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"authorization": {"no_auth_user": "a", "users": [USER]}},
        {"accounts": [{**ACCOUNT, "users": [USER]}], "authorization": {"no_auth_user": "a"}},
        {"accounts": [{"name": "$SYS"}], "system_account": "$SYS"},
        {"system_account": "ADMO3V", "operator": {"trusted_keys": ["OX"]}},
        {"websocket": {"port": 80, "no_tls": True}},
        {
            "authorization": {"users": [USER]},
            "websocket": {"authorization": {"no_auth_user": "a"}},
        },
        {
            "authorization": {"token": "t"},
            "websocket": {"authorization": {"user": "a", "password": "p", "token": "u"}},
        },
        {
            "websocket": {
                "allowed_origins": ["https://a", "http://[::1]:80"],
                "headers": {"X-From": "here, there"},
            },
        },
    ],
)
def test_what_fits_together(raw: dict[str, Any]) -> None:
    assert contradictions(raw) == {}
