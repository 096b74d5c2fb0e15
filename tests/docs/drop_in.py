"""The lists of docs/drop-in.md, made from the code: `python -m tests.docs.drop_in`.

Each of nats-server's flags and configuration keys stands there with the setting that it fills, or
with midge's words when it is refused. Both are found out by trying.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from midge.server.config.nats_conf import (
    cluster_block,
    jetstream_blocks,
    leafnode_blocks,
    tls_block,
)
from midge.server.config.nats_conf import security_blocks as security_keys
from midge.server.config.nats_conf import server_block as server_keys
from midge.server.config.nats_conf.parser import ConfNode
from midge.server.config.nats_conf.sections import (
    IgnoredKey,
    Result,
    Section,
    UnsupportedKey,
    read_map,
)
from midge.server.process.flags import ACTIONS, SETTINGS, UNSUPPORTED, setting_values
from midge.server.process.go_flags import GivenFlag
from tests.conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from midge.server.config.nats_conf.sections import Handler
    from midge.server.process.go_flags import Flag

PAGE = ROOT / "docs" / "drop-in.md"
BEGIN, END = "<!-- made by python -m tests.docs.drop_in -->", "<!-- end -->"
LISTS = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}\n", re.DOTALL)


class Level(NamedTuple):
    """One kind of map in a file."""

    name: str
    keys: Mapping[str, Handler]
    within: str
    """Where such a map stands in a file; its entries take the place of `…`."""


LEVELS = (
    Level("Top level", server_keys.SERVER, "…"),
    Level("`authorization`", security_keys.AUTHORIZATION, "authorization { … }"),
    Level(
        "`auth_callout`",
        security_keys.AUTH_CALLOUT,
        "authorization { auth_callout { … } }",
    ),
    Level(
        "An entry of `users`",
        security_keys.USER,
        "authorization { users: [ { user: u, password: p, … } ] }",
    ),
    Level(
        "`permissions`",
        security_keys.PERMISSIONS,
        "authorization { users: [ { user: u, password: p, permissions { … } } ] }",
    ),
    Level(
        "`allow_responses`",
        security_keys.RESPONSES,
        "authorization { default_permissions { allow_responses { … } } }",
    ),
    Level("An entry of `accounts`", security_keys.ACCOUNT, "accounts { A { … } }"),
    Level(
        "`limits` of an account", security_keys.ACCOUNT_LIMITS, "accounts { A { limits { … } } }"
    ),
    Level("An entry of `exports`", security_keys.EXPORT, "accounts { A { exports: [ { … } ] } }"),
    Level("An entry of `imports`", security_keys.IMPORT, "accounts { A { imports: [ { … } ] } }"),
    Level(
        "A destination in `mappings`",
        security_keys.DESTINATION,
        "mappings { a: [ { … } ] }",
    ),
    Level("`tls`", tls_block.TLS, "tls { … }"),
    Level("`jetstream`", jetstream_blocks.SERVER, "jetstream { … }"),
    Level("`limits` of `jetstream`", jetstream_blocks.LIMITS, "jetstream { limits { … } }"),
    Level("`batch` of these", jetstream_blocks.BATCH, "jetstream { limits { batch { … } } }"),
    Level(
        "`jetstream` of an account", jetstream_blocks.ACCOUNT, "accounts { A { jetstream { … } } }"
    ),
    Level("`cluster`", cluster_block.CLUSTER, "cluster { … }"),
    Level(
        "`authorization` of `cluster`",
        cluster_block.CLUSTER_AUTHORIZATION,
        "cluster { authorization { … } }",
    ),
    Level(
        "`permissions` of `cluster`",
        cluster_block.CLUSTER_PERMISSIONS,
        "cluster { permissions { … } }",
    ),
    Level("`leafnodes`", leafnode_blocks.LEAFNODES, "leafnodes { … }"),
    Level(
        "`authorization` of `leafnodes`",
        leafnode_blocks.LEAF_AUTHORIZATION,
        "leafnodes { authorization { … } }",
    ),
    Level(
        "A user in it",
        leafnode_blocks.LEAF_USER,
        "leafnodes { authorization { users: [ { … } ] } }",
    ),
    Level("An entry of `remotes`", leafnode_blocks.REMOTE, "leafnodes { remotes: [ { … } ] }"),
    Level(
        "`tls` of a remote", leafnode_blocks.REMOTE_TLS, "leafnodes { remotes: [ { tls { … } } ] }"
    ),
    Level(
        "`proxy` of a remote", leafnode_blocks.PROXY, "leafnodes { remotes: [ { proxy { … } } ] }"
    ),
    Level("`resolver`", security_keys.RESOLVER, 'resolver { type: full, dir: "jwt", … }'),
    Level("`websocket`", server_keys.WEBSOCKET, "websocket { … }"),
    Level(
        "`authorization` of `websocket`",
        server_keys.WEBSOCKET_AUTHORIZATION,
        "websocket { authorization { … } }",
    ),
)

SAMPLES: tuple[object, ...] = (
    45,
    True,
    "1m",
    "full",
    "1.2",
    "30%",
    "default",
    "stream",
    "owner",
    "aes",
    {},
    [],
    False,
    "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY",
    "UBSLWU4MQK2XPAOXJQN5VLMYTJPHFKDVWJJRLXFTIBLIGUDPYXWFZQMG",
    "ABJHLOVMPA4CI6R5KLNGOB4GSLNIY7IOUPAJC4YFNDLQVIOBYQGUWVLA",
    "XA6CTUYPVPFX63V7PRCKNAHYUFNBTCZ5MILQERYET4TSLRVWOBUG6LUB",
)
"""Values, one of which each key accepts."""

WITHOUT_SETTING = {
    "curve_preferences": "`curve_preferences`; one curve, several draw a warning",
    "feature_flags": "`jetstream.ack_format`, by `js_ack_fc_v2`; others draw a warning",
    "remotes": "`leafnodes.remotes`",
    **dict.fromkeys(
        ("allow_responses", "publish_allow_responses"), "none; only `false` is accepted"
    ),
    **dict.fromkeys(
        ("permissions", "default_permissions", "default_permission"), "`cluster.permissions`"
    ),
    "users": "`users`",
    "compression": "`compression`, `compression_rtt_s`",
    "limits": "the table below",
    "auth_callout": "`auth_callout`, the table below",
    "auth_hook": "`auth_callout`, the table below",
    "batch": "`limits.max_batch_…`",
    "tls": "`tls`",
    "mappings": "`mappings`",
    "maps": "`mappings`",
    "proxy": "`proxy`",
    "resolver_tls": "`operator.resolver_tls`",
    "verify_cert_and_check_known_urls": "`cluster.check_known_urls`; for routes only",
    "cipher_suites": "`cipher_suites`",
    **dict.fromkeys(("certs", "certificates"), "`cert_file` and `key_file`, of the first of them"),
    "resolver": "`operator.resolver`",
    "account_resolver": "`operator.resolver`",
    "accounts_resolver": "`operator.resolver`",
}
"""Keys that fill no setting when they are tried, and what to say of them."""

SAFER = (
    "| `tls` of a listener | no `cert_file` or `certs` | refuses it: no handshake succeeds |",
    "| `authorization` | `password` without `user` | refuses it: nats-server admits everyone |",
)
"""What midge refuses although nats-server starts with it."""

ACTION_TEXTS = {
    "help": "the usage",
    "version": (
        "midge's version, its build and the nats-server it answers as; "
        "called `nats-server`, that one's line"
    ),
    "help_tls": "about TLS in configuration files",
    "check": "test the configuration file",
    "config": "the configuration file",
    "signal": "send a signal to a running server",
}


def document() -> str:
    """Return the text between the markers of the page."""
    lines = [
        BEGIN,
        "",
        *_differences(),
        *_flags(),
        *(line for level in LEVELS for line in _level(level)),
        END,
    ]
    return "\n".join(lines) + "\n"


def refusals(level: Level) -> dict[str, str]:
    """Return the refused keys of a level with midge's words, as the page has them."""
    return {
        key: f"midge does not support {handler.feature}"
        for key, handler in level.keys.items()
        if isinstance(handler, UnsupportedKey)
    }


