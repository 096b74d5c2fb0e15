"""The errors about wrong values."""

from __future__ import annotations

from typing import Any

import pytest

from midge.server.config.options import Options
from midge.server.config.type_check import find_problems, format_path


def problems(raw: Any) -> list[str]:
    return [f"{format_path(one.path)}: {one.text}" for one in find_problems(raw, Options)]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ({"listen": 1}, "listen: expected a table, got 1"),
        ({"listen": {"host": True}}, "listen.host: expected str, got true"),
        ({"logging": {"debug": 1}}, "logging.debug: expected true or false, got 1"),
        (
            {"keepalive": {"ping_max": True}},
            "keepalive.ping_max: expected int of 1 or more, got true",
        ),
        (
            {"keepalive": {"ping_max": 1.0}},
            "keepalive.ping_max: expected int of 1 or more, got 1.0",
        ),
        (
            {"keepalive": {"ping_interval_s": float("nan")}},
            "keepalive.ping_interval_s: expected number above 0, got nan",
        ),
        (
            {"keepalive": {"ping_interval_s": float("inf")}},
            "keepalive.ping_interval_s: expected number above 0, got inf",
        ),
        (
            {"limits": {"max_connections": 10**400}},
            "limits.max_connections: expected int of 0 or more, got a huge int",
        ),
        (
            {"routing": {"queue_selection": "fair"}},
            "routing.queue_selection: expected one of 'random', 'round_robin', got 'fair'",
        ),
        ({"accounts": {}}, "accounts: expected a list, got a table"),
        ({"websocket": {"headers": []}}, "websocket.headers: expected a table, got a list"),
        (
            {"websocket": {"headers": {"a": 1}}},
            "websocket.headers.a: expected str, got 1",
        ),
        (
            {"authorization": {"hook": "no colon"}},
            "authorization.hook: expected 'module:function' or nothing, got 'no colon'",
        ),
        (
            {"jetstream": {"sync_interval": "later"}},
            "jetstream.sync_interval: expected 'always' or a duration such as '2m', got 'later'",
        ),
        ({"zzzzqqq": 1}, "zzzzqqq: unknown key"),
        (
            {"server_name": ["x" * 100]},
            "server_name: expected str, got a list",
        ),
        ({"logging": {"debug": "x" * 100}}, "got '" + "x" * 58 + "…"),
    ],
)
def test_texts(raw: Any, text: str) -> None:
    (found,) = problems(raw)
    assert found.endswith(text)


def test_an_integer_is_a_number() -> None:
    assert problems({"keepalive": {"ping_interval_s": 5}}) == []


def test_optional_tables() -> None:
    assert problems({"authorization": {"default_permissions": {}}}) == []
    (found,) = problems({"authorization": {"default_permissions": {"publish": {"alow": []}}}})
    path = "authorization.default_permissions.publish.alow"
    assert found == f"{path}: unknown key; did you mean 'allow'?"
