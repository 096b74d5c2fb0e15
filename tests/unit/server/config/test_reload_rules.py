"""The settings that a reload may change."""

from __future__ import annotations

import pytest

from midge.server.config import schema
from midge.server.config.options import (
    Authorization,
    Cluster,
    Keepalive,
    Limits,
    Listen,
    Options,
    User,
)
from midge.server.config.reload_rules import FIXED, check_reload
from midge.server.errors import ConfigError

OLD = Options()


def test_nothing_changes() -> None:
    assert check_reload(OLD, Options()) == []


def test_changes_are_listed() -> None:
    new = Options(limits=Limits(max_connections=5), keepalive=Keepalive(ping_max=3))
    found = {change.setting.key: (change.old, change.new) for change in check_reload(OLD, new)}
    assert found == {"limits.max_connections": (65536, 5), "keepalive.ping_max": (2, 3)}


def test_secrets_and_tables_are_not_shown() -> None:
    users = (User(user="a", password="s3cret"),)
    new = Options(authorization=Authorization(token="s3cret", users=users))
    shown = {change.setting.key: change.text(change.new) for change in check_reload(OLD, new)}
    assert shown == {"authorization.token": "[REDACTED]", "authorization.users": "…"}


def test_listeners_stay() -> None:
    new = Options(listen=Listen(port=5, host="0.0.0.0"), keepalive=Keepalive(ping_max=3))
    with pytest.raises(ConfigError) as caught:
        check_reload(OLD, new)
    assert str(caught.value).splitlines() == [
        'config reload not supported for listen.host: old="127.0.0.1", new="0.0.0.0"',
        "config reload not supported for listen.port: old=4222, new=5",
    ]


def test_the_port_for_routes_stays_in_the_words_of_nats_server() -> None:
    with pytest.raises(ConfigError) as caught:
        check_reload(OLD, Options(cluster=Cluster(port=-1, host="0.0.0.0", name="C")))
    assert str(caught.value).splitlines() == [
        "config reload not supported for cluster host: old=127.0.0.1, new=0.0.0.0",
        "config reload not supported for cluster port: old=0, new=-1",
    ]
    assert check_reload(OLD, Options(cluster=Cluster(name="C", no_advertise=True)))


def test_what_is_fixed_exists() -> None:
    paths = {setting.path for setting in schema.settings()}
    prefixes = {path[:end] for path in paths for end in range(1, len(path) + 1)}
    assert set(FIXED) <= prefixes