def missing_switches(level: Level) -> set[str]:
    """Return the refused keys of a level that may be `false`, as nats-server takes it for them."""
    missing = {key: one for key, one in level.keys.items() if isinstance(one, UnsupportedKey)}
    return {key for key, handler in missing.items() if handler.is_switch}


def _differences() -> Iterator[str]:
    """List each key that midge refuses, or takes with a warning because it has no effect."""
    yield from ("### What midge refuses or ignores", "")
    yield from ("| where | key | what midge does |", "|---|---|---|")
    for level in LEVELS:
        told: dict[str, list[str]] = {}
        for key, handler in level.keys.items():
            if isinstance(handler, UnsupportedKey):
                but = "; `false` is taken" if handler.is_switch else ""
                told.setdefault(f"refuses it: {handler.feature}{but}", []).append(key)
            elif isinstance(handler, IgnoredKey):
                told.setdefault(f"warns: {handler.reason}", []).append(key)
        yield from (f"| {level.name} | {_keys(keys)} | {text} |" for text, keys in told.items())
    yield from SAFER
    yield ""


def _flags() -> Iterator[str]:
    yield from ("### Flags", "", "| flag | what it does |", "|---|---|")
    for flag in ACTIONS + tuple(flag for flag in SETTINGS if flag.names != ("record",)):
        yield f"| {_names(flag)} | {_effect(flag)} |"
    yield from (f"| {_names(flag)} | none: {flag.target[0]} |" for flag in UNSUPPORTED)
    yield ""


