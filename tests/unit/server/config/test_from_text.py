"""Texts of the environment and the command line as typed values."""

from __future__ import annotations

from typing import Any

import pytest

from midge.server.config import schema
from midge.server.config.from_text import from_text

KINDS = {setting.key: setting.type for setting in schema.settings()}


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("listen.port", "42", 42),
        ("listen.port", " 42 ", 42),
        ("listen.port", "4x", "4x"),
        ("listen.port", "٤٢", "٤٢"),
        ("listen.port", "1_000", "1_000"),
        ("listen.port", "9" * 5000, "9" * 5000),
        ("listen.host", "1", "1"),
        ("logging.debug", "Yes", True),
        ("logging.debug", "0", False),
        ("logging.debug", "maybe", "maybe"),
        ("keepalive.ping_interval_s", "2.5", 2.5),
        ("keepalive.ping_interval_s", "nan", "nan"),
        ("keepalive.ping_interval_s", "1e9", "1e9"),
        ("logging.format", "json", "json"),
        ("websocket.allowed_origins", "a, b,", ["a", "b"]),
        ("websocket.allowed_origins", '["a,b"]', ["a,b"]),
        ("websocket.headers", '{"a": "b"}', {"a": "b"}),
        ("accounts", "[{]", "[{]"),
        ("accounts", "[" * 100_000, "[" * 100_000),
    ],
)
def test_from_text(key: str, text: str, value: Any) -> None:
    assert from_text(text, KINDS[key]) == value
