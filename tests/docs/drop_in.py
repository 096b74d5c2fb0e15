"""The lists of docs/drop-in.md, made from the code: `python -m tests.docs.drop_in`.

Each of nats-server's flags and configuration keys stands there with the setting that it fills, or
with midge's words when it is refused. Both are found out by trying.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from midge.server.config.nats_conf import cluster_block, jetstream_blocks, leafnode_blocks
from midge.server.config.nats_conf import security_blocks as security_keys
from midge.server.config.nats_conf import server_block as server_keys
from midge.server.config.nats_conf.parser import Node
from midge.server.config.nats_conf.sections import Missing, Result, Section, read_map
from midge.server.errors import ConfigError
from midge.server.process.flags import ACTIONS, SETTINGS, UNSUPPORTED, setting_values
from midge.server.process.go_flags import Given
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
    Level("`tls`", security_keys.TLS, "tls { … }"),
    Level("`jetstream`", jetstream_blocks.SERVER, "jetstream { … }"),
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
    "write_timeout": "none; `default` and `close` are accepted, which mean the same for clients",
    "feature_flags": "`jetstream.ack_format`, by `js_ack_fc_v2`",
    **dict.fromkeys(
        ("max_outstanding_catchup", "info_queue_limit", "meta_compact", "meta_compact_size"),
        "none; only servers with replicated streams use it",
    ),
    "accounts": "none; one route carries all accounts",
    "pool_size": "none; a route is one connection, and nats-server is told so",
    "remotes": "`leafnodes.remotes`",
    **dict.fromkeys(
        ("allow_responses", "publish_allow_responses"), "none; only `false` is accepted"
    ),
    **dict.fromkeys(
        ("permissions", "default_permissions", "default_permission"), "`cluster.permissions`"
    ),
    "users": "`users`",
    "compression": "none; what means no compression is accepted",
    "verify": "none; a client checks in any case, unless `insecure`",
    "meta_compact_sync": "none; only servers with replicated streams use it",
    "cluster_traffic": "none; only servers with replicated streams use it",
    "limits": "the table below",
    "auth_callout": "`auth_callout`, the table below",
    "auth_hook": "`auth_callout`, the table below",
    "batch": "`limits.max_batch_…`",
    "timeout": "none; a server on its own asks no other",
    "tls": "`tls`",
    "mappings": "`mappings`",
    "maps": "`mappings`",
}
"""Keys that fill no setting when they are tried, and what to say of them."""

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
    lines = [BEGIN, "", *_flags(), *(line for level in LEVELS for line in _level(level)), END]
    return "\n".join(lines) + "\n"


def refusals(level: Level) -> dict[str, str]:
    """Return the refused keys of a level with midge's words, as the page has them."""
    return {
        key: f"midge does not support {handler.feature}"
        for key, handler in level.keys.items()
        if isinstance(handler, Missing)
    }


def missing_switches(level: Level) -> set[str]:
    """Return the refused keys of a level that may be `false`, as nats-server takes it for them."""
    missing = {key: one for key, one in level.keys.items() if isinstance(one, Missing)}
    return {key for key, handler in missing.items() if handler.is_switch}


def _flags() -> Iterator[str]:
    yield from ("### Flags", "", "| flag | what it does |", "|---|---|")
    for flag in ACTIONS + tuple(flag for flag in SETTINGS if flag.names != ("record",)):
        yield f"| {_names(flag)} | {_effect(flag)} |"
    yield from ("", "Refused:", "", "| flag | the error |", "|---|---|")
    for flag in UNSUPPORTED:
        yield f"| {_names(flag)} | {_flag_refusal(flag)} |"
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
    given = setting_values([Given(flag, flag.names[0], value)])
    return ", ".join(f"`{'.'.join(path)}`" for path, _, _ in given)


def _flag_refusal(flag: Flag) -> str:
    value = {"bool": True, "int": 1, "str": ""}[flag.kind]
    try:
        list(setting_values([Given(flag, f"-{flag.names[0]}", value)]))
    except ConfigError as error:
        return f"`{error}`"
    raise AssertionError(flag)


def _level(level: Level) -> Iterator[str]:
    taken: dict[str, list[str]] = {}
    refused: dict[str, list[str]] = {}
    for key, text in refusals(level).items():
        refused.setdefault(text, []).append(key)
    for key in (one for one in level.keys if one not in refusals(level)):
        taken.setdefault(_target(level, key), []).append(key)
    yield from (f"### {level.name}", "", "| key | setting |", "|---|---|")
    yield from (f"| {_keys(keys)} | {target} |" for target, keys in taken.items())
    if refused:
        yield from ("", "Refused:", "", "| key | the error |", "|---|---|")
        yield from (f"| {_keys(keys)} | `{text}` |" for text, keys in refused.items())
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


def _node(value: object) -> Node:
    return Node(value, "x.conf", 1, 0)


def main() -> None:
    """Bring the page up to date."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(LISTS.sub(lambda _: document(), text), encoding="utf-8")


if __name__ == "__main__":
    main()