def _names(flag: Flag) -> str:
    return ", ".join(f"`{_dashed(name)}`" for name in flag.names)


def _dashed(name: str) -> str:
    return f"-{name}" if len(name) < 3 or name.isupper() else f"--{name}"


def _effect(flag: Flag) -> str:
    if flag in ACTIONS:
        return ACTION_TEXTS[flag.target[0]]
    if flag.target == ("tls", "tls"):
        return "make `--tlscert` and `--tlskey` obligatory"
    value = {"bool": True, "int": 1, "str": ""}[flag.kind]
    given = setting_values([GivenFlag(flag, flag.names[0], value)])
    return ", ".join(f"`{'.'.join(path)}`" for path, _, _ in given)


def _level(level: Level) -> Iterator[str]:
    taken: dict[str, list[str]] = {}
    for key, handler in level.keys.items():
        if isinstance(handler, UnsupportedKey | IgnoredKey):
            continue
        taken.setdefault(_target(level, key), []).append(key)
    yield from (f"### {level.name}", "", "| key | setting |", "|---|---|")
    yield from (f"| {_keys(keys)} | {target} |" for target, keys in taken.items())
    yield ""


def _keys(keys: list[str]) -> str:
    return ", ".join(f"`{key}`" for key in keys)


def _target(level: Level, key: str) -> str:
    """Return the settings that a key fills, found by giving it values until one is taken."""
    for sample in SAMPLES:
        result = Result()
        read_map(_node({key: _node(sample)}), Section(result, result.values, ()), level.keys)
        if not result.errors:
            paths = [".".join(map(str, path)) for path in result.places]
            leaves = [
                one for one in paths if not any(other.startswith(f"{one}.") for other in paths)
            ]
            found = leaves or list(result.values)
            return ", ".join(f"`{one}`" for one in found) or WITHOUT_SETTING[key]
    assert key in WITHOUT_SETTING, f"{level.name}: no sample fits {key}"
    return WITHOUT_SETTING[key]


def _node(value: object) -> ConfNode:
    return ConfNode(value, "x.conf", 1, 0)


def main() -> None:
    """Bring the page up to date."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(LISTS.sub(lambda _: document(), text), encoding="utf-8")


if __name__ == "__main__":
    main()
